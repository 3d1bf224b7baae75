"""How a server ends, which callers are told, and what `terminate` gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import otpy
from otpy import (
    BRUTAL_KILL,
    Abandoned,
    ChildSpec,
    Crashed,
    Exit,
    ExitReason,
    Ignore,
    Killed,
    Normal,
    Restart,
    Shutdown,
    SupervisorSpec,
)
from otpy.errors import BadReturn, CallFailed, CallingSelf
from otpy.server import Caller, Init, NoReply, Reply, Stop
from otpy.testing import MockClock
from tests.behaviours.servers import (
    Ref,
    Script,
    busy,
    echo,
    fail,
    running,
    stop,
)
from tests.runtime.children import Boom

REASONS = [Normal(), Shutdown(), Shutdown("x"), Killed(), Crashed(Boom("as reason"))]


class TestStopResults:
    @pytest.mark.parametrize("reason", REASONS, ids=str)
    async def test_the_reason_is_the_exit_reason(self, reason: ExitReason) -> None:
        """GEN-09, GEN-11: a caller without a reply gets the reason, whichever it is."""
        async with running() as (_, process, ref, log):
            with pytest.raises(CallFailed) as caught:
                await ref.call(stop(reason))
            assert caught.value.reason == reason
            assert await process.wait() == reason
            assert log == [("terminate", reason, ("stopped", "state"))]

    @pytest.mark.parametrize("crashes", [False, True])
    async def test_terminate_runs_first_and_then_the_reply_is_sent(
        self, crashes: bool, clock: MockClock
    ) -> None:
        """GEN-10: a slow `terminate` delays the reply; a failing one does not prevent it."""

        async def slowly(_: ExitReason) -> None:
            await asyncio.sleep(0.3)
            if crashes:
                raise Boom("terminate")

        def end(server: Script, caller: Caller[Any], state: Any) -> Any:
            server.terminating = slowly
            return Stop(Normal(), state, "bye")

        async with running() as (_, process, ref, _log):
            assert await ref.call(end) == "bye"
            assert clock.now == 0.3
            reason = await process.wait()
            assert isinstance(reason, Crashed if crashes else Normal)

    async def test_none_is_a_reply(self) -> None:
        """GEN-10: None counts as a reply."""
        async with running() as (_, _process, ref, _log):
            assert await ref.call(stop(Normal(), None)) is None

    async def test_casts_infos_and_continues_stop_too(self) -> None:
        """GEN-09: each stops the server without a reply."""

        def end(server: Script, state: Any) -> Stop[Any, Any]:
            return Stop(Shutdown("done"), state)

        ways: list[Callable[[Ref], None]] = [
            lambda ref: ref.cast(end),
            lambda ref: ref.send(end),
            lambda ref: ref.cast(lambda s, state: NoReply(state, continue_with=end)),
        ]
        for way in ways:
            async with running() as (_, process, ref, _log):
                way(ref)
                assert await process.wait() == Shutdown("done")

    async def test_killed_while_it_terminates_it_does_not_reply(self, clock: MockClock) -> None:
        """GEN-10, GEN-19: the caller learns that the server was killed."""

        async def slowly(_: ExitReason) -> None:
            await asyncio.sleep(60)

        def end(server: Script, caller: Caller[Any], state: Any) -> Any:
            server.terminating = slowly
            return Stop(Normal(), state, "bye")

        async with running() as (_, process, ref, _log):
            call = asyncio.ensure_future(ref.call(end))
            await clock.advance(1)
            process.kill()
            with pytest.raises(CallFailed) as caught:
                await call
            assert caught.value.reason == Killed()


class TestFailures:
    @pytest.mark.parametrize("kind", ["call", "cast", "info", "continue"])
    async def test_an_exception_terminates_with_the_state_before(self, kind: str) -> None:
        """GEN-13: the exception also becomes the reason of the server's end."""
        error = Boom(kind)
        crash: Any = fail(error)
        async with running() as (_, process, ref, log):
            match kind:
                case "call":
                    with pytest.raises(CallFailed) as caught:
                        await ref.call(crash)
                    assert caught.value.reason == Crashed(error)
                    assert caught.value.__cause__ is error
                case "cast":
                    ref.cast(crash)
                case "info":
                    ref.send(crash)
                case _:
                    ref.cast(lambda s, state: NoReply("new", continue_with=crash))
            assert await process.wait() == Crashed(error)
            state = "new" if kind == "continue" else "state"
            assert log[-1] == ("terminate", Crashed(error), state)

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (Exit(Shutdown("enough")), Shutdown("enough")),
            (Exit(), Normal()),
            (ExceptionGroup("of one", [Exit(Shutdown("deep"))]), Shutdown("deep")),
        ],
        ids=str,
    )
    async def test_exit_raised_is_the_reason(self, error: Exception, reason: ExitReason) -> None:
        """GEN-13: `Exit` works like `exit(R)` in a callback."""
        async with running() as (_, process, ref, log):
            ref.cast(fail(error))
            assert await process.wait() == reason
            assert log == [("terminate", reason, "state")]

    async def test_system_exit_is_a_crash(self) -> None:
        """AIO-12: `SystemExit` ends the server, not the program."""
        async with running() as (_, process, ref, log):
            ref.cast(fail(SystemExit(3)))
            reason = await process.wait()
            assert isinstance(reason, Crashed)
            assert isinstance(reason.error, SystemExit)
            assert log == [("terminate", reason, "state")]

    @pytest.mark.parametrize(
        "junk",
        [
            *(None, "state", Init("state"), Reply(1, 2), Stop(Normal(), 1, 2)),
            *(NoReply(1, timeout=wrong) for wrong in ("5", -1, float("nan"), True)),  # type: ignore[arg-type]
            Stop("normal", 1),  # type: ignore[arg-type]
        ],
        ids=repr,
    )
    async def test_what_a_cast_must_not_return_is_a_crash(self, junk: Any) -> None:
        """GEN-12: the reason is a bad return value, and `terminate` runs."""
        async with running() as (_, process, ref, log):
            ref.cast(lambda server, state: junk)
            reason = await process.wait()
            assert isinstance(reason, Crashed)
            assert isinstance(reason.error, BadReturn)
            assert repr(junk) in str(reason.error)
            assert log == [("terminate", reason, "state")]

    async def test_what_a_call_must_not_return_is_a_crash(self) -> None:
        """GEN-12: this holds for an async handler too, and the caller is told."""

        async def junk(server: Script, caller: Caller[Any], state: Any) -> Any:
            return "junk"

        async with running() as (_, _process, ref, _log):
            with pytest.raises(CallFailed, match=r"'junk' for a Call\b"):
                await ref.call(junk)

    @pytest.mark.parametrize("first", [Normal(), Shutdown()])
    @pytest.mark.parametrize("error", [Boom("worse"), Exit(Shutdown("other")), SystemExit(1)])
    async def test_a_failing_terminate_replaces_the_reason(
        self, first: ExitReason, error: BaseException
    ) -> None:
        """GEN-21: it replaces even `normal`."""

        async def fails(_: ExitReason) -> None:
            raise error

        def end(server: Script, state: Any) -> Stop[Any, Any]:
            server.terminating = fails
            return Stop(first, state)

        async with running() as (_, process, ref, _log):
            ref.cast(end)
            reason = await process.wait()
            if isinstance(error, Exit):
                assert reason == error.reason
            else:
                assert reason == Crashed(error)

    async def test_a_terminate_that_fails_after_a_crash_is_the_reason(self) -> None:
        """GEN-21: the earlier crash is the context of that error."""

        async def fails(_: ExitReason) -> None:
            raise Boom("second")

        def crash(server: Script, state: Any) -> Any:
            server.terminating = fails
            raise Boom("first")

        async with running() as (_, process, ref, _log):
            ref.cast(crash)
            reason = await process.wait()
            assert isinstance(reason, Crashed)
            assert str(reason.error) == "second"
            assert str(reason.error.__context__) == "first"

    async def test_ignore_is_for_starting_only(self) -> None:
        """SUP-310: in a running server, `Ignore` is a crash."""
        async with running() as (_, process, ref, _log):
            ref.cast(fail(Ignore()))
            assert isinstance(await process.wait(), Crashed)


class TestCallersOfTheDying:
    async def test_everybody_who_waits_is_told_at_once(self, clock: MockClock) -> None:
        """GEN-15: the one being served, those in the queue, and those promised a later reply."""

        def defer(server: Script, caller: Caller[Any], state: Any) -> Any:
            return NoReply(state)

        async with running() as (_, _process, ref, _log):
            calls = [asyncio.ensure_future(ref.call(defer))]
            await clock.advance(0)
            ref.cast(busy(1))
            crash = fail(Boom("all of you"))
            calls += [asyncio.ensure_future(ref.call(do)) for do in (crash, echo(1), echo(2))]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert clock.now == 1
            assert [str(error) for error in results] == [
                "app/s: the call failed: crashed: Boom: all of you"
            ] * 4

    async def test_they_are_told_when_it_is_restarted(self) -> None:
        """The next life does not know the earlier callers, and serves new calls."""
        async with running(restart=Restart.PERMANENT) as (app, _process, ref, _log):
            with pytest.raises(CallFailed):
                await ref.call(fail(Boom()))
            await app.wait_for_restart("s", after=1)
            assert await ref.call(echo("again")) == "again"

    async def test_they_are_told_when_it_is_killed_or_given_up(self, clock: MockClock) -> None:
        """GEN-15: even if a callback refuses to end; afterwards the server serves no more."""
        freed = asyncio.Event()

        async def stubborn(server: Script, caller: Caller[Any], state: Any) -> Any:
            while not freed.is_set():
                try:
                    await freed.wait()
                except asyncio.CancelledError:
                    continue
            return Reply("too late", state)

        async with running() as (_, process, ref, _log):
            call = asyncio.ensure_future(ref.call(stubborn, None))
            await clock.advance(0)
            process.kill()
            with pytest.raises(CallFailed) as caught:
                await call
            assert isinstance(caught.value.reason, Abandoned)
            freed.set()
            await clock.advance(0)
            assert [task for task in asyncio.all_tasks() if task.get_name() == process.path] == []

    @pytest.mark.parametrize("terminates", [True, False])
    async def test_new_calls_to_the_dying_fail_at_once(
        self, terminates: bool, clock: MockClock
    ) -> None:
        """GEN-15: the server was asked to stop or is in `terminate`; `stop()` waits for the end."""

        async def slowly(_: ExitReason) -> None:
            await asyncio.sleep(1)

        def end(server: Script, state: Any) -> Stop[Any, Any]:
            server.terminating = slowly
            return Stop(Shutdown("mine"), state)

        async with running() as (_, process, ref, _log):
            if terminates:
                ref.cast(end)
            else:
                ref.cast(busy(1))
                process.exit(Shutdown("asked"))
            await clock.advance(0)
            for question in (ref.call(echo(1)), ref.get_state()):
                with pytest.raises(CallFailed) as caught:
                    await question
                assert caught.value.reason == Shutdown("mine" if terminates else "asked")
            assert clock.now == 0
            with pytest.raises(CallFailed) as caught:
                await ref.stop()
            assert isinstance(caught.value.reason, Shutdown)
            assert clock.now == 1

    async def test_the_first_stop_is_the_one_that_callers_are_told_of(
        self, clock: MockClock
    ) -> None:
        """GEN-15, GEN-23: the server ends with the reason of the first stop."""
        async with running() as (_, process, ref, _log):
            ref.cast(busy(1))
            await clock.advance(0)
            process.exit(Shutdown("first"))
            stopping = asyncio.ensure_future(ref.stop(Shutdown("second")))
            await clock.advance(0)
            with pytest.raises(CallFailed, match="first"):
                await ref.call(echo(1))
            with pytest.raises(CallFailed, match="first"):
                await stopping

    @pytest.mark.parametrize("how", ["kill", "brutal", "start"])
    async def test_new_calls_to_the_killed_fail_at_once(self, how: str, clock: MockClock) -> None:
        """GEN-15: they fail with a reason, although a callback of the server still cleans up."""

        async def lingers(_: Script) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.5)

        limit = BRUTAL_KILL if how == "brutal" else 5.0
        timeout = 1.0 if how == "start" else None
        spec = ChildSpec("s", Script, ([], None, lingers), shutdown=limit, start_timeout=timeout)
        async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
            starting: asyncio.Future[Any]
            starting = asyncio.gather(app.start_child(spec), return_exceptions=True)
            await clock.advance(0)
            ref = Script.at("app/s", app)
            if how == "kill":
                ref.whereis().kill()
            elif how == "brutal":
                starting = asyncio.gather(starting, app.stop())
            await clock.advance(timeout or 0.1)
            assert ref.whereis().alive
            began = clock.now
            for question in (ref.call(echo(1)), ref.get_state()):
                with pytest.raises(CallFailed) as caught:
                    await question
                assert caught.value.reason is not None
            assert clock.now == began
            await starting

    async def test_a_server_that_calls_itself_is_refused(self) -> None:
        """GEN-15: this holds for its callbacks; a task of the server may call it."""

        async def to_itself(server: Script, caller: Caller[Any], state: Any) -> Any:
            me = Script.at(otpy.current())
            for question in (me.call(echo(1)), me.get_state(), me.stop()):
                with pytest.raises(CallingSelf, match="cast"):
                    await question

            async def helper() -> None:
                caller.reply(await me.call(echo("from a helper")))

            server.log.append(asyncio.ensure_future(helper()))
            return NoReply(state)

        async with running() as (_, _process, ref, _log):
            assert await ref.call(to_itself) == "from a helper"
