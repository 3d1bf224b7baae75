"""Children that create tasks and leave them behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import otpy
from otpy import ExitReason, GenServer
from otpy.server import Reply
from tests.runtime.children import Boom, forever


class Left:
    """A maker of tasks that it leaves behind.

    Attributes:
        tasks: All of them, in order.
    """

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []

    def behind(self, work: Coroutine[Any, Any, Any] | None = None, **options: Any) -> None:
        """Make a task of `work`, or one that waits for ever."""
        self.tasks.append(asyncio.create_task(work or forever(), **options))

    @property
    def states(self) -> str:
        """One letter for each task: c for cancelled, d for done, r for running."""
        return "".join("c" if t.cancelled() else "d" if t.done() else "r" for t in self.tasks)


async def crashes(left: Left) -> None:
    """Leave a task behind and crash, in each of three lives."""
    left.behind()
    await asyncio.sleep(1)
    if otpy.current().incarnation <= 3:
        raise Boom
    await forever()


class Plain(GenServer[str, None, Left]):
    """A server without a task, which makes some."""

    def init(self, left: Left) -> Left:
        left.behind()
        return left

    def handle_call(self, request: str, caller: object, state: Left) -> Reply[None, Left]:
        state.behind()
        if request == "crash":
            raise Boom
        return Reply(None, state)


class Slow(GenServer[str, None, Left]):
    """A server that lives in a task, and makes others."""

    async def init(self, left: Left) -> Left:
        left.behind()
        await asyncio.sleep(0)
        left.behind()
        return left

    async def handle_call(self, request: str, caller: object, state: Left) -> Reply[None, Left]:
        await asyncio.sleep(0)
        state.behind()
        if request == "crash":
            raise Boom
        return Reply(None, state)


class Turns(GenServer[str, None, Left]):
    """A server that gets a task in the middle of its life, and makes some before and after."""

    def init(self, left: Left) -> Left:
        left.behind()
        return left

    def handle_call(self, request: str, caller: object, state: Left) -> Any:
        state.behind()
        return self._later(request, state)

    async def _later(self, request: str, state: Left) -> Reply[None, Left]:
        await asyncio.sleep(0)
        state.behind()
        if request == "crash":
            raise Boom
        return Reply(None, state)

    async def terminate(self, reason: ExitReason, state: Left) -> None:
        state.behind()


async def plain(left: Left) -> None:
    """Be a coroutine function."""
    left.behind()
    await forever()


async def with_status(left: Left, *, task_status: Any) -> None:
    """Be a coroutine function that reports when it is ready."""
    left.behind()
    task_status.started()
    await forever()


@asynccontextmanager
async def context(left: Left) -> AsyncGenerator[None]:
    """Be a context manager."""
    left.behind()
    try:
        yield
    finally:
        left.behind()


async def asked(left: Left) -> None:
    """Be a coroutine function that the supervisor asks to stop."""
    left.behind()
    await otpy.current().stop_requested()
    left.behind()


def awaitable(left: Left) -> Any:
    """Be a function that returns an awaitable."""
    left.behind()
    return asyncio.gather(forever())


KINDS: list[Any] = [plain, with_status, context, asked, awaitable, Plain, Slow, Turns]
"""One child of each kind."""
