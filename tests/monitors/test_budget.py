from __future__ import annotations

import pytest

from otpy.testing import MockClock
from otpy_monitors import OverBudget, Spent, budget_monitor
from tests.monitors.shown import Scene, Worker, running


async def test_a_budget_is_warned_of_at_nine_tenths_and_reported_when_used_up(
    scene: Scene, clock: MockClock
) -> None:
    """One warning, one report of its end, and never again (TREE-44)."""
    worker = Worker(max_seconds=100.0)
    with scene.showing(worker):
        async with running(budget_monitor(scene.board, scene.report, spent=Spent)):
            worker.seconds = 89.9
            await clock.advance(10)
            assert scene.found == []
            for worker.seconds in (90.0, 95.0, 100.0):
                await clock.advance(10)
            warning = OverBudget("app/pool/a", "wall seconds", 90.0, 100.0, warning=True)
            assert scene.found == [warning]
            for worker.seconds in (100.1, 120.0):
                await clock.advance(10)
    assert scene.found == [warning, OverBudget("app/pool/a", "wall seconds", 100.1, 100.0)]


async def test_a_budget_that_is_overrun_at_one_go_is_not_warned_of(
    scene: Scene, clock: MockClock
) -> None:
    """A warning after the fact would be noise."""
    worker = Worker(max_output_bytes=1000, output_bytes=5000)
    with scene.showing(worker):
        async with running(budget_monitor(scene.board, scene.report, spent=Spent)):
            await clock.advance(10)
    assert scene.found == [OverBudget("app/pool/a", "output bytes", 5000, 1000)]


async def test_budgets_of_siblings_are_told_apart(scene: Scene, clock: MockClock) -> None:
    """Each worker and each kind of budget is reported for itself."""
    one = Worker("app/pool/a", max_seconds=1.0, seconds=2.0, max_output_bytes=1, output_bytes=2)
    other = Worker("app/pool/b", max_seconds=1.0, seconds=2.0)
    with scene.showing(one), scene.showing(other), scene.showing(Worker("app/pool/c")):
        async with running(budget_monitor(scene.board, scene.report, spent=Spent)):
            await clock.advance(10)
    named = [(o.path[-1], o.what) for o in scene.found if isinstance(o, OverBudget)]
    assert named == [("a", "wall seconds"), ("a", "output bytes"), ("b", "wall seconds")]


@pytest.mark.parametrize(
    ("spent", "what"), [(Spent(101.0, 0), "wall seconds"), (Spent(0.0, 1001), "output bytes")]
)
async def test_the_whole_list_has_a_budget_too(
    scene: Scene, clock: MockClock, spent: Spent, what: str
) -> None:
    """It counts what workers that have ended have used, and names no worker."""
    monitor = budget_monitor(
        scene.board, scene.report, spent=lambda: spent, max_seconds=100.0, max_output_bytes=1000
    )
    async with running(monitor):
        await clock.advance(10)
    (finding,) = scene.found
    assert isinstance(finding, OverBudget)
    assert (finding.path, finding.what, finding.warning) == ("", what, False)
    assert "of the whole list used up" in str(finding)


async def test_a_daemon_started_again_reports_what_still_holds(
    scene: Scene, clock: MockClock
) -> None:
    """Its memory dies with it: a finding that was lost in between is never lost for good."""
    with scene.showing(Worker(max_seconds=1.0, seconds=2.0)):
        for _ in range(2):
            async with running(budget_monitor(scene.board, scene.report, spent=Spent)):
                await clock.advance(10)
    assert len(scene.found) == 2
