"""The life of a server in a task: from the first awaitable on that a callback has returned.

The task is kept for the rest of the life: what was entered in it, such as a task group or a cancel
scope, must be left in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, final

from otpy._core.reason import Exit, Normal
from otpy._runtime.crash import reason_for
from otpy.behaviours.callbacks import CRASHES, MORE, TURN, is_stop
from otpy.behaviours.results import Stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from otpy._runtime.process import LiveProcess


class TaskedServer(Protocol):
    """The server that lives in a task, as the task knows it; `Server` says more of each."""

    process: LiveProcess
    halted: bool
    state: Any

    @property
    def in_hand(self) -> object:
        """The message whose result is awaited, or was a `Stop`; else None."""
        ...

    def begun(self, result: object) -> bool:
        """Take what `init` gave, and be ready; return whether to go on before any message."""
        ...

    def serve(self, turn: Iterator[int]) -> Any:
        """Serve for a turn; return an awaitable, or the reason for a pause."""
        ...

    def take(self, result: Any) -> Any:
        """Continue with the awaited result."""
        ...

    def awake(self) -> None:
        """Stop being idle."""

    def terminate(self, stop: Stop[Any, Any]) -> Any:
        """Call `terminate`; return its awaitable."""
        ...

    def reply_at_last(self, stop: Stop[Any, Any]) -> None:
        """Reply what `stop` says, after `terminate`."""


@final
class ServerTask:
    """The work of one server's task."""

    __slots__ = ("_first", "_server", "_waiter")

    def __init__(self, server: TaskedServer, first: Awaitable[Any] | None = None) -> None:
        """Serve for `server`; the task first awaits `first`, which a callback gave.

        Kept here and not handed to the task, whose frames would hold it for the whole life.
        """
        self._server = server
        self._first = first
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Serve the coming message; for the mailbox.

        The future is resolved by the loop: on a stack that ends in the middle of that, it would be
        done and its task asleep for ever.
        """
        tree = self._server.process.parent.tree
        tree.loop.call_soon(self._woken, context=tree.context)
        self._server.awake()

    def _woken(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def ended(self) -> None:
        """The process has ended."""
        first: Any = self._first
        if isinstance(first, Coroutine):
            first.close()  # cancelled before its first step: else Python warns of it

    def _take_first(self) -> Awaitable[Any]:
        assert self._first is not None  # noqa: S101 - the task was made for its sake
        first, self._first = self._first, None
        return first

    async def live(self, result: Any = None) -> None:
        """Be ready, when what `init` has returned is there, and serve to the end.

        One coroutine for all of it: an idle server would keep a second one, and its frame.
        """
        server, turn = self._server, iter(TURN)
        if server.in_hand is None:  # else it is ready, and goes on here with that message
            await self._begin(result)
        result = None
        try:
            came: Any = server.serve(turn) if self._first is None else self._take_first()
            while not is_stop(came):
                if came is MORE:
                    turn = iter(TURN)
                    await asyncio.sleep(0)
                elif came is not None:
                    came = server.take(await came)
                    if came is not None:
                        break
                elif server.halted:  # given up in a callback, which has ended after all
                    raise asyncio.CancelledError
                else:
                    turn = iter(TURN)
                    self._waiter = asyncio.get_running_loop().create_future()
                    try:
                        await self._waiter
                    finally:
                        self._waiter = None
                        server.awake()
                came = server.serve(turn)
        except CRASHES as error:
            # If this raises, that is the reason (GEN-21).
            await self._terminate(Stop(reason_for(error), server.state))
            raise
        await self._terminate(came)
        if not isinstance(came.reason, Normal):
            raise Exit(came.reason)

    async def _begin(self, result: Any) -> None:
        if self._first is not None:
            result = await self._take_first()
        if self._server.begun(result):
            await asyncio.sleep(0)  # the starter hears of the start first (GEN-07)

    async def finish(self, stop: Stop[Any, Any], error: BaseException | None) -> None:
        """Be over, because of `error` if there is one, when what `terminate` gave is there."""
        try:
            if error is not None:
                raise error  # now, to be the context of what comes out of `terminate`
        except CRASHES:
            await self._terminated(stop, self._take_first())
            raise
        await self._terminated(stop, self._take_first())
        if not isinstance(stop.reason, Normal):
            raise Exit(stop.reason)

    async def _terminate(self, stop: Stop[Any, Any]) -> None:
        awaitable = self._server.terminate(stop)
        if awaitable is not None:
            await self._terminated(stop, awaitable)

    async def _terminated(self, stop: Stop[Any, Any], awaitable: Awaitable[Any]) -> None:
        """Wait for what `terminate` gave; reply then, failed or not (GEN-10)."""
        try:
            await awaitable
        except CRASHES:
            self._server.reply_at_last(stop)
            raise
        self._server.reply_at_last(stop)
