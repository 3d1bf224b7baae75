"""Ending a process by its own handle: `exit`, `kill` and the supervisor's view."""

from __future__ import annotations

import asyncio

import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    ExitReason,
    Killed,
    Normal,
    Process,
    Shutdown,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.errors import NotRunning
from otpy.reports import ChildExited, ChildStopped
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, forever


async def clean_up(seconds: float) -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(seconds)


async def test_exit_from_outside_gives_exactly_that_reason(
    clock: MockClock, reports: Recording
) -> None:
    """SIG-02: `Process.exit(reason)` is an exit by itself with that reason."""
    spec = ChildSpec("c", forever, restart=otpy.Restart.TRANSIENT)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        process = app.child("c")
        reason = Crashed(Boom("told to"))
        process.exit(reason)
        assert await process.wait() == reason
        second = await app.wait_for_restart("c", after=1)
        assert second.last_exit == reason
        second.exit()
        assert await second.wait() == Shutdown()
        with pytest.raises(NotRunning):
            app.child("c")
        second.exit()
        second.kill()
        assert await second.wait() == Shutdown()
    exits = [r.reason for r in reports.of(ChildExited)]
    assert exits == [reason, Shutdown()]


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_child_can_end_itself_by_its_own_handle(
    clock: MockClock, awaits: bool, reports: Recording
) -> None:
    """SIG-02: this works from inside too, and with `Normal`."""
    processes: list[Process] = []

    async def child(reason: ExitReason | None) -> None:
        processes.append(otpy.current())
        await asyncio.sleep(1)
        if reason is None:
            otpy.current().kill()
        else:
            otpy.current().exit(reason)
        if awaits:
            await forever()

    children = [
        ChildSpec(str(n), child, (reason,), restart=otpy.Restart.TEMPORARY)
        for n, reason in enumerate((Shutdown("mine"), Normal(), None))
    ]
    async with otpy.start(SupervisorSpec("app", children)):
        await clock.advance(0)
        reasons = [await process.wait() for process in processes]
    assert reasons == [Shutdown("mine"), Normal(), Killed()]


async def test_exit_of_a_supervisor_process_stops_what_is_below(
    clock: MockClock, reports: Recording
) -> None:
    """SUP-718 differs: the supervisor ends with exactly that reason, whichever code asks it."""
    inner = SupervisorSpec("in", [ChildSpec("w", clean_up, (2,))], restart=otpy.Restart.TRANSIENT)
    async with otpy.start(SupervisorSpec("app", [inner]), hooks=[reports]) as app:
        process = app.child("in")
        await clock.advance(0)
        assert live_of(process).task is None
        process.exit(Shutdown("enough"))
        assert await process.wait() == Shutdown("enough")
        assert clock.now == 2
        assert [r.path for r in reports.of(ChildStopped)] == ["app/in/w"]
