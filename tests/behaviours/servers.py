"""Servers for the tests of `GenServer`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from attrs import frozen

import otpy
from otpy import ChildSpec, ExitReason, GenServer, Process, Restart, Supervisor, SupervisorSpec
from otpy.server import Caller, CallResult, NoReply, Reply, Result, ServerRef, Stop

Ask = Callable[[Any, Caller[Any], Any], Any]
Tell = Callable[[Any, Any], Any]
Ref = ServerRef[Ask | Tell, Any]


@frozen
class Add:
    """Add to the counter."""

    n: int = 1


@frozen
class Get:
    """Ask for the counter."""


class Counter(GenServer[Add | Get, int, int]):
    """A counter, the way a user writes one."""

    def init(self, start: int = 0) -> int:
        return start

    def handle_call(
        self, request: Add | Get, caller: Caller[int], state: int
    ) -> CallResult[int, int]:
        match request:
            case Add(n):
                return Reply(state + n, state + n)
            case Get():
                return Reply(state, state)

    async def handle_cast(self, request: Add | Get, state: int) -> Result[int]:
        await asyncio.sleep(0)
        return NoReply(state + request.n) if isinstance(request, Add) else NoReply(state)


class Script(GenServer[Ask | Tell, Any, Any]):
    """A server that does what its messages say, and writes down what happened.

    The state is any value; a request is a function of (server, caller, state) or, cast, of
    (server, state), that returns the result or something to await.
    """

    def __init__(self) -> None:
        self.terminating: Callable[[ExitReason], Awaitable[None]] | None = None

    def init(
        self, log: list[Any], result: Any = "state", do: Callable[[Script], Any] | None = None
    ) -> Any:
        self.log = log
        if do is not None:
            return do(self)
        return result

    def handle_call(self, request: Any, caller: Caller[Any], state: Any) -> Any:
        return request(self, caller, state)

    def handle_cast(self, request: Any, state: Any) -> Any:
        return request(self, state)

    def handle_continue(self, value: Any, state: Any) -> Any:
        self.log.append(("continue", value))
        return value(self, state) if callable(value) else NoReply(state)

    def handle_info(self, message: object, state: Any) -> Any:
        self.log.append(message)
        return message(self, state) if callable(message) else NoReply(state)

    async def terminate(self, reason: ExitReason, state: Any) -> None:
        self.log.append(("terminate", reason, state))
        if self.terminating is not None:
            await self.terminating(reason)


def echo(value: Any) -> Ask:
    """Return a request that is answered with `value` at once."""
    return lambda server, caller, state: Reply(value, state)


def note(value: Any) -> Tell:
    """Return a cast that writes `value` down."""

    def do(server: Script, state: Any) -> NoReply[Any]:
        server.log.append(value)
        return NoReply(state)

    return do


def stop(reason: ExitReason, *reply: Any) -> Ask:
    """Return a request that stops the server."""
    return lambda server, caller, state: Stop(reason, ("stopped", state), *reply)


def blocked(seconds: float, value: Any = "slow") -> Ask:
    """Return a request that is answered after `seconds`; nothing else is served meanwhile."""

    async def do(server: Script, caller: Caller[Any], state: Any) -> Reply[Any, Any]:
        await asyncio.sleep(seconds)
        server.log.append(value)
        return Reply(value, state)

    return do


def busy(seconds: float) -> Tell:
    """Return a cast that keeps the server busy."""

    async def do(server: Script, state: Any) -> NoReply[Any]:
        await asyncio.sleep(seconds)
        return NoReply(state)

    return do


def fail(error: BaseException) -> Callable[..., Any]:
    """Return a request or cast that raises."""

    def do(*_: Any) -> Any:
        raise error

    return do


@asynccontextmanager
async def running(
    *args: Any, restart: Restart = Restart.TEMPORARY, hooks: Any = (), **options: Any
) -> AsyncGenerator[tuple[Supervisor, Process, Ref, list[Any]]]:
    """Run one `Script` under a supervisor; yield that, its process, a handle and its log."""
    log: list[Any] = []
    spec = ChildSpec("s", Script, (log, *args), restart=restart, **options)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=hooks) as app:
        yield app, app.child("s"), Script.at("app/s", app), log
