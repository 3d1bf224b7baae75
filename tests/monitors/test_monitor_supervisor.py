from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

import otpy
from otpy import ChildSpec, Killed, Restart, Strategy, SupervisorSpec
from otpy.testing import MockClock
from otpy_monitors import (
    Action,
    Deletion,
    OverBudget,
    Rule,
    Spent,
    Stalled,
    Subject,
    Sweeping,
    Swept,
    Violated,
    monitor_supervisor,
)
from tests.monitors.shown import Scene, Worker

DAEMONS = [
    "HealthMonitor",
    "BudgetMonitor",
    "HygieneSupervisor",
    "HygieneSupervisor/cleanup-daemon",
    "ViolationMonitor",
]


async def nothing() -> None:
    pass


async def found() -> AsyncIterator[Deletion]:
    yield Deletion("it", nothing)


def spec(scene: Scene) -> SupervisorSpec:
    """Return the branch with something to find for each daemon."""
    return monitor_supervisor(
        scene.board,
        scene.report,
        spent=lambda: Spent(2.0, 0),
        max_seconds=1.0,
        rules=[Rule("r", re.compile("x"), Subject.COMMAND, Action.LOG)],
        chores={"chore": found},
    )


@asynccontextmanager
async def branch(scene: Scene) -> AsyncGenerator[otpy.Supervisor]:
    """Run the branch beside a worker that is never touched."""
    workers = ChildSpec("worker", asyncio.Event().wait)
    async with otpy.start(SupervisorSpec("app", [workers, spec(scene)]), hooks=()) as root:
        yield root


async def test_the_branch_has_the_shape_of_the_card(scene: Scene) -> None:
    """Health, budget, hygiene over its daemon, violation; one for one; all permanent (TREE-42)."""
    monitors = spec(scene)
    assert (monitors.id, monitors.strategy) == ("MonitorSupervisor", Strategy.ONE_FOR_ONE)
    names = ["HealthMonitor", "BudgetMonitor", "HygieneSupervisor", "ViolationMonitor"]
    assert [child.id for child in monitors.children] == names
    assert {child.restart for child in monitors.children} == {Restart.PERMANENT}


async def test_the_cleanup_daemon_has_its_policy(scene: Scene) -> None:
    """One for one over `cleanup-daemon`, permanent, 30 s to stop, every 5 min (TREE-45)."""
    hygiene = spec(scene).children[2]
    assert isinstance(hygiene, SupervisorSpec)
    assert (hygiene.id, hygiene.strategy) == ("HygieneSupervisor", Strategy.ONE_FOR_ONE)
    (daemon,) = hygiene.children
    assert isinstance(daemon, ChildSpec)
    assert (daemon.id, daemon.restart, daemon.shutdown) == (
        "cleanup-daemon",
        Restart.PERMANENT,
        30.0,
    )
    assert daemon.kwargs == {"every": 300.0, "dry_run": False}


async def test_every_daemon_does_its_job_in_the_tree(scene: Scene, clock: MockClock) -> None:
    """One worker that is wrong in every way is found by each of them."""
    with scene.showing(Worker(stall=1.0, max_seconds=1.0, seconds=2.0, argv=("x",))):
        async with branch(scene):
            await clock.advance(5)
    kinds = {type(finding) for finding in scene.found}
    assert kinds == {Stalled, OverBudget, Sweeping, Swept, Violated}
    assert {one.path for one in scene.found if isinstance(one, OverBudget)} == {"", "app/pool/a"}


@pytest.mark.parametrize("daemon", DAEMONS)
@pytest.mark.parametrize("moment", [0.0, 0.1, 0.25, 7.3])
async def test_a_killed_daemon_comes_back_and_nobody_else_notices(
    scene: Scene, clock: MockClock, daemon: str, moment: float
) -> None:
    """Killed at any moment it is restarted, and finds what is there (acceptance 18)."""
    with scene.showing(Worker(stall=1.0, max_seconds=1.0, seconds=2.0, argv=("x",))):
        async with branch(scene) as root:
            below = [name for name in DAEMONS if f"{name}/".startswith(f"{daemon}/")]
            others = [f"app/MonitorSupervisor/{name}" for name in DAEMONS if name not in below]
            before = {path: root.whereis(path) for path in [*others, "app/worker"]}
            victim = root.whereis(f"app/MonitorSupervisor/{daemon}")
            await clock.advance(moment)
            scene.found.clear()
            victim.kill()
            assert await victim.wait() == Killed()
            await clock.advance(1)
            again = root.whereis(f"app/MonitorSupervisor/{daemon}")
            assert again.incarnation == 2
            await clock.advance(10)
            assert again.alive
            assert {path: root.whereis(path) for path in before} == before
    kind = dict(zip(DAEMONS, (Stalled, OverBudget, Swept, Swept, Violated), strict=True))[daemon]
    assert any(isinstance(one, kind) for one in scene.found)


async def test_a_monitor_that_is_broken_for_good_does_not_end_the_workers(
    scene: Scene, clock: MockClock
) -> None:
    """Its supervisor gives up and is started again, too seldom to reach the root (TREE-23)."""

    def broken(finding: object) -> None:
        raise RuntimeError("broken")

    monitors = monitor_supervisor(scene.board, broken, spent=Spent, chores={"chore": found})
    workers = ChildSpec("worker", asyncio.Event().wait)
    with scene.showing(Worker(stall=1.0)):
        async with otpy.start(SupervisorSpec("app", [workers, monitors]), hooks=()) as root:
            await clock.advance(3600)
            assert root.child("worker").incarnation == 1
            assert 5 < root.child("MonitorSupervisor").incarnation < 60
