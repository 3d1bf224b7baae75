"""How a caller finds a server, and how long the server and its callers wait."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, Killed, SupervisorSpec
from otpy._runtime.process import live_of
from otpy.behaviours.results import NO_ANSWER
from otpy.behaviours.server import Server
from otpy.errors import (
    CallFailed,
    CallTimeout,
    NotFound,
    NotRunning,
    NotSupervised,
)
from otpy.server import TIMEOUT, Init, Reply, ServerRef
from otpy.testing import MockClock
from tests.behaviours.servers import (
    Counter,
    Get,
    blocked,
    busy,
    echo,
    note,
    running,
)
from tests.runtime.children import forever, turns


def counters(*children: ChildSpec) -> SupervisorSpec:
    return SupervisorSpec("app", children or [ChildSpec("counter", Counter, (10,))])


class TestIdle:
    async def test_a_quiet_server_is_told_once(self, clock: MockClock) -> None:
        """GEN-18: `TIMEOUT` arrives after that time, and only once unless the server asks again."""
        async with running(Init("s", timeout=3)) as (_, _process, _ref, log):
            await clock.advance(2.9)
            assert log == []
            await clock.advance(0.2)
            assert log == [TIMEOUT]
            await clock.advance(60)
            assert log == [TIMEOUT]

    async def test_any_message_cancels_it(self, clock: MockClock) -> None:
        """GEN-18: a message of the same moment cancels it too; each result sets a new timeout."""
        async with running(Init("s", timeout=3)) as (_, _process, ref, log):
            asyncio.get_running_loop().call_later(3, ref.send, "hi")
            await clock.advance(10)
            assert log in (["hi"], [TIMEOUT, "hi"])
            log.clear()
            await ref.call(lambda s, c, state: Reply(None, state, timeout=1))
            await clock.advance(0.5)
            await ref.call(lambda s, c, state: Reply(None, state))
            await clock.advance(5)
            assert log == []
            await ref.call(lambda s, c, state: Reply(None, state, timeout=0))
            await clock.advance(0)
            assert log == [TIMEOUT]
            assert repr(TIMEOUT) == "TIMEOUT"
            assert repr(NO_ANSWER) == "NO_ANSWER"

    async def test_it_loses_against_a_message_of_the_same_turn(self, clock: MockClock) -> None:
        """GEN-18: the message came first, and the server has not yet looked at its queue."""
        loop = asyncio.get_running_loop()
        async with running() as (_, _process, ref, log):
            loop.call_at(5, ref.send, "first")
            await clock.advance(2)
            await ref.call(lambda s, c, state: Reply(None, state, timeout=3))
            await clock.advance(10)
            assert log == ["first"]

    async def test_it_does_not_begin_while_messages_wait(self, clock: MockClock) -> None:
        """GEN-18: the timeout starts when the server has nothing left to do."""
        async with running() as (_, _process, ref, log):
            call = ref.call(lambda s, c, state: Reply(1, state, timeout=0))
            calling = asyncio.ensure_future(call)
            await turns(1)
            ref.cast(note("next"))
            await calling
            await turns(5)
            assert log == ["next"]


class TestFinding:
    async def test_a_path_follows_the_server_through_restarts(self) -> None:
        """A process stands for one life only."""
        async with otpy.start(counters(), hooks=()) as app:
            first = app.child("counter")
            by_path, by_process = Counter.at("app/counter", app), Counter.at(first)
            by_function = Counter.at(lambda: app.child("counter"))
            first.kill()
            await first.wait()
            second = await app.wait_for_restart("counter", after=1)
            assert by_path.whereis() is by_function.whereis() is second
            assert await by_function.call(Get()) == await by_path.call(Get()) == 10
            with pytest.raises(CallFailed) as caught:
                await by_process.call(Get())
            assert caught.value.reason == Killed()

    async def test_inside_of_a_tree_a_path_needs_no_root(self, clock: MockClock) -> None:
        """The root is that of the running child; outside of a tree the user must give one."""
        got: list[int] = []

        async def child() -> None:
            got.append(await Counter.at("app/counter").call(Get()))
            await forever()

        specs = [ChildSpec("counter", Counter, (7,)), ChildSpec("child", child)]
        async with otpy.start(counters(*specs), hooks=()):
            await clock.advance(0)
        assert got == [7]
        with pytest.raises(NotSupervised, match=r"Counter\.at\('app/counter'\).* give root="):
            Counter.at("app/counter")
        with pytest.raises(NotFound):
            ServerRef[Any, Any]("app/counter").whereis()

    async def test_what_is_not_there_is_told_at_once(self) -> None:
        """GEN-15: the server is unknown, stopped, or another kind of child."""
        plain = ChildSpec("plain", forever)
        down = ChildSpec("down", Counter)
        async with otpy.start(counters(plain, down), hooks=()) as app:
            await app.terminate_child("down")
            refs = {name: Counter.at(f"app/{name}", app) for name in ("nobody", "down", "plain")}
            for name, cause in [("nobody", NotFound), ("down", NotRunning), ("plain", None)]:
                with pytest.raises(CallFailed) as caught:
                    await refs[name].call(Get())
                assert caught.value.reason is None
                assert caught.value.path == f"app/{name}"
                assert cause is None or isinstance(caught.value.__cause__, cause)
        with pytest.raises(CallFailed):
            await refs["plain"].call(Get())

    async def test_who_calls_again_and_again_lets_others_run(self) -> None:
        """A loop around `call` that never sleeps does not block the restart that it waits for."""
        async with otpy.start(counters(ChildSpec("counter", Counter, (7,))), hooks=()) as app:
            ref = Counter.at("app/counter", app)
            for target in (ref, Counter.at(app.child("counter"))):
                app.child("counter").kill()
                replies: list[object] = []
                for _ in range(100):
                    with suppress(CallFailed):
                        replies.append(await target.call(Get()))
                assert bool(replies) is (target is ref)
                assert app.child("counter").alive


class TestTimeouts:
    async def test_a_call_waits_five_seconds(self, clock: MockClock) -> None:
        """GEN-14, AIO-23: the server goes on, and its late reply is dropped."""
        async with running() as (_, process, ref, log):
            with pytest.raises(CallTimeout, match="timeout=5 s"):
                await ref.call(blocked(7))
            assert clock.now == 5
            assert isinstance(CallTimeout("p"), TimeoutError)
            assert await ref.call(echo("next")) == "next"
            assert clock.now == 7
            assert log == ["slow"]
            assert process.alive
            server = live_of(process).behaviour
            assert isinstance(server, Server)
            assert server.owed == {}
            assert not server.mailbox.queue

    async def test_any_other_time_may_be_given(self, clock: MockClock) -> None:
        """GEN-14: with None the caller waits for as long as the reply takes."""
        async with running() as (_, _process, ref, _log):
            assert await ref.call(blocked(100), None) == "slow"
            with pytest.raises(CallTimeout):
                await ref.call(blocked(1), timeout=0.5)
            assert clock.now == 100.5

    async def test_a_cancelled_caller_does_not_take_its_request_back(
        self, clock: MockClock
    ) -> None:
        """AIO-22: the request is still served, and nothing else is affected."""
        async with running() as (_, process, ref, log):
            ref.cast(busy(2))
            call = asyncio.ensure_future(ref.call(blocked(1, "served")))
            await clock.advance(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await ref.call(echo("next")) == "next"
            assert log == ["served"]
            assert process.alive


def test_handles_are_values() -> None:
    """Two handles are equal if they lead to the same place."""
    ref: ServerRef[Any, Any] = ServerRef("app/x")
    assert ref == ServerRef("app/x")
