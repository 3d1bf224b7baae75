"""The coroutine of a child's task looks like the child's own coroutine."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, cast

import pytest

import otpy
from otpy import ChildSpec, Crashed, Restart, SupervisorSpec
from otpy._runtime.life import live
from otpy._runtime.process import live_of
from otpy.errors import TreeStartFailed
from otpy.reports import Report
from tests.runtime.children import forever


async def test_others_see_the_coroutine_of_the_child() -> None:
    """asyncio, inspect and debuggers see the child's own code, even before its first step."""
    early: list[asyncio.Task[Any]] = []

    def look(report: Report) -> None:
        if report.event != "child.started":
            return
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "app/c")
        early.append(task)
        assert asyncio.iscoroutine(task.get_coro())
        assert "app/c" in repr(task)
        # It shows no frame of the child, only the caller-to-be, if that is a coroutine.
        assert all(frame.f_code is live.__code__ for frame in task.get_stack())

    spec = SupervisorSpec("app", [ChildSpec("c", forever)])
    async with otpy.start(spec, hooks=()) as root:
        unsubscribe = root.subscribe(look)
        await root.terminate_child("c")
        await root.restart_child("c")
        unsubscribe()
        task = cast("asyncio.Task[Any]", live_of(root.child("c")).task)
        assert early == [task]
        life: Any = task.get_coro()
        await asyncio.sleep(0)
        assert "forever" in repr(task)
        assert task.get_stack()[0].f_code is forever.__code__
        assert inspect.getcoroutinestate(life) == inspect.CORO_SUSPENDED


async def test_a_child_sees_itself_in_its_own_task() -> None:
    """The task shows the child's own coroutine while it runs, too."""
    seen: list[Any] = []

    async def child() -> None:
        task = asyncio.current_task()
        assert task is not None
        life: Any = task.get_coro()
        seen.extend([repr(task), life.cr_code, inspect.getcoroutinestate(life)])

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as root:
        await root.child("c").wait()
    text, code, state = seen
    assert "child() running at" in text
    assert code is child.__code__
    assert state == inspect.CORO_RUNNING


@pytest.mark.parametrize("debug", [False, True])
async def test_a_child_runs_the_same_in_debug_mode(debug: bool) -> None:
    """The result, the crash and the cancellation are the same as without it."""
    loop = asyncio.get_running_loop()
    loop.set_debug(debug)

    async def crash() -> None:
        raise ValueError

    specs = [
        ChildSpec("crash", crash, restart=Restart.TEMPORARY),
        ChildSpec("idle", forever, restart=Restart.TEMPORARY),
    ]
    async with otpy.start(SupervisorSpec("app", specs), hooks=()) as root:
        crashing, idle = root.child("crash"), root.child("idle")
        reason = await crashing.wait()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, ValueError)
    assert idle.exit_reason == otpy.Shutdown()


async def test_a_call_that_fails_is_a_crash_and_no_failed_start() -> None:
    """The call of a coroutine function is part of the life of the child."""

    async def child(needed: int = 0) -> None:
        del needed

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    child.__defaults__ = None  # the signature that the spec has checked no longer holds
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as root:
        reason = await root.child("c").wait()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, TypeError)


async def test_a_start_that_raises_stop_iteration_has_crashed() -> None:
    """`StopIteration` does not count as a return of the child."""

    def start(*, task_status: object) -> Any:
        raise StopIteration(task_status)

    with pytest.raises(TreeStartFailed) as caught:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", start)]), hooks=()):
            pass
    assert isinstance(caught.value.__cause__, RuntimeError)


async def test_a_child_that_never_began_leaves_no_warning() -> None:
    """The child is cancelled before its first step, so its code never ran."""
    ran: list[int] = []

    async def child() -> None:
        ran.append(1)

    def cancel(_: object) -> None:
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "app/c")
        task.cancel()

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app"), hooks=()) as root:
        unsubscribe = root.subscribe(cancel)
        process = await root.start_child(spec)
        unsubscribe()
        assert process is not None
        assert await process.wait() == otpy.Killed()
    assert ran == []


@pytest.mark.usefixtures("clock")
async def test_who_is_ready_at_once_has_no_start_to_time_out() -> None:
    """The child runs on after its `start_timeout`."""
    spec = SupervisorSpec("app", [ChildSpec("c", forever, start_timeout=1)])
    async with otpy.start(spec, hooks=()) as root:
        process = root.child("c")
        await asyncio.sleep(5)
        assert process.alive
        assert root.child("c") is process
