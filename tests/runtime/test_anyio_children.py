"""Children written with anyio or asyncio's own tools work in otpy unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import ChildSpec, Crashed, Normal, Restart, Shutdown, SupervisorSpec
from otpy.reports import ChildExited, ChildStopped
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, forever, turns


async def test_a_task_group_in_a_child_is_stopped_with_it(
    clock: MockClock, reports: Recording
) -> None:
    """Members are cancelled and waited for; the child ends as asked."""
    ended: list[float] = []

    async def member(seconds: float) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(seconds)
            ended.append(clock.now)

    async def child() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(member, 1)
            group.start_soon(member, 2)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]):
        await anyio.sleep(1)
    assert ended == [2, 3]
    assert reports.one(ChildStopped).reason == Shutdown()


async def test_a_shielded_scope_is_bounded_by_the_limit(
    clock: MockClock, reports: Recording
) -> None:
    """A native cancellation passes anyio's shield: the child ends at once."""

    async def child() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(60)

    async with otpy.start(
        SupervisorSpec("app", [ChildSpec("c", child, shutdown=3)]), hooks=[reports]
    ):
        await anyio.sleep(1)
    assert clock.now <= 4
    assert reports.one(ChildStopped).reason == Shutdown()


async def test_timeouts_in_a_child_are_its_own(clock: MockClock, reports: Recording) -> None:
    """`fail_after`, `move_on_after`, `asyncio.timeout`: each ends its own block, and no more."""
    seen: list[str] = []

    async def child() -> None:
        with anyio.move_on_after(1):
            await anyio.sleep_forever()
        seen.append("moved on")
        with pytest.raises(TimeoutError):
            with anyio.fail_after(1):
                await anyio.sleep_forever()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await anyio.sleep_forever()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep_forever()
        seen.append("done")

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        assert await app.child("c").wait() == Normal()
    assert seen == ["moved on", "done"]
    assert clock.now == 3


async def test_a_stop_inside_a_timeout_is_a_stop(clock: MockClock, reports: Recording) -> None:
    """The timeout does not mistake the supervisor's cancellation for its own."""

    async def child() -> None:
        with anyio.move_on_after(100):
            async with asyncio.timeout(100):
                await anyio.sleep_forever()
        pytest.fail("it was not the timeout")

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]):
        await anyio.sleep(1)
    assert reports.one(ChildStopped).reason == Shutdown()


async def test_a_task_group_that_fails_is_a_crash_with_its_group(reports: Recording) -> None:
    """The group is kept as raised, with its tracebacks."""

    async def member() -> None:
        raise Boom("member")

    async def child() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(member)

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        await app.child("c").wait()
    reason = reports.one(ChildExited).reason
    assert isinstance(reason, Crashed)
    with pytest.raises(ExceptionGroup) as caught:
        raise reason.error
    assert caught.group_contains(Boom, match="member", depth=1)


async def test_a_child_may_be_handed_to_group_start_as_well() -> None:
    """The `task_status` convention is anyio's: one function works with both."""

    async def child(*, task_status: TaskStatus[int]) -> None:
        task_status.started(42)
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        assert await group.start(child) == 42
        group.cancel_scope.cancel()
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])) as app:
        assert app.child("c").value == 42


async def test_a_context_manager_may_hold_a_task_group(
    clock: MockClock, reports: Recording
) -> None:
    """A service with background tasks is entered, run and left in the same task."""

    @asynccontextmanager
    async def service() -> AsyncGenerator[int]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield 1
            group.cancel_scope.cancel()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", service)]), hooks=[reports]):
        await anyio.sleep(1)
    assert reports.one(ChildStopped).reason == Shutdown()


async def test_a_background_task_that_fails_crashes_its_context_manager(
    clock: MockClock, reports: Recording
) -> None:
    """The failure of a member ends the child, which is restarted."""

    async def member() -> None:
        await anyio.sleep(1)
        if otpy.current().incarnation == 1:
            raise Boom

    @asynccontextmanager
    async def service() -> AsyncGenerator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(member)
            yield

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", service)]), hooks=[reports]) as app:
        process = await app.wait_for_restart("c", after=1)
        assert clock.now == 1
        assert isinstance(process.last_exit, Crashed)
        await anyio.sleep(5)
        assert app.child("c") is process


async def test_streams_events_and_locks_work_between_children(clock: MockClock) -> None:
    """Children share one loop, and anyio's primitives on it."""
    send, receive = anyio.create_memory_object_stream[int]()
    got: list[int] = []

    async def producer() -> None:
        for number in range(3):
            await send.send(number)
        await forever()

    async def consumer() -> None:
        got.extend([number async for number in receive])

    tree = SupervisorSpec("app", [ChildSpec("p", producer), ChildSpec("c", consumer)])
    async with send, receive:
        async with otpy.start(tree):
            await turns(10)
            await send.aclose()
            await turns(5)
    assert got == [0, 1, 2]
