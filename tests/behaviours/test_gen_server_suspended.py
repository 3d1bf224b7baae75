"""Suspending and inspecting a server."""

from __future__ import annotations

import asyncio

import pytest

import otpy
from otpy import ChildSpec, Killed, Shutdown, SupervisorSpec
from otpy.errors import CallFailed, CallTimeout
from otpy.server import Init
from otpy.testing import MockClock
from tests.behaviours.servers import (
    Add,
    Counter,
    Get,
    blocked,
    busy,
    echo,
    note,
    running,
)
from tests.runtime.children import forever


class TestSuspended:
    async def test_messages_wait_and_keep_their_order(self, clock: MockClock) -> None:
        """System messages are served meanwhile; a second suspension changes nothing."""
        async with running() as (_, _process, ref, log):
            ref.cast(note("before"))
            await ref.suspend()
            await ref.suspend()
            ref.cast(note("one"))
            call = asyncio.ensure_future(ref.call(echo("two")))
            await clock.advance(0)
            assert await ref.get_state() == "state"
            ref.cast(note("three"))
            await clock.advance(3)
            assert log == ["before"]
            await ref.resume()
            ref.cast(note("four"))
            assert await call == "two"
            await clock.advance(0)
            assert log == ["before", "one", "three", "four"]
            await ref.resume()

    async def test_what_was_held_comes_before_what_came_after_the_resume(
        self, clock: MockClock
    ) -> None:
        """This holds even if the server has not yet served the held messages."""
        async with running() as (_, _process, ref, log):
            await ref.suspend()
            for number in (1, 2):
                ref.cast(note(number))
            await clock.advance(0)
            resuming = asyncio.ensure_future(ref.resume())
            asyncio.get_running_loop().call_soon(ref.cast, note(3))
            await resuming
            await clock.advance(0)
            assert log == [1, 2, 3]

    async def test_calls_run_out_of_time(self, clock: MockClock) -> None:
        """GEN-14: as with a slow server; the request is served after the resume."""
        async with running() as (_, _process, ref, log):
            await ref.suspend()
            with pytest.raises(CallTimeout):
                await ref.call(blocked(0, "late"))
            await ref.resume()
            await clock.advance(0)
            assert log == ["late"]

    async def test_it_still_stops(self, clock: MockClock) -> None:
        """GEN-19: waiting messages are not served."""
        async with running() as (app, _process, ref, log):
            await ref.suspend()
            call = asyncio.ensure_future(ref.call(echo(1)))
            ref.cast(note("never"))
            await clock.advance(0)
            await app.terminate_child("s")
            with pytest.raises(CallFailed):
                await call
            assert log == [("terminate", Shutdown(), "state")]

    async def test_no_idle_time_runs(self, clock: MockClock) -> None:
        """GEN-18: the idle time starts again when the server resumes."""
        async with running(Init("s", timeout=3)) as (_, _process, ref, log):
            await ref.suspend()
            await clock.advance(60)
            assert log == []
            await ref.resume()
            await clock.advance(2)
            assert log == []
            await clock.advance(2)
            assert log == [otpy.server.TIMEOUT]

    async def test_the_state_can_be_replaced(self) -> None:
        """A change that raises changes nothing, and its caller gets the error."""
        async with otpy.start(
            SupervisorSpec("app", [ChildSpec("c", Counter, (1,))]), hooks=()
        ) as app:
            counter = Counter.at("app/c", app)
            assert await counter.replace_state(lambda n: n + 1) == 2
            with pytest.raises(CallFailed) as caught:
                await counter.replace_state(lambda n: n // 0)
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            assert await counter.call(Get()) == 2
            assert await counter.call(Add()) == 3

    async def test_a_suspension_that_nobody_waited_for_still_comes(self, clock: MockClock) -> None:
        """As with any request, it takes effect in its turn, and `resume` undoes it."""
        async with running() as (_, _process, ref, log):
            ref.cast(busy(10))
            await clock.advance(0)
            with pytest.raises(CallTimeout):
                await ref.suspend(timeout=1)
            ref.cast(note("held"))
            await clock.advance(60)
            assert log == []
            await ref.resume()
            await clock.advance(0)
            assert log == ["held"]

    async def test_a_hung_server_shows_nothing(self, clock: MockClock) -> None:
        """Its state is visible only between two messages; a timeout drops the question."""
        async with running() as (_, _process, ref, _log):
            ref.cast(busy(60))
            await clock.advance(0)
            with pytest.raises(CallTimeout, match="timeout=2 s"):
                await ref.get_state(2)
            assert clock.now == 2
            assert await ref.get_state(100) == "state"

    async def test_suspended_it_can_be_stopped_after_a_call_ran_out_of_time(self) -> None:
        """GEN-23: the call that timed out is not served, and does no harm."""
        async with running() as (_, process, ref, log):
            await ref.suspend()
            with pytest.raises(CallTimeout):
                await ref.call(blocked(0, "late"), timeout=1)
            await ref.stop(Shutdown("enough"))
            assert process.exit_reason == Shutdown("enough")
            assert log == [("terminate", Shutdown("enough"), "state")]


class TestByProcess:
    async def test_a_process_is_suspended_resumed_and_looked_into(self, clock: MockClock) -> None:
        """A process offers the same debugging calls as a handle."""
        async with running() as (_, process, ref, log):
            await process.suspend()
            ref.cast(note("held"))
            await clock.advance(0)
            assert log == []
            assert await process.get_state() == "state"
            await process.resume()
            await clock.advance(0)
            assert log == ["held"]
            ref.cast(busy(60))
            await clock.advance(0)
            for question in (process.suspend(1), process.resume(1), process.get_state(1)):
                with pytest.raises(CallTimeout):
                    await question

    async def test_of_another_child_it_is_refused(self) -> None:
        """Only a living server has a mailbox to hold and a state to show."""
        tree = SupervisorSpec("app", [ChildSpec("plain", forever), ChildSpec("c", Counter)])
        async with otpy.start(tree, hooks=()) as app:
            plain, counter = app.child("plain"), app.child("c")
            for question in (plain.suspend(), plain.resume(), plain.get_state()):
                with pytest.raises(CallFailed, match=r"app/plain: .*is not a GenServer"):
                    await question
            counter.kill()
            await counter.wait()
            with pytest.raises(CallFailed) as caught:
                await counter.get_state()
            assert caught.value.reason == Killed()
