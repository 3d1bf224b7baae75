from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import otpy
from otpy import ChildSpec, InvalidSpec, Killed, Restart, Strategy, SupervisorSpec
from otpy.testing import MockClock
from otpy_monitors import (
    Action,
    AgentAppeared,
    CommandBlocked,
    CommandRun,
    Deletion,
    Feed,
    OverBudget,
    Progressed,
    Rule,
    RuleBook,
    Spent,
    Stalled,
    StallWarned,
    Subject,
    Sweeping,
    Swept,
    Violated,
    ViolationRule,
    monitor_supervisor,
)
from tests.monitors.agents import card
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
    """Health, budget, hygiene over its daemon, violation; one for one (TREE-42, C-17)."""
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


# --- with a feed ------------------------------------------------------------------------------

BOOK = RuleBook([ViolationRule("r", CommandBlocked((re.compile("x"),)), Action.REAP)])


def fed(scene: Scene, feed: Feed) -> SupervisorSpec:
    """Return the branch that listens to a feed, with something to find for each daemon."""
    return monitor_supervisor(
        scene.board,
        scene.report,
        spent=lambda: Spent(2.0, 0),
        max_seconds=1.0,
        rules=BOOK,
        chores={"chore": found},
        feed=feed,
    )


@asynccontextmanager
async def fed_branch(scene: Scene, feed: Feed) -> AsyncGenerator[otpy.Supervisor]:
    """Run it beside a worker that is never touched."""
    workers = ChildSpec("worker", asyncio.Event().wait)
    async with otpy.start(SupervisorSpec("app", [workers, fed(scene, feed)]), hooks=()) as root:
        yield root


async def test_with_a_feed_the_branch_has_the_same_shape(scene: Scene) -> None:
    """The same daemons, under the same names and policies."""
    one, other = spec(scene), fed(scene, Feed())
    assert other == attrs.evolve(one, children=other.children)
    for old, new in zip(one.children, other.children, strict=True):
        assert isinstance(new, ChildSpec | SupervisorSpec)
        if isinstance(new, ChildSpec) and isinstance(old, ChildSpec):
            same = new.replace(start=old.start, args=old.args, kwargs=old.kwargs)
            assert same == old


async def test_deeds_from_before_its_start_are_judged(scene: Scene, clock: MockClock) -> None:
    """Agents may be at work before the monitors are: nothing they do gets by."""
    feed = Feed()
    monitors = fed(scene, feed)
    feed.tell(AgentAppeared(0.0, card()))
    feed.tell(CommandRun("site/a", 0.0, "x"))
    async with otpy.start(SupervisorSpec("app", [monitors]), hooks=()):
        await clock.advance(0)
    assert [type(one) for one in scene.found].count(Violated) == 1


@pytest.mark.parametrize("daemon", DAEMONS)
@pytest.mark.parametrize("moment", [0.0, 0.1, 7.3])
async def test_a_killed_daemon_of_a_feed_comes_back_and_has_missed_nothing(
    scene: Scene, clock: MockClock, daemon: str, moment: float
) -> None:
    """Agents do not notice, and what they do while it is dead is found (acceptance 18)."""
    feed = Feed()
    feed.tell(AgentAppeared(0.0, card(stall=8.0, warn_stall_at=4.0)))
    async with fed_branch(scene, feed) as root:
        below = [name for name in DAEMONS if f"{name}/".startswith(f"{daemon}/")]
        others = [f"app/MonitorSupervisor/{name}" for name in DAEMONS if name not in below]
        before = {path: root.whereis(path) for path in [*others, "app/worker"]}
        victim = root.whereis(f"app/MonitorSupervisor/{daemon}")
        await clock.advance(moment)
        scene.found.clear()
        victim.kill()
        assert await victim.wait() == Killed()
        feed.tell(CommandRun("site/a", clock.now, "x"))
        feed.tell(Progressed("site/a", clock.now, "message"))
        await clock.advance(20)
        assert root.whereis(f"app/MonitorSupervisor/{daemon}").incarnation == 2
        assert {path: root.whereis(path) for path in before} == before
    kinds = [type(one) for one in scene.found]
    assert [kinds.count(kind) for kind in (StallWarned, Stalled, Violated)] == [1, 1, 1]


async def test_rules_and_feed_must_fit(scene: Scene) -> None:
    """Rules of the board are nothing for a feed, and the other way round."""
    old = Rule("r", re.compile("x"), Subject.COMMAND, Action.LOG)
    one: dict[str, Any] = {"spent": Spent, "chores": {}}
    with pytest.raises(InvalidSpec, match=r"rules is \[Rule.*, wanted a RuleBook"):
        monitor_supervisor(scene.board, scene.report, rules=[old], feed=Feed(), **one)
    with pytest.raises(InvalidSpec, match="feed is None, wanted one"):
        monitor_supervisor(scene.board, scene.report, rules=BOOK, **one)
    with pytest.raises(InvalidSpec, match="feed is None, wanted one"):
        monitor_supervisor(
            scene.board, scene.report, loop_watch=lambda _: contextlib.nullcontext(), **one
        )
