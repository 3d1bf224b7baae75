"""What a child under a plan can notice of it, and which of two simultaneous events wins."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import ChildSpec, DynamicSupervisor, Killed, Restart, SupervisorFailed, SupervisorSpec
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy._runtime.stack import stack_of
from otpy.reports import ChildExited
from otpy.testing import FaultPlan, Injected, Recording, faults
from tests.runtime.children import Boom, Journal, forever, turns
from tests.runtime.conftest import journal, logs, release, reports

__all__ = ["journal", "logs", "release", "reports"]


def app(*children: ChildSpec, **options: Any) -> SupervisorSpec:
    return SupervisorSpec("app", children, **options)


def hits(injected: Injected) -> list[tuple[float, str, int]]:
    return [(hit.time, hit.path, hit.incarnation) for hit in injected.hits]


SETTING: ContextVar[str] = ContextVar("setting", default="none")


async def test_the_child_runs_in_its_own_task_and_context() -> None:
    """`current_task()`, `otpy.current()` and context variables are as ever."""
    found: list[object] = []

    async def child() -> None:
        process = otpy.current()
        SETTING.set("set by the child")
        await asyncio.sleep(1)
        found.extend([asyncio.current_task() is live_of(process).task, process.path, SETTING.get()])

    SETTING.set("set by the host")
    with FaultPlan([faults.crash("app/c", Boom(), nth=9)]).active():
        async with otpy.start(app(ChildSpec("c", child, restart=Restart.TEMPORARY)), hooks=()):
            await asyncio.sleep(2)
    assert found == [True, "app/c", "set by the child"]


async def test_a_child_that_survives_cannot_tell_the_error_from_a_real_one() -> None:
    """No cancellation is left behind, and its timeouts go on working."""
    found: list[object] = []

    async def child() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(5)
        except OSError as error:
            found.append(error.__context__)
        found.append(task.cancelling())
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(100)
        except TimeoutError:
            found.append(asyncio.get_running_loop().time())

    with FaultPlan([faults.crash("app/c", OSError("x"), after=2)]).active():
        async with otpy.start(app(ChildSpec("c", child, restart=Restart.TEMPORARY)), hooks=()):
            await asyncio.sleep(20)
    assert found == [None, 0, 12.0]


async def test_a_bare_yield_is_an_await() -> None:
    """`sleep(0)` counts, and can fail."""
    plan = FaultPlan([faults.crash("app/c", Boom(), nth=3)])
    steps: list[int] = []

    async def child() -> None:
        for step in range(5):
            steps.append(step)
            await asyncio.sleep(0)

    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child, restart=Restart.TEMPORARY)), hooks=()):
            await turns(10)
    assert steps == [0, 1, 2]
    assert len(injected.hits) == 1


async def test_what_is_awaited_may_refuse_to_be_cancelled() -> None:
    """The error is raised when the wait is over."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(3)

    async def child() -> None:
        await asyncio.create_task(stubborn())

    plan = FaultPlan([faults.crash("app/c", Boom(), after=2)])
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=()):
            await asyncio.sleep(6)
    assert hits(injected) == [(5.0, "app/c", 1)]


async def test_a_wait_that_ends_at_the_very_moment_fails() -> None:
    """A timer that is due together with the fault does not save the child."""
    plan = FaultPlan([faults.crash("app/c", Boom(), after=1)])
    event = asyncio.Event()

    async def child() -> None:
        await event.wait()
        await forever()

    with plan.active() as injected:
        asyncio.get_running_loop().call_later(1, event.set)
        async with otpy.start(app(ChildSpec("c", child)), hooks=()):
            await asyncio.sleep(3)
    assert hits(injected) == [(1.0, "app/c", 1)]


@pytest.mark.parametrize("first", ["fault", "stop"])
async def test_a_stop_at_the_very_moment_wins(reports: Recording, first: str) -> None:
    """A cancellation from elsewhere is passed on, and the fault hits the next await."""
    plan = FaultPlan([faults.crash("app/c", Boom(), after=1)])
    found: list[str] = []

    async def child() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            found.append("cancelled")
            try:
                await asyncio.sleep(0.5)
            except Boom:
                found.append("crashed in its clean-up")
            raise

    loop = asyncio.get_running_loop()
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=[reports]) as root:
            process = root.child("c")
            if first == "stop":
                loop.call_at(1, live_of(process).stop)
                await turns(1)
            else:
                await turns(2)
                loop.call_at(1, live_of(process).stop)
            await asyncio.sleep(3)
    assert found[:2] == ["cancelled", "crashed in its clean-up"]
    assert str(reports.of(ChildExited)[0].reason) == "shutdown"
    assert len(injected.hits) == 1


async def test_a_fault_that_gave_way_leaves_the_next_one_alone() -> None:
    """After an early return that a stop came before, a crash is a crash."""
    plan = FaultPlan(
        [faults.return_early("app/c", after=1), faults.crash("app/c", Boom(), after=1)]
    )
    found: list[str] = []

    async def child() -> None:
        try:
            await forever()
        finally:
            try:
                await asyncio.sleep(0.5)
            except Boom:
                found.append("crashed in its clean-up")

    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=()) as root:
            process = root.child("c")
            await turns(2)
            asyncio.get_running_loop().call_at(1, live_of(process).stop)
            await process.wait()
    assert found == ["crashed in its clean-up"]
    assert injected.hits[0].fault == plan.faults[1]


async def test_two_faults_at_one_await_take_turns() -> None:
    """The second hits the next await."""
    caught: list[str] = []

    async def careful() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except Boom as error:
                caught.append(f"{error} at {asyncio.get_running_loop().time()}")

    plan = FaultPlan(
        [
            faults.crash("app/c", Boom("first"), after=2.5),
            faults.crash("app/c", Boom("second"), after=2.5),
            faults.return_early("app/c", after=2.5),
        ]
    )
    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", careful)), hooks=()):
            await asyncio.sleep(5)
    assert caught == ["first at 2.5", "second at 2.5"]
    assert [hit.fault for hit in injected.hits] == list(plan.faults)


async def test_a_child_that_is_held_back_can_crash_meanwhile() -> None:
    """A fault's time runs from the beginning of the life, even while the child is held back."""
    plan = FaultPlan(
        [faults.slow_ready("app/c", 5), faults.crash("app/c", Boom(), after=2)],
    )
    began: list[float] = []

    async def child() -> None:
        began.append(asyncio.get_running_loop().time())
        await forever()

    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=()):
            await asyncio.sleep(10)
    assert hits(injected) == [(0.0, "app/c", 1), (2.0, "app/c", 1)]
    assert began == [2.0]


async def test_a_child_that_is_held_back_can_be_stopped(journal: Journal) -> None:
    """Its code never runs, and there is nothing to clean up."""
    plan = FaultPlan([faults.slow_ready("app/a", 5), faults.crash("app/a", Boom(), at="cleanup")])
    with plan.active() as injected:
        async with otpy.start(journal.tree("a"), hooks=()):
            await asyncio.sleep(1)
    assert journal.lines == []
    assert injected.missed == plan.faults[1:]


async def test_a_child_that_is_stopped_before_its_first_step_is_not_disturbed() -> None:
    """It never begins, with a plan or without."""
    plan = FaultPlan([faults.crash("app/**", Boom(), at="start"), faults.hang("app/**")])
    with plan.active() as injected:
        async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as root:
            # In the turn in which it is started, right after the start:
            spec = ChildSpec("c", forever, restart=Restart.TEMPORARY)
            starting = asyncio.ensure_future(root.start_child(spec))
            await turns(1)
            shell_of(root).tree.order(lambda: live_of(root.child("c")).stop(kill=True))
            process = await starting
            assert process is not None
            assert await process.wait() == Killed()
    assert injected.hits == ()


async def test_the_stack_of_a_child_shows_its_own_code() -> None:
    """The stack of the task shows the same calls as without a plan."""

    async def inner() -> None:
        await forever()

    async def child() -> None:
        await inner()

    async def stack(plan: FaultPlan) -> tuple[str, ...]:
        with plan.active():
            async with otpy.start(app(ChildSpec("c", child)), hooks=()) as root:
                await turns(2)
                task = live_of(root.child("c")).task
                assert task is not None
                return tuple(line for line in stack_of(task) if "_runtime/life.py" not in line)

    real = await stack(FaultPlan())
    assert len(real) == 3
    assert await stack(FaultPlan([faults.crash("app/c", Boom(), nth=9)])) == real
    held = await stack(FaultPlan([faults.hang("app/c", at="start")]))
    assert "faulty_life" in held[-1]


async def test_a_child_that_ignores_cancellation_works_on_undisturbed(reports: Recording) -> None:
    """It is abandoned, and ends when the block is left."""
    ticks: list[float] = []

    async def child() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(asyncio.get_running_loop().time())

    with FaultPlan([faults.ignore_cancellation("app/c")]).active():
        async with otpy.start(app(ChildSpec("c", child, shutdown=2)), hooks=[reports]) as root:
            await asyncio.sleep(1.5)
        (process,) = root.abandoned
        await asyncio.sleep(2)
    assert ticks == [1, 2, 3, 4, 5, 6]
    assert process.exit_reason is not None
    assert str(process.exit_reason).startswith("abandoned: refused to end in sleep")
    await turns(2)
    assert root.abandoned == ()


async def test_a_group_that_is_shutting_down_takes_no_crash() -> None:
    """The group is already shutting down; the fault hits the next await, if there is one."""
    plan = FaultPlan([faults.crash("app/c", Boom("injected"), after=2.5)])
    found: list[str] = []

    async def slow_to_end() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(2)

    async def fails() -> None:
        await asyncio.sleep(2)
        raise Boom("real")

    async def child() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(slow_to_end())
                group.create_task(fails())
        except* Boom as errors:
            found.append(repr(errors.exceptions))
        await forever()

    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=()):
            await asyncio.sleep(5)
    assert found == ["(Boom('real'),)"]
    assert hits(injected) == [(4.0, "app/c", 1)]


async def test_a_group_may_end_with_system_exit_and_the_loop_goes_on(reports: Recording) -> None:
    """The child itself raises the `SystemExit`: raised by a task of the group, it ends the loop."""
    ended: list[str] = []

    async def part() -> None:
        try:
            await forever()
        finally:
            ended.append("part")

    async def child() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part())

    with FaultPlan([faults.crash("app/c", SystemExit(3), after=1)]).active():
        async with otpy.start(app(ChildSpec("c", child)), hooks=[reports]):
            await asyncio.sleep(2)
    assert ended == ["part", "part"]
    assert str(reports.one(ChildExited).reason) == "crashed: SystemExit: 3"


async def test_an_early_return_gives_way_to_a_stop() -> None:
    """A child that is stopped while it returns ends as one that was stopped."""
    plan = FaultPlan([faults.return_early("app/c", after=1)])

    async def child() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(5)

    with plan.active() as injected:
        async with otpy.start(app(ChildSpec("c", child)), hooks=()) as root:
            process = root.child("c")
            await asyncio.sleep(2)
    assert str(process.exit_reason) == "shutdown"
    assert len(injected.hits) == 1


async def test_a_closed_coroutine_closes_the_child() -> None:
    """The end of the coroutine closes the child, which does not hang in its clean-up."""
    closed: list[str] = []

    async def child() -> None:
        try:
            await forever()
        finally:
            closed.append("closed")

    with FaultPlan([faults.hang("app/c"), faults.crash("app/c", Boom(), nth=9)]).active():
        async with otpy.start(app(ChildSpec("c", child, restart=Restart.TEMPORARY)), hooks=()) as r:
            await turns(2)
            task = live_of(r.child("c")).task
            assert task is not None
            coro: Any = task.get_coro()
            coro.close()
            assert closed == ["closed"]
            task.cancel()
            await turns(2)


async def test_a_life_that_was_never_ready_has_no_clean_up() -> None:
    """A child that is ended while it starts is not hit in its clean-up, nor at its stop."""

    async def child(*, task_status: TaskStatus[None]) -> None:
        await forever()

    plan = FaultPlan([faults.crash("app/c", Boom(), at="cleanup"), faults.hang("app/c")])
    with plan.active() as injected:
        with pytest.raises(SupervisorFailed, match="was not ready in time"):
            async with otpy.start(app(ChildSpec("c", child, start_timeout=1)), hooks=()):
                pass
    assert injected.hits == ()
