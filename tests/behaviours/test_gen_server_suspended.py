"""Suspending a server, and looking into it."""

from __future__ import annotations

import asyncio

import pytest

import otpy
from otpy import (
    ChildSpec,
    Init,
    Shutdown,
    SupervisorSpec,
)
from otpy.errors import CallFailed, CallTimeout
from otpy.testing import MockClock
from tests.behaviours.servers import (
    Add,
    Counter,
    Get,
    blocked,
    echo,
    note,
    running,
)
from tests.runtime.children import turns


class TestSuspended:
    async def test_messages_wait_and_keep_their_order(self, clock: MockClock) -> None:
        """System messages are served meanwhile; suspending twice is suspending once."""
        async with running() as (_, _process, ref, log):
            ref.cast(note("before"))
            await ref.suspend()
            await ref.suspend()
            ref.cast(note("one"))
            call = asyncio.ensure_future(ref.call(echo("two")))
            await turns(2)
            assert await ref.get_state() == "state"
            ref.cast(note("three"))
            await clock.advance(3)
            assert log == ["before"]
            await ref.resume()
            ref.cast(note("four"))
            assert await call == "two"
            await turns(2)
            assert log == ["before", "one", "three", "four"]
            await ref.resume()

    async def test_calls_run_out_of_time(self, clock: MockClock) -> None:
        """GEN-14: as if it were slow; the request is served when it goes on."""
        async with running() as (_, _process, ref, log):
            await ref.suspend()
            with pytest.raises(CallTimeout):
                await ref.call(blocked(0, "late"))
            await ref.resume()
            await turns(2)
            assert log == ["late"]

    async def test_it_still_stops(self) -> None:
        """GEN-19: what waits is not served any more."""
        async with running() as (app, _process, ref, log):
            await ref.suspend()
            call = asyncio.ensure_future(ref.call(echo(1)))
            ref.cast(note("never"))
            await turns(2)
            await app.terminate_child("s")
            with pytest.raises(CallFailed):
                await call
            assert log == [("terminate", Shutdown(), "state")]

    async def test_no_idle_time_runs(self, clock: MockClock) -> None:
        """GEN-18: it begins anew when the server goes on."""
        async with running(Init("s", timeout=3)) as (_, _process, ref, log):
            await ref.suspend()
            await clock.advance(60)
            assert log == []
            await ref.resume()
            await clock.advance(2)
            assert log == []
            await clock.advance(2)
            assert log == [otpy.TIMEOUT]

    async def test_the_state_can_be_replaced(self) -> None:
        """A change that raises changes nothing, and whoever asked gets the error."""
        async with otpy.start(
            SupervisorSpec("app", [ChildSpec("c", Counter, (1,))]), hooks=()
        ) as app:
            counter = Counter.at("app/c", app)
            assert await counter.replace_state(lambda n: n + 1) == 2
            with pytest.raises(CallFailed) as caught:
                await counter.replace_state(lambda n: n / 0)
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            assert await counter.call(Get()) == 2
            assert await counter.call(Add()) == 3
