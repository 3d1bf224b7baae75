"""`simulate` and `explore`: trees and programs, their promises, and the report of a failure."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from contextvars import Context
from itertools import pairwise
from typing import Any, cast

import pytest

import otpy
from otpy import ChildSpec, DynamicSupervisor, InvalidSpec, Process, Strategy, SupervisorSpec
from otpy._runtime.shells import shell_of
from otpy.reports import ChildStarted
from otpy.testing import (
    Deadlock,
    FaultPlan,
    NoProgress,
    PromiseBroken,
    Simulation,
    SimulationFailed,
    explore,
    faults,
    simulate,
)
from otpy.testing import shrinking as shrinking_module
from tests.testing.toy import steady, unsafe_stop


def tree(intensity: int = 3) -> SupervisorSpec:
    """Two workers and a group below the root."""
    group = [ChildSpec("b", steady), ChildSpec("c", steady)]
    below = SupervisorSpec("sub", group, strategy=Strategy.ONE_FOR_ALL)
    return SupervisorSpec("app", [ChildSpec("a", steady), below], intensity=intensity)


def failure_of(*args: Any, **kwargs: Any) -> SimulationFailed:
    """Simulate, and return how it failed."""
    with pytest.raises(SimulationFailed) as caught:
        simulate(*args, **kwargs)
    return caught.value


# --- a run ---------------------------------------------------------------------------------------


def test_a_tree_lives_until_a_moment() -> None:
    """It starts, lives for the given virtual seconds and stops; the record is returned."""
    simulation = simulate(tree(), seed=3, until=20)
    assert (simulation.seed, simulation.time, simulation.failure) == (3, 20, None)
    started = [report.path for report in simulation.reports if isinstance(report, ChildStarted)]
    assert started == ["app/a", "app/sub/b", "app/sub/c", "app/sub"]
    assert "0 child.started app/sub/c 1" in simulation.trace
    assert simulation.trace[-1].startswith("20 ")
    assert simulate(tree(), seed=3).time == 60


def test_the_same_seed_gives_the_same_trace() -> None:
    """Another seed gives another."""
    traces = [simulate(tree(), seed=seed, until=5).trace for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


def test_a_tree_lives_until_a_condition() -> None:
    """A function of the root is asked whenever time would pass."""
    asked: list[float] = []

    def until(root: object) -> bool:
        assert isinstance(root, otpy.Supervisor)
        asked.append(shell_of(root).tree.loop.time())
        return asked[-1] >= 1.5

    assert simulate(tree(), seed=1, until=until).time == asked[-1] < 2.2
    assert all(earlier < later for earlier, later in pairwise(asked))


def test_a_driver_may_use_the_tree_and_make_demands() -> None:
    """An awaitable is awaited; an exception of it fails the run."""

    async def until(root: object) -> None:
        assert isinstance(root, otpy.DynamicSupervisor)
        process = await root.start_child(ChildSpec("x", steady))
        assert isinstance(process, Process)
        await asyncio.sleep(1)
        raise LookupError(process.path)

    spec = DynamicSupervisor.spec("pool")
    failure = failure_of(spec, seed=1, until=until)
    assert isinstance(failure.__cause__, LookupError)
    assert failure.simulation.time == 1
    assert failure.line == "simulate(tree, seed=1, until=until)"


def test_a_program_is_simulated_too() -> None:
    """A coroutine function, such as a test, runs to its end."""

    async def program() -> None:
        async with otpy.start(tree()) as root:
            await asyncio.sleep(7)
            assert root.running

    assert simulate(program, seed=1).time == 7


def test_a_check_sees_what_happened_and_may_object() -> None:
    """A caller's check replaces the default one."""
    plan = FaultPlan([faults.crash("app/a", OSError("lost"))])

    def unmoved(simulation: Simulation) -> None:
        assert simulation.failure is not None
        raise LookupError("no")

    failure = failure_of(tree(intensity=0), seed=1, faults=plan, check=unmoved)
    assert isinstance(failure.__cause__, LookupError)
    assert failure.line.endswith("check=unmoved)")


def test_a_wrong_argument_is_named() -> None:
    """An impossible argument is refused before anything runs."""
    with pytest.raises(InvalidSpec, match="tree is 5, wanted"):
        simulate(cast("Any", 5), seed=1)
    with pytest.raises(InvalidSpec, match="until is -1"):
        simulate(tree(), seed=1, until=-1)
    with pytest.raises(InvalidSpec, match="a program says itself"):
        simulate(unsafe_stop, seed=1, until=5)
    with pytest.raises(InvalidSpec, match="seed is 'x', wanted a whole number"):
        simulate(tree(), seed=cast("int", "x"))
    with pytest.raises(InvalidSpec, match=r"faults is \[\], wanted FaultPlan, or None"):
        simulate(tree(), seed=1, faults=cast("FaultPlan", []))
    with pytest.raises(InvalidSpec, match="check is 5, wanted a function of the Simulation"):
        simulate(tree(), seed=1, check=cast("Any", 5))
    with pytest.raises(InvalidSpec, match=r"explore: faults is FaultPlan.*, wanted a function"):
        explore(tree(), faults=cast("Any", FaultPlan()))


async def test_it_is_refused_where_a_loop_runs() -> None:
    """The error is not a failure of the tree; `explore` does not take it for one either."""
    with pytest.raises(RuntimeError, match="needs a thread without a running loop"):
        simulate(tree(), seed=1)
    with pytest.raises(RuntimeError, match="needs a thread without a running loop"):
        explore(tree(), seeds=[1])


def test_a_function_that_only_makes_the_tree_is_refused() -> None:
    """A program runs its own tree; a function that returns a spec has to be called first."""
    failure = failure_of(tree, seed=1)
    assert isinstance(failure.__cause__, InvalidSpec)
    assert "tree() is SupervisorSpec" in str(failure)
    assert "wanted a coroutine" in str(failure)


# --- promises ------------------------------------------------------------------------------------


async def leaks() -> None:
    """Leave a task behind that does not count as the child's."""
    forgotten = asyncio.create_task(asyncio.sleep(1000), context=Context())
    await asyncio.sleep(1000)
    await forgotten


async def explodes() -> None:
    """Give the loop an error without a listener."""
    asyncio.get_running_loop().call_later(1, [].pop)
    await asyncio.sleep(1000)


@pytest.mark.parametrize(
    ("child", "told"),
    [(leaks, r"tasks are left .* app/x\.1"), (explodes, "nobody heard of an error")],
)
def test_a_broken_promise_fails_the_run(child: Any, told: str) -> None:
    """No task may be left over, and no error may be lost."""
    spec = SupervisorSpec("app", [ChildSpec("x", child)])
    failure = failure_of(spec, seed=1)
    assert isinstance(failure.__cause__, PromiseBroken)
    with pytest.raises(PromiseBroken, match=told):
        raise failure.__cause__


def test_what_is_abandoned_on_purpose_is_no_broken_promise() -> None:
    """A child that refuses to end is given up, and that is all right."""
    plan = FaultPlan([faults.ignore_cancellation("app/a")])
    assert simulate(tree(), seed=1, faults=plan, until=5).time > 5


def test_giving_up_fails_the_run() -> None:
    """A check may decide otherwise."""
    plan = FaultPlan([faults.crash("app/a", OSError("lost"))])
    failure = failure_of(tree(intensity=0), seed=1, faults=plan)
    assert isinstance(failure.__cause__, otpy.SupervisorFailed)
    calm = simulate(tree(intensity=0), seed=1, faults=plan, check=lambda _: None)
    assert calm.failure is not None


def test_who_refuses_to_end_does_not_hide_why_it_was_told_to() -> None:
    """A program that got stuck is reported as stuck, even if it ignores its cancellation."""

    async def deaf() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    assert isinstance(failure_of(deaf, seed=1).__cause__, Deadlock)


def test_a_tree_that_waits_for_ever_is_ended() -> None:
    """A start that never ends, and a condition that never comes true, fail the run."""

    async def never(*, task_status: object) -> None:
        await asyncio.sleep(1e9)

    async def still() -> None:
        await asyncio.Event().wait()

    def app(start: Any) -> SupervisorSpec:
        return SupervisorSpec("app", [ChildSpec("x", start)])

    def never_true(_: object) -> bool:
        return False

    assert isinstance(failure_of(app(never), seed=1).__cause__, NoProgress)
    assert isinstance(failure_of(app(still), seed=1, until=never_true).__cause__, NoProgress)
    blocked = failure_of(asyncio.Event().wait, seed=1)
    assert isinstance(blocked.__cause__, Deadlock)


# --- a race ---------------------------------------------------------------------------------------


def test_a_seed_finds_the_race_that_asyncios_order_hides() -> None:
    """A toy supervisor that forgets a child in a certain order of events."""
    for _ in range(3):
        asyncio.run(unsafe_stop())  # never fails
    failure = explore(unsafe_stop, seeds=range(300))
    assert failure is not None
    assert isinstance(failure.__cause__, AssertionError)
    seed = failure.simulation.seed
    assert failure.line == f"simulate(tree, seed={seed})"
    assert str(failure).startswith(f"{failure.line}\nAssertionError: ")
    again = failure_of(unsafe_stop, seed=seed)
    assert str(again) == str(failure)
    assert again.simulation.trace == failure.simulation.trace


def test_no_failure_is_none() -> None:
    """The exploration returns after all seeds."""
    assert explore(tree(), seeds=range(3), until=1) is None


# --- shrinking ------------------------------------------------------------------------------------


def test_a_plan_is_shrunk_to_what_matters() -> None:
    """Only the faults that cause the failure stay, in their simplest form."""
    culprit = faults.crash("app/a", ValueError("culprit"), nth=3, after=1.234, times=2)
    harmless = [faults.slow_ready("app/sub/b", 0.5), faults.hang("app/sub/c")]
    plan = FaultPlan([*harmless, culprit, faults.cancel("app/sub/b", after=2.0)])
    failure = failure_of(tree(intensity=0), seed=4, faults=plan)
    assert failure.simulation.faults == FaultPlan(
        [faults.crash("app/a", ValueError("culprit"), after=0.0)]
    )
    assert "\n" not in failure.line
    names: dict[str, object] = {"FaultPlan": FaultPlan, "faults": faults, "tree": tree(intensity=0)}
    again = eval(failure.line, {**names, "simulate": failure_of})  # noqa: S307 - our own text
    assert str(again) == str(failure)


def test_shrinking_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a plan of any size, the number of tried plans is limited."""
    monkeypatch.setattr(shrinking_module, "MOST_RUNS", 7)
    tried: list[FaultPlan] = []

    def fails(plan: FaultPlan) -> bool:
        tried.append(plan)
        return len(plan.faults) > 90

    plan = FaultPlan([faults.hang("app/a")] * 100)
    smaller = shrinking_module.shrunk(plan, fails)
    assert len(tried) == 7
    assert 90 < len(smaller.faults) <= 100


def test_explore_draws_a_plan_per_seed() -> None:
    """The same for the same seed; a failure names the shrunk one."""
    drawn: list[FaultPlan] = []

    def draw(rng: random.Random) -> FaultPlan:
        drawn.append(FaultPlan.random(rng, ["app/a", "app/sub/b"], faults=4, within=5.0))
        return drawn[-1]

    def find() -> SimulationFailed:
        failure = explore(tree(intensity=0), seeds=range(20), faults=draw, until=10)
        assert failure is not None
        return failure

    failure, count = find(), len(drawn)
    assert 1 <= len(failure.simulation.faults.faults) <= 4
    assert "faults=FaultPlan([faults." in failure.line
    assert find().line == failure.line
    assert drawn[count:] == drawn[:count]
