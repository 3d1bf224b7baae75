"""Limits of asyncio, and what otpy does instead."""

from __future__ import annotations

import asyncio

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import Abandoned, ChildSpec, Crashed, Killed, Restart, Shutdown, SupervisorSpec
from otpy._runtime.process import live_of
from otpy.errors import StartFailed
from otpy.reports import ChildStartFailed
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, forever, turns


async def test_a_child_that_refuses_is_never_closed_by_force(
    clock: MockClock, release: asyncio.Event
) -> None:
    """AIO-03: it gets two cancellations and no `GeneratorExit`; then it is left alone."""
    seen: list[type[BaseException]] = []

    async def refuse() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except BaseException as error:  # noqa: BLE001 - GeneratorExit too
                seen.append(type(error))

    spec = ChildSpec("c", refuse, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as app:
        process = app.child("c")
        await turns(1)
        task = live_of(process).task
        assert task is not None
        process.kill()
        assert isinstance(await process.wait(), Abandoned)
        await asyncio.sleep(100)
        assert not task.done()
        assert seen == [asyncio.CancelledError] * 2


async def test_a_start_that_is_cancelled_before_its_first_step_has_failed(
    reports: Recording,
) -> None:
    """AIO-06: the child can never report ready, and the caller does not wait for that."""

    async def child(*, task_status: TaskStatus[None]) -> None:
        raise AssertionError("never runs")

    def cancel_it() -> None:
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "app/c")
        task.cancel()

    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, cancel_it)  # after the start, before the first step
        with pytest.raises(StartFailed):
            await app.start_child(ChildSpec("c", child))
        assert await app.which_children() == []
    assert reports.one(ChildStartFailed).reason == Killed()


async def test_an_end_is_known_a_turn_after_it_happened() -> None:
    """AIO-14: until then the process counts as alive, although its task is done."""
    leave = asyncio.Event()

    async def child() -> None:
        await leave.wait()

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as app:
        process = app.child("c")
        await turns(1)
        leave.set()
        await turns(1)
        task = live_of(process).task
        assert task is not None
        assert task.done()
        assert process.alive
        assert not live_of(process).runs
        await turns(1)
        assert not process.alive


async def test_a_child_cannot_hide_its_end_from_its_supervisor() -> None:
    """SUP-316, SUP-712, AIO-18: the supervisor is not a link, so there is none to remove."""

    async def child() -> None:
        above = otpy.current().parent
        assert above is not None
        assert above.process is not None
        otpy.current().unlink(above.process)
        if otpy.current().incarnation == 1:
            raise Boom
        await forever()

    tree = SupervisorSpec("app", [SupervisorSpec("in", [ChildSpec("c", child)])])
    async with otpy.start(tree, hooks=()) as app:
        inner = app.child("in").supervisor
        assert isinstance(inner, otpy.Supervisor)
        second = await inner.wait_for_restart("c", after=1)
        assert isinstance(second.last_exit, Crashed)


async def test_an_end_cannot_be_forged() -> None:
    """SUP-407, AIO-19: to announce an end is to end the child; there is never a second one."""
    running: list[int] = []

    async def child() -> None:
        running.append(otpy.current().incarnation)
        try:
            await forever()
        finally:
            running.remove(otpy.current().incarnation)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=()) as app:
        await turns(1)
        app.child("c").exit(Shutdown("I say so"))
        await app.wait_for_restart("c", after=1)
        await turns(1)
        assert running == [2]
