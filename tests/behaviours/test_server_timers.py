"""Messages that a server sends to itself after some time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, GenServer, SupervisorSpec
from otpy.errors import NotSupervised
from otpy.server import NoReply, Reply
from otpy.testing import MockClock


class Clockwork(GenServer[Callable[["Clockwork"], Any], Any, list[Any]]):
    """A server that calls its requests, and keeps each message with its time."""

    def init(self) -> list[Any]:
        return []

    def handle_call(self, request: Any, caller: Any, state: list[Any]) -> Reply[Any, list[Any]]:
        return Reply(request(self), state)

    def handle_cast(self, request: Any, state: list[Any]) -> NoReply[list[Any]]:
        request(self)
        return NoReply(state)

    def handle_info(self, message: object, state: list[Any]) -> NoReply[list[Any]]:
        now = round(asyncio.get_running_loop().time(), 3)
        return NoReply([*state, (now, message)])


def tree() -> Any:
    """Start a tree with this server."""
    return otpy.start(SupervisorSpec("app", [ChildSpec("it", Clockwork)]), hooks=())


async def test_messages_come_when_their_time_is_over(mock_clock: MockClock) -> None:
    """`send_after` sends once, `send_interval` repeatedly; both until the server cancels them."""
    async with tree() as root:
        it = Clockwork.at("app/it", root)
        began = asyncio.get_running_loop().time()
        assert await it.call(lambda me: me.send_after(3, "once")) is not None
        never = await it.call(lambda me: me.send_after(4, "never"))
        again = await it.call(lambda me: me.send_interval(2, "again"))
        assert await it.call(lambda me: me.cancel_timer(never)) is True
        assert await it.call(lambda me: me.cancel_timer(never)) is False
        await asyncio.sleep(5)
        assert await it.call(lambda me: me.cancel_timer(again)) is True
        await asyncio.sleep(5)
        heard = [(round(when - began, 3), what) for when, what in await it.get_state()]
    assert heard == [(2, "again"), (3, "once"), (4, "again")]


async def test_timers_are_gone_with_their_life(mock_clock: MockClock) -> None:
    """The next life of a server gets no message from an earlier timer."""

    def crash(me: Any) -> None:
        raise ZeroDivisionError

    async with tree() as root:
        it = Clockwork.at("app/it", root)
        it.cast(lambda me: (me.send_after(1, "old"), me.send_interval(1, "old")))
        it.cast(crash)
        await root.wait_for_restart("it", after=1)
        await asyncio.sleep(5)
        assert await it.get_state() == []


async def test_a_server_has_a_handle_to_itself() -> None:
    """`ref()` leads to the life that returned it."""
    async with tree() as root:
        it = Clockwork.at("app/it", root)
        own = await it.call(lambda me: me.ref())
        assert own.whereis() is root.whereis("app/it")
        own.send("hello")
        assert [what for _, what in await own.get_state()] == ["hello"]


@pytest.mark.parametrize("delay", [-1, None, "1", float("inf"), float("nan")])
async def test_a_delay_is_a_number_of_seconds(delay: Any) -> None:
    """Any other value is a `ValueError`; an interval of 0 seconds is one too."""

    def attempt(me: Any) -> int:
        with pytest.raises(ValueError, match=f"app/it: delay is {delay!r}, wanted seconds"):
            me.send_after(delay, "x")
        with pytest.raises(ValueError, match="app/it: period is 0, wanted more than 0 seconds"):
            me.send_interval(0, "x")
        return 1

    async with tree() as root:
        assert await Clockwork.at("app/it", root).call(attempt) == 1
    with pytest.raises(NotSupervised):
        Clockwork().send_after(1, "x")
