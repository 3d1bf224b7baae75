"""How others stop a server, and how a server learns of the ends of others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import otpy
from otpy import (
    BRUTAL_KILL,
    ChildSpec,
    Crashed,
    ExitReason,
    Killed,
    Normal,
    Restart,
    Shutdown,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.errors import CallFailed, CallTimeout
from otpy.reports import ChildExited, ChildStopped
from otpy.server import Caller, Reply
from otpy.signals import Down, ExitSignal
from otpy.testing import MockClock, Recording
from tests.behaviours.servers import (
    Counter,
    Script,
    busy,
    note,
    running,
)
from tests.runtime.children import Boom, forever


class TestStopping:
    async def test_the_supervisor_asks_and_terminate_cleans_up(
        self, clock: MockClock, reports: Recording
    ) -> None:
        """GEN-19, GEN-20: after the earlier messages; the supervisor sees its own reason."""
        async with running(hooks=[reports]) as (app, _process, ref, log):
            ref.cast(busy(2))
            ref.cast(note("served"))
            await clock.advance(0)
            await app.terminate_child("s")
            assert clock.now == 2
            assert log == ["served", ("terminate", Shutdown(), "state")]
            stopped = reports.one(ChildStopped)
            assert (stopped.reason, stopped.context) == (Shutdown(), None)

    async def test_what_overstays_its_limit_is_killed(self, clock: MockClock) -> None:
        """GEN-19, SUP-702: the kill skips `terminate`."""
        async with running(shutdown=3) as (app, process, ref, log):
            ref.cast(busy(60))
            await clock.advance(0)
            await app.terminate_child("s")
            assert clock.now == 3
            assert process.exit_reason == Killed()
            assert log == []

    async def test_the_limit_holds_for_terminate_too(self, clock: MockClock) -> None:
        """GEN-19: `terminate` is part of the stop."""

        async def slowly(_: ExitReason) -> None:
            await asyncio.sleep(60)

        def arm(server: Script, caller: Caller[Any], state: Any) -> Any:
            server.terminating = slowly
            return Reply(None, state)

        async with running(shutdown=3) as (app, process, ref, _log):
            await ref.call(arm)
            await app.terminate_child("s")
            assert clock.now == 3
            assert process.exit_reason == Killed()

    @pytest.mark.parametrize("how", ["kill", "brutal", "stranger"])
    async def test_terminate_is_not_called_on_a_kill(self, clock: MockClock, how: str) -> None:
        """GEN-19: nor is it called when foreign code cancels the task (AIO-08)."""
        limit = BRUTAL_KILL if how == "brutal" else 5.0
        async with running(shutdown=limit) as (app, process, _ref, log):
            await clock.advance(0)
            if how == "kill":
                process.kill()
            elif how == "brutal":
                await app.terminate_child("s")
            else:
                task = live_of(process).task
                assert task is not None
                task.cancel()
            assert await process.wait() == Killed()
            assert log == []

    async def test_a_kill_overtakes_a_stop(self, clock: MockClock) -> None:
        """GEN-19: the kill interrupts the callback in progress."""
        async with running() as (_, process, ref, log):
            ref.cast(busy(60))
            await clock.advance(0)
            process.exit()
            process.kill()
            assert await process.wait() == Killed()
            assert (clock.now, log) == (0, [])

    async def test_exit_by_others_is_a_stop_with_that_reason(self, reports: Recording) -> None:
        """GEN-19 differs: every server cleans up, whether it traps exits or not (AIO-05)."""
        async with running(hooks=[reports]) as (_, process, _ref, log):
            process.exit(Shutdown("please"))
            assert await process.wait() == Shutdown("please")
            assert log == [("terminate", Shutdown("please"), "state")]
            assert reports.one(ChildExited).context is None

    async def test_a_stop_during_init_waits_for_it(self, clock: MockClock) -> None:
        """SUP-317: after `init`, the server ends in good order."""

        async def slow(_: Script) -> str:
            await asyncio.sleep(2)
            return "state"

        log: list[Any] = []
        async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
            starting = asyncio.ensure_future(
                app.start_child(ChildSpec("s", Script, (log, None, slow)))
            )
            await clock.advance(0)
            await app.stop()
            assert clock.now == 2
            process = await starting
            assert process is not None
            assert process.exit_reason == Shutdown()
            assert log == [("terminate", Shutdown(), "state")]

    async def test_stop_waits_for_the_end(self, clock: MockClock) -> None:
        """GEN-23: the reason is `Normal()` by default, and earlier messages come first."""
        async with running() as (_, process, ref, log):
            ref.cast(busy(1))
            ref.cast(note("before"))
            await ref.stop()
            assert clock.now == 1
            assert process.exit_reason == Normal()
            assert log == ["before", ("terminate", Normal(), "state")]
            with pytest.raises(CallFailed):
                await ref.stop()
            with pytest.raises(CallFailed) as caught:
                await Script.at(process).stop(Shutdown())
            assert caught.value.reason == Normal()

    async def test_stop_tells_another_end_and_is_patient_only_so_long(
        self, clock: MockClock
    ) -> None:
        """GEN-23: the caller gets the real reason; too slow a server still ends later."""
        async with running() as (_, process, ref, _log):
            ref.cast(busy(3))
            with pytest.raises(CallTimeout, match="timeout=1 s"):
                await ref.stop(Shutdown("a"), timeout=1)
            assert process.alive
            with pytest.raises(CallFailed) as caught:
                await ref.stop(Shutdown("b"))
            assert caught.value.reason == Shutdown("a")
            assert clock.now == 3

    async def test_an_end_in_the_very_turn_of_the_time_limit_counts(self, clock: MockClock) -> None:
        """GEN-23: the server has ended, whichever of the two the caller learns first."""
        async with running() as (_, process, ref, _log):
            ref.cast(busy(60))
            await clock.advance(0)
            life = live_of(process).task
            assert life is not None
            asyncio.get_running_loop().call_later(3, lambda: live_of(process).end(Normal()))
            await ref.stop(timeout=3)
            assert clock.now == 3
            life.cancel()
            await clock.advance(0)

    async def test_a_permanent_server_that_is_stopped_comes_back(self) -> None:
        """GEN-23: `stop` differs from `terminate_child`."""
        async with running(restart=Restart.PERMANENT) as (app, _process, ref, _log):
            await ref.stop()
            again = await app.wait_for_restart("s", after=1)
            assert again.last_exit == Normal()


class TestSignals:
    async def test_downs_come_to_handle_info(self, clock: MockClock) -> None:
        """SIG-04: they arrive in order of messages, for a dead process too."""
        plain = ChildSpec("a", forever, restart=Restart.TEMPORARY)
        async with running() as (app, process, ref, log):
            other = await app.start_child(plain)
            assert other is not None

            def watch(server: Script, caller: Caller[Any], state: Any) -> Any:
                return Reply(server.monitor(other), state)

            await ref.call(watch)
            await clock.advance(0)
            other.exit(Shutdown("x"))
            await other.wait()
            await ref.call(watch)
            await clock.advance(0)
            assert log == [Down(other, Shutdown("x"))] * 2
            watchers = live_of(process).watchers
            assert watchers is not None
            assert watchers.watching == {}

    async def test_a_monitor_taken_back_is_taken_from_the_mailbox_too(
        self, clock: MockClock
    ) -> None:
        """SIG-07: this holds while the server is suspended too."""
        plain = ChildSpec("a", forever, restart=Restart.TEMPORARY)
        async with running() as (app, _process, ref, log):
            other = await app.start_child(plain)
            assert other is not None
            await clock.advance(0)
            watched = [
                await ref.call(lambda s, c, state: Reply(s.monitor(other), state)) for _ in range(2)
            ]
            await ref.suspend()
            other.kill()
            await other.wait()
            watched[0].demonitor()
            ref.send("after")
            await clock.advance(0)
            watched[1].demonitor()
            await ref.resume()
            await clock.advance(0)
            assert log == ["after"]

    async def test_a_dead_server_watches_nobody(self) -> None:
        """The end of a server removes its monitors from the processes that it watched."""
        plain = ChildSpec("a", forever)
        async with running() as (app, _process, ref, _log):
            other = await app.start_child(plain)
            assert other is not None
            await ref.call(lambda s, c, state: Reply(s.monitor(other), state))
            watchers = live_of(other).watchers
            assert watchers is not None
            assert len(watchers.monitors) == 1
            await ref.stop()
            assert watchers.monitors == {}

    async def test_a_trapping_server_gets_exits_as_messages(self, clock: MockClock) -> None:
        """GEN-20: exits of partners and strangers are messages; its supervisor still stops it."""

        def init(server: Script) -> str:
            server.trap_exit()
            return "state"

        plain = ChildSpec("a", forever, restart=Restart.TEMPORARY)
        async with running(None, init) as (app, process, _ref, log):
            other = await app.start_child(plain)
            assert other is not None
            await clock.advance(0)
            other.link(process)
            other.exit()
            process.exit(Shutdown("please"))
            await other.wait()
            await clock.advance(0)
            assert log == [ExitSignal(None, Shutdown("please")), ExitSignal(other, Shutdown())]
            await app.terminate_child("s")
            assert log[-1] == ("terminate", Shutdown(), "state")

    async def test_a_linked_server_that_does_not_trap_ends_with_its_partner(
        self, clock: MockClock
    ) -> None:
        """SIG-01: `terminate` runs, and the server ends with the same reason."""
        plain = ChildSpec("a", forever, restart=Restart.TEMPORARY)
        reason = Crashed(Boom("partner"))
        async with running() as (app, process, _ref, log):
            other = await app.start_child(plain)
            assert other is not None
            await clock.advance(0)
            other.link(process)
            other.exit(reason)
            assert await process.wait() == reason
            assert log == [("terminate", reason, "state")]

    async def test_the_tools_of_callbacks_are_for_callbacks(self, clock: MockClock) -> None:
        """Another child may not use them, and a server may not use `otpy.signals.trap_exit()`."""
        refused: list[str] = []

        async def child() -> None:
            for tool in (Counter().trap_exit, lambda: Counter().monitor(otpy.current())):
                with pytest.raises(RuntimeError) as caught:
                    tool()
                refused.append(str(caught.value))
            await forever()

        def trap(server: Script, caller: Caller[Any], state: Any) -> Any:
            with pytest.raises(RuntimeError) as caught:
                otpy.signals.trap_exit()
            return Reply(str(caught.value), state)

        async with running() as (app, _process, ref, _log):
            await app.start_child(ChildSpec("child", child))
            assert "self.trap_exit()" in await ref.call(trap)
            await clock.advance(0)
        assert len(refused) == 2
