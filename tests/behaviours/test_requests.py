"""Requests that name the type of their reply; a server treats them like any other."""

from __future__ import annotations

from typing import Any

from attrs import frozen

import otpy
from otpy import ChildSpec, GenServer, SupervisorSpec
from otpy.server import CallResult, NoReply, Reply, Request, ServerRef


@frozen
class Get(Request[bytes | None]):
    """Ask for a value."""

    key: str


class Count(Request[int]):
    """Ask how many there are."""


class Cache(GenServer[Get | Count | str, bytes | int | None, dict[str, bytes]]):
    def init(self, content: dict[str, bytes]) -> dict[str, bytes]:
        return content

    def handle_call(
        self, request: Get | Count | str, caller: Any, state: dict[str, bytes]
    ) -> CallResult[bytes | int | None, dict[str, bytes]]:
        match request:
            case Get():
                return Reply(state.get(request.key), state)
            case Count():
                return Reply(len(state), state)
            case _:
                caller.reply(None)
                return NoReply(state)


def test_a_handle_is_typed_with_its_state_or_without() -> None:
    """The type of the state has a default."""
    assert ServerRef[Get, bytes] == ServerRef[Get, bytes, Any]


async def test_a_request_reaches_the_server_as_it_is() -> None:
    """The base class has no fields and does nothing; a request may be an attrs class."""
    spec = ChildSpec("cache", Cache, ({"a": b"x"},))
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as root:
        cache = Cache.at("app/cache", root)
        found = await cache.call(Get("a"))
        assert found is not None
        assert found.decode() == "x"
        assert await cache.call(Get("b")) is None
        assert await cache.call(Count()) + 1 == 2
        assert await cache.call("plain") is None
        assert await cache.get_state() == {"a": b"x"}
