"""The branch of monitors: its shape, and its recovery from kills."""

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
    AgentAppeared,
    BudgetSpent,
    CommandBlocked,
    CommandRun,
    Deletion,
    Feed,
    Limits,
    OutputSeen,
    Progressed,
    RuleBook,
    RulesInForce,
    Stalled,
    StallWarned,
    Sweeping,
    Swept,
    Violated,
    ViolationRule,
    monitor_supervisor,
)
from tests.monitors.agents import card
from tests.monitors.budget.office import Memory, Office
from tests.monitors.shown import Scene

DAEMONS = [
    "HealthMonitor",
    "BudgetMonitor",
    "LedgerKeeper",
    "HygieneSupervisor",
    "HygieneSupervisor/cleanup-daemon",
    "ViolationMonitor",
]
BOOK = RuleBook([ViolationRule("r", CommandBlocked((re.compile("x"),)), Action.REAP)])


@pytest.fixture
async def office(clock: MockClock) -> Office:
    """A feed, and a ledger in which one agent may write ten bytes."""
    office = Office()
    office.ledger.open("site/a", limits=Limits(output_bytes=10))
    return office


async def nothing() -> None:
    pass


async def found() -> AsyncIterator[Deletion]:
    yield Deletion("it", nothing)


def spec(scene: Scene, office: Office, *, watch_loop: bool = False) -> SupervisorSpec:
    """Return the branch with something to find for each daemon."""
    return monitor_supervisor(
        office.feed,
        scene.report,
        rules=BOOK,
        bookkeeper=office.bookkeeper,
        ledger_store=Memory(),
        chores={"chore": found},
        watch_loop=watch_loop,
    )


@asynccontextmanager
async def branch(scene: Scene, office: Office) -> AsyncGenerator[otpy.Supervisor]:
    """Run the branch beside a worker that stays untouched."""
    workers = ChildSpec("worker", asyncio.Event().wait)
    tree = SupervisorSpec("app", [workers, spec(scene, office)])
    async with otpy.start(tree, hooks=()) as root:
        yield root


def misbehave(office: Office, at: float) -> None:
    """Make the agent break every limit, and then fall silent."""
    office.feed.tell(CommandRun("site/a", at, "x"))
    office.feed.tell(OutputSeen("site/a", at, 20))
    office.feed.tell(Progressed("site/a", at, "message"))


async def test_the_branch_has_the_shape_of_the_card(scene: Scene, office: Office) -> None:
    """Health, budget, hygiene over its daemon, violation; one for one (TREE-42, C-17)."""
    monitors = spec(scene, office, watch_loop=True)
    assert (monitors.id, monitors.strategy) == ("MonitorSupervisor", Strategy.ONE_FOR_ONE)
    names = [name for name in DAEMONS if "/" not in name]
    assert [child.id for child in monitors.children] == [*names, "LoopMonitor"]
    assert {child.restart for child in monitors.children} == {Restart.PERMANENT}


async def test_what_is_not_asked_for_is_no_child(scene: Scene) -> None:
    """Without a bookkeeper there is no watch on budgets, and nothing is saved."""
    monitors = monitor_supervisor(Feed(), scene.report, chores={})
    names = ["HealthMonitor", "HygieneSupervisor", "ViolationMonitor"]
    assert [child.id for child in monitors.children] == names


async def test_the_cleanup_daemon_has_its_policy(scene: Scene, office: Office) -> None:
    """One for one over `cleanup-daemon`, permanent, 30 s to stop, every 5 min (TREE-45)."""
    hygiene = spec(scene, office).children[3]
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


async def test_every_daemon_does_its_job_in_the_tree(
    scene: Scene, office: Office, clock: MockClock
) -> None:
    """One agent that breaks every limit is found by each of them."""
    async with branch(scene, office):
        office.feed.tell(AgentAppeared(0.0, card(stall=1.0)))
        misbehave(office, 0.0)
        await clock.advance(5)
    kinds = {type(finding) for finding in scene.found} - {RulesInForce}
    assert kinds == {Stalled, BudgetSpent, Sweeping, Swept, Violated}


@pytest.mark.parametrize("daemon", DAEMONS)
@pytest.mark.parametrize("moment", [0.0, 0.1, 0.25, 7.3])
async def test_a_killed_daemon_comes_back_and_has_missed_nothing(
    scene: Scene, office: Office, clock: MockClock, daemon: str, moment: float
) -> None:
    """Agents do not notice, and their deeds while it is dead are found (acceptance 18)."""
    feed = office.feed
    feed.tell(AgentAppeared(0.0, card(stall=8.0, warn_stall_at=4.0)))
    async with branch(scene, office) as root:
        below = [name for name in DAEMONS if f"{name}/".startswith(f"{daemon}/")]
        others = [f"app/MonitorSupervisor/{name}" for name in DAEMONS if name not in below]
        before = {path: root.whereis(path) for path in [*others, "app/worker"]}
        victim = root.whereis(f"app/MonitorSupervisor/{daemon}")
        await clock.advance(moment)
        scene.found.clear()
        victim.kill()
        assert await victim.wait() == Killed()
        misbehave(office, clock.now)
        await clock.advance(1)
        again = root.whereis(f"app/MonitorSupervisor/{daemon}")
        assert again.incarnation == 2
        await clock.advance(19)
        assert again.alive
        assert {path: root.whereis(path) for path in before} == before
    kinds = [type(one) for one in scene.found]
    wanted = (StallWarned, Stalled, Violated, BudgetSpent)
    assert [kinds.count(kind) for kind in wanted] == [1, 1, 1, 1]
    if daemon.startswith("Hygiene"):
        assert Swept in kinds


async def test_a_monitor_that_is_broken_for_good_does_not_end_the_workers(
    clock: MockClock,
) -> None:
    """Its supervisor gives up and is started again, too seldom to reach the root (TREE-23)."""

    def broken(finding: object) -> None:
        raise RuntimeError("broken")

    feed = Feed()
    feed.tell(AgentAppeared(0.0, card(stall=1.0)))
    monitors = monitor_supervisor(feed, broken, chores={"chore": found})
    workers = ChildSpec("worker", asyncio.Event().wait)
    async with otpy.start(SupervisorSpec("app", [workers, monitors]), hooks=()) as root:
        await clock.advance(3600)
        assert root.child("worker").incarnation == 1
        assert 5 < root.child("MonitorSupervisor").incarnation < 60


async def test_deeds_from_before_its_start_are_judged(
    scene: Scene, office: Office, clock: MockClock
) -> None:
    """Agents may be at work before the monitors are: their early deeds are found too."""
    monitors = spec(scene, office)
    office.feed.tell(AgentAppeared(0.0, card()))
    misbehave(office, 0.0)
    async with otpy.start(SupervisorSpec("app", [monitors]), hooks=()):
        await clock.advance(0)
    kinds = [type(one) for one in scene.found]
    assert [kinds.count(kind) for kind in (Violated, BudgetSpent)] == [1, 1]
