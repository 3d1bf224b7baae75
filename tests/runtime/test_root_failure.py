"""A root that gives up always raises in its host, with the whole story."""

from __future__ import annotations

import asyncio
import contextlib
import traceback

import anyio
import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Intensity,
    Killed,
    Restart,
    Shutdown,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy.errors import TreeStartFailed
from otpy.reports import SupervisorGaveUp, SupervisorStopped
from otpy.specs import ESCALATE
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, Journal, crash, forever, turns


async def crash_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise Boom(f"life {otpy.current().incarnation}")


def doomed(*before: ChildSpec, seconds: float = 1) -> SupervisorSpec:
    return SupervisorSpec("app", [*before, ChildSpec("bad", crash_after, (seconds,))], intensity=2)


async def test_the_body_is_cancelled_and_the_failure_raised(
    clock: MockClock, journal: Journal, reports: Recording
) -> None:
    """The children have stopped by then; the body learns of it as a cancellation."""
    seen: list[object] = []
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(doomed(journal.spec("a", 2)), hooks=[reports]):
            try:
                await forever()
            except asyncio.CancelledError:
                seen.append(clock.now)
                assert journal.lines == ["+a", "-a"]
                raise
    assert seen == [5]
    error = caught.value
    assert error.path == "app/bad"
    assert [str(reason) for reason in error.reasons] == [
        "crashed: Boom: life 1",
        "crashed: Boom: life 2",
        "crashed: Boom: life 3",
    ]
    assert isinstance(error.reasons[-1], Crashed)
    assert error.__cause__ is error.reasons[-1].error
    assert "crash_after" in "".join(traceback.format_exception(error))
    assert [str(record) for record in error.history] == [
        f"app/bad incarnation {n} ended at {n}.000 s: crashed: Boom: life {n}" for n in (1, 2, 3)
    ]
    assert error.abandoned == ()
    assert str(error).startswith("app/bad: app gave up: more than 2 restarts in 5 s\n")
    gave_up = reports.one(SupervisorGaveUp)
    assert (gave_up.path, gave_up.child, gave_up.reason) == ("app", "app/bad", error.reasons[-1])
    assert reports.one(SupervisorStopped).reason == Shutdown()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_nested_failure_blames_the_deepest_child(clock: MockClock) -> None:
    """The history has the restarts of each level; the cause is the crash at the bottom."""
    inner = SupervisorSpec("in", [ChildSpec("bad", crash)], intensity=1)
    tree = SupervisorSpec("app", [SupervisorSpec("mid", [inner], intensity=0)], intensity=1)
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(tree):
            await forever()
    error = caught.value
    assert error.path == "app/mid/in/bad"
    assert isinstance(error.__cause__, Boom)
    assert all(isinstance(reason, Crashed) for reason in error.reasons)
    assert "app gave up: more than 1 restart in 5 s" in str(error)
    assert "app/mid/in more than 1 restart in 5 s" in str(error)
    lines = [str(record) for record in error.history]
    assert len([line for line in lines if line.startswith("app/mid/in/bad incarnation")]) == 2
    assert len([line for line in lines if line.startswith("app/mid incarnation")]) == 2


async def test_a_nested_end_that_was_no_failure_is_not_blamed() -> None:
    """A supervisor that was stopped too often is itself the child that failed."""
    tree = SupervisorSpec("app", [SupervisorSpec("in", [ChildSpec("c", forever)])], intensity=0)
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(tree) as app:
            app.child("in").exit(Shutdown("by hand"))
            await forever()
    assert caught.value.path == "app/in"
    assert caught.value.reasons == (Shutdown("by hand"),)
    assert caught.value.__cause__ is None


async def test_a_restart_that_cannot_start_is_blamed_below(clock: MockClock) -> None:
    """The blame for a failed restart of a nested supervisor goes down to its child."""

    async def once(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        parent = otpy.current().parent.process
        assert parent is not None
        if parent.incarnation > 1:
            raise Boom("again")
        task_status.started()
        await asyncio.sleep(1)
        raise Boom("first")

    inner = SupervisorSpec("in", [ChildSpec("c", once)], intensity=0)
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(SupervisorSpec("app", [inner], intensity=2)):
            await forever()
    assert not isinstance(caught.value, TreeStartFailed)
    assert caught.value.path == "app/in/c"
    assert str(caught.value.__cause__) == "again"


async def test_an_error_of_the_body_meets_a_failure_of_the_root(clock: MockClock) -> None:
    """The failure of the root is raised, and the body's error is its context."""
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(doomed()):
            try:
                await forever()
            except asyncio.CancelledError:
                raise ValueError("body") from None
    assert isinstance(caught.value.__context__, ValueError)


async def test_a_body_that_swallows_the_cancellation_gets_the_failure(clock: MockClock) -> None:
    """A failure of the root is never silent, whatever the body does."""
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(SupervisorFailed):
        async with otpy.start(doomed()):
            with contextlib.suppress(asyncio.CancelledError):
                await forever()
            await clock.advance(0)
    assert task.cancelling() == 0
    await asyncio.sleep(1)


async def test_an_error_of_the_body_while_the_root_gives_up(
    clock: MockClock, journal: Journal
) -> None:
    """The body ends before the tree has stopped, and the failure is still raised."""
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(doomed(journal.spec("a", 4))):
            await asyncio.sleep(5)
            raise ValueError("body")
    assert clock.now == 7
    assert isinstance(caught.value.__context__, ValueError)


async def test_a_host_cancelled_with_its_root_failing_is_cancelled(clock: MockClock) -> None:
    """A cancellation by other code goes on, even if the root failed in the same turn."""

    async def host() -> None:
        async with otpy.start(doomed()):
            await forever()

    for k in range(8):
        task = asyncio.create_task(host())
        begun = clock.now
        await asyncio.sleep(3)
        await turns(k)
        if not task.cancel():
            break
        await asyncio.wait([task])
        assert task.cancelled(), k
        assert clock.now == begun + 3
    else:
        pytest.fail("the root never failed")
    assert isinstance(task.exception(), SupervisorFailed)
    assert k > 1


async def test_a_failure_while_entering_is_raised_from_there() -> None:
    """Restarts are used up before the block is entered, so the body does not run."""

    async def late(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        await asyncio.sleep(1)
        task_status.started()
        await forever()

    spec = SupervisorSpec("app", [ChildSpec("bad", crash), ChildSpec("late", late)], intensity=0)
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(spec):
            await forever()
    assert caught.value.path == "app/bad"


async def test_a_failure_reaches_a_host_inside_a_task_group(clock: MockClock) -> None:
    """A group in the body is cancelled too; a group around the tree gets the failure."""
    ended: list[str] = []

    async def helper() -> None:
        try:
            await forever()
        finally:
            ended.append("helper")

    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as outer:
            outer.start_soon(helper)
            async with otpy.start(doomed()):
                async with anyio.create_task_group() as inner:
                    inner.start_soon(helper)
                    await forever()
    assert caught.group_contains(SupervisorFailed, depth=1)
    assert ended == ["helper", "helper"]


async def test_a_failure_inside_asyncio_groups_and_timeouts(clock: MockClock) -> None:
    """No timeout or group between the body's wait and the block takes the cancellation."""
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(SupervisorFailed):
        async with otpy.start(doomed()):
            async with asyncio.timeout(100):
                async with asyncio.TaskGroup() as group:
                    group.create_task(forever())
    assert task.cancelling() == 0


async def test_an_own_limit_that_escalates_is_named(clock: MockClock) -> None:
    """The message names the child's own window."""
    own = Intensity(1, 10, ESCALATE)
    spec = SupervisorSpec("app", [ChildSpec("bad", crash_after, (1,), intensity=own)])
    with pytest.raises(SupervisorFailed, match="more than 1 restart in 10 s"):
        async with otpy.start(spec):
            await forever()


async def test_a_pool_that_gives_up_is_a_failure_too(clock: MockClock) -> None:
    """A dynamic root raises in its host in the same way."""
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(DynamicSupervisor.spec("pool", intensity=1)) as pool:
            await pool.start_child(ChildSpec("bad", crash_after, (1,)))
            await pool.start_child(ChildSpec("good", forever, restart=Restart.TEMPORARY))
            await forever()
    assert caught.value.path == "pool/bad"
    assert clock.now == 2


async def test_a_killed_root_is_no_failure(clock: MockClock, journal: Journal) -> None:
    """`kill()` is a wanted end: the body goes on, and nothing is raised."""
    async with otpy.start(journal.tree("a", "b")) as app:
        await clock.advance(0)
        app.kill()
        assert await app.wait() == Killed()
        assert app.failure() is None
    assert journal.lines[:2] == ["+a", "+b"]


async def test_a_failing_root_that_is_killed_is_still_a_failure(
    clock: MockClock, journal: Journal
) -> None:
    """A kill cuts the stop short, but the failure of the root is still raised."""
    with pytest.raises(SupervisorFailed):
        async with otpy.start(doomed(journal.spec("a", 100))) as app:
            await asyncio.sleep(4)
            app.kill()
            await forever()
    assert clock.now == 5


async def test_the_reasons_are_those_of_the_child_that_failed() -> None:
    """A sibling's restarts are in the history, but not among the reasons of this child."""

    async def once() -> None:
        if otpy.current().incarnation == 1:
            raise KeyError("sibling")
        await asyncio.get_running_loop().create_future()

    async def always() -> None:
        await asyncio.sleep(1)
        raise ValueError("culprit")

    children = [ChildSpec("a", once), ChildSpec("b", always)]
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(SupervisorSpec("app", children, intensity=2), hooks=()) as app:
            await app.wait()
    assert caught.value.path == "app/b"
    assert [str(reason) for reason in caught.value.reasons] == ["crashed: ValueError: culprit"] * 2
    assert len(caught.value.history) == 3
