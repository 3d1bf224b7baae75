"""Exit reasons: every way in which a child ends, and every reason."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import anyio
import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    Exit,
    ExitReason,
    Killed,
    Normal,
    Restart,
    Shutdown,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.errors import NotSupervised
from otpy.reports import ChildExited
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, forever


async def returns() -> int:
    return 42


async def exits_normally() -> None:
    raise Exit


async def exits_with_a_reason() -> None:
    raise Exit(Shutdown("no more work"))


async def exits_as_a_crash() -> None:
    raise Exit(Crashed(BOOM))


async def exits_in_a_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(forever)
        raise Exit(Shutdown("from the group"))


async def exits_in_a_nested_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(exits_in_a_group())


async def raises_cancelled_error() -> None:
    raise asyncio.CancelledError


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await forever()


async def cancelled_group() -> None:
    group = BaseExceptionGroup("two", [asyncio.CancelledError(), BOOM])
    raise group


BOOM = Boom("row")


async def crashes() -> None:
    raise BOOM


async def crashes_in_clean_up() -> None:
    try:
        raise ValueError
    finally:
        raise BOOM


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        (returns, Normal()),
        (exits_normally, Normal()),
        (exits_with_a_reason, Shutdown("no more work")),
        (exits_as_a_crash, Crashed(BOOM)),
        (exits_in_a_group, Shutdown("from the group")),
        (exits_in_a_nested_group, Shutdown("from the group")),
        (raises_cancelled_error, Killed()),
        (cancels_itself, Killed()),
        (crashes, Crashed(BOOM)),
        (crashes_in_clean_up, Crashed(BOOM)),
    ],
)
async def test_an_end_by_itself_has_its_reason(
    reports: Recording, child: Callable[[], Awaitable[object]], reason: ExitReason
) -> None:
    """AIO-07: a return, an `Exit`, a cancellation and a crash each have their own reason."""
    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        process = app.child("c")
        assert await process.wait() == reason
        assert await process.wait() == reason
        assert not process.alive
    assert reports.one(ChildExited).reason == reason


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        GeneratorExit(),
        StopAsyncIteration(),
        ExceptionGroup("two", [Boom("a"), Boom("b")]),
        ExceptionGroup("one", [Boom("a")]),
        BaseExceptionGroup("mixed", [Boom("a"), asyncio.CancelledError()]),
        ExceptionGroup("two exits", [Exit(Shutdown()), Boom("b")]),
    ],
)
async def test_anything_else_is_a_crash_with_that_very_exception(error: BaseException) -> None:
    """AIO-12: nothing that a child raises escapes its task, including `SystemExit` and groups."""

    async def child() -> None:
        raise error

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        reason = await app.child("c").wait()
    assert reason == Crashed(error)
    assert isinstance(reason, Crashed)
    assert reason.error.__traceback__ is not None


async def test_a_strangers_cancellation_is_a_kill_and_is_restarted(
    clock: MockClock, reports: Recording
) -> None:
    """AIO-08: a cancellation does not name its source, so a foreign one counts as abnormal."""
    tasks: list[asyncio.Task[object]] = []

    async def child() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await forever()

    spec = ChildSpec("c", child, restart=Restart.TRANSIENT)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        await clock.advance(0)
        tasks[0].cancel()
        process = await app.wait_for_restart("c", after=1)
        assert process.last_exit == Killed()
        assert app.child("c") is process
    assert len(tasks) <= 2


async def test_a_child_cancelled_before_its_first_step_has_ended(reports: Recording) -> None:
    """AIO-06: its body never ran, and the supervisor still notices its end."""
    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        process = await app.start_child(ChildSpec("c", forever, restart=Restart.TEMPORARY))
        assert process is not None
        task = live_of(process).task
        assert task is not None
        task.cancel()
        assert await process.wait() == Killed()


async def test_waiting_for_a_process_disturbs_nobody(clock: MockClock) -> None:
    """Any number of callers may wait, some may give up, all others get the same reason."""

    async def child() -> None:
        await asyncio.sleep(5)

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        process = app.child("c")
        waits = [asyncio.create_task(process.wait()) for _ in range(3)]
        await asyncio.sleep(1)
        waits[1].cancel()
        assert set(await asyncio.gather(waits[0], waits[2])) == {Normal()}
        assert waits[1].cancelled()
        assert clock.now == 5


def count_futures() -> int:
    """Return the number of futures in the process."""
    gc.collect()
    return sum(issubclass(type(thing), asyncio.Future) for thing in gc.get_objects())


async def test_waits_that_were_given_up_leave_nothing_behind(clock: MockClock) -> None:
    """A watcher that polls with a timeout does not grow the process."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", forever)])) as app:
        process = app.child("c")
        waits: list[Callable[[], Awaitable[object]]] = [
            process.wait,
            process.stop_requested,
            app.wait,
            lambda: app.wait_for_restart("c", after=1),
        ]
        await clock.advance(0)
        before = count_futures()
        for wait in waits:
            for _ in range(50):
                with anyio.move_on_after(1):
                    await wait()
        assert count_futures() < before + 10


def test_a_process_shows_what_it_is() -> None:
    """Its repr shows path, incarnation and state; `otpy.current` outside a child is an error."""
    with pytest.raises(NotSupervised, match="no supervisor"):
        otpy.current()


async def test_the_text_of_a_process_names_its_state() -> None:
    """The state is alive, or the reason of its end."""
    spec = ChildSpec("c", returns, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        process = app.child("c")
        assert repr(process) == "<Process 'app/c' incarnation=1 alive>"
        assert repr(app) == "<Supervisor 'app' running children=1>"
        await process.wait()
        assert repr(process) == "<Process 'app/c' incarnation=1 normal>"
