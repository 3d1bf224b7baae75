"""The life of a server in a task: from the first awaitable on that a callback has returned.

The task is kept for the rest of the life: what was entered in it, such as a task group or a cancel
scope, must be left in it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, final

from otpy._core.reason import Exit, Normal
from otpy._runtime.crash import reason_for
from otpy.behaviours.callbacks import CRASHES, RESULTS, hand_over
from otpy.behaviours.mailbox import Caller, Control, StopAsked
from otpy.behaviours.results import NO_ANSWER, Stop

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from otpy.behaviours.callbacks import Served
    from otpy.behaviours.mailbox import Continue, Message
    from otpy.behaviours.server import Server

BATCH: Final = 64
"""Messages in a row before the rest of the loop has its turn."""


@final
class ServerTask:
    """What the task of one server does."""

    __slots__ = ("_first", "_message", "_server", "_waiter")

    def __init__(
        self, server: Server, first: Awaitable[Any] | None = None, message: Served | None = None
    ) -> None:
        """Serve for `server`; the task first awaits `first`, which the callback for `message` gave.

        Kept here and not handed to the task, whose frames would hold them for the whole life.
        """
        self._server = server
        self._first = first
        self._message = message
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Serve what is about to come; for the mailbox.

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
        server, served = self._server, 0
        stop: Stop[Any, Any] | None = None
        if self._message is None:  # else it is ready, and goes on here with that message
            await self._begin(result)
        try:
            result = None if self._message is None else await self._take_first()
            while True:
                if self._message is not None:
                    if not isinstance(result, RESULTS) and inspect.isawaitable(result):
                        result = await result
                    stop = server.take(result, self._message)
                    if stop is not None:
                        break
                    self._message = result = None
                served += 1
                if served % BATCH == 0:  # messages to oneself would else keep the loop for ever
                    await asyncio.sleep(0)
                if not server.process.alive:  # given up in a callback, which has ended after all
                    raise asyncio.CancelledError
                came: Message | Continue | None = server.next()
                while came is None:
                    self._waiter = asyncio.get_running_loop().create_future()
                    server.doze()
                    try:
                        await self._waiter
                    finally:
                        self._waiter = None
                        server.awake()
                    came = server.mailbox.next()
                if isinstance(came, StopAsked):
                    stop = Stop(came.reason, server.state)
                    break
                result = self._served(came)
        except CRASHES as error:
            server.ending = reason_for(error)
            # If this raises, that is the reason (GEN-21).
            await self._terminate(Stop(server.ending, server.state), None)
            raise
        server.ending = stop.reason
        await self._terminate(stop, self._message if isinstance(self._message, Caller) else None)
        if not isinstance(stop.reason, Normal):
            raise Exit(stop.reason)

    async def _begin(self, result: Any) -> None:
        if self._first is not None:
            result = await self._take_first()
        if self._server.begun(result):
            await asyncio.sleep(0)  # the starter hears of the start first (GEN-07)

    def _served(self, came: Served | Control) -> Any:
        """Serve `came`; return what its callback returned, if it has one."""
        server = self._server
        if isinstance(came, Control):
            server.perform(came)
            return None
        if isinstance(came, Caller):
            server.owe(came)
        self._message = came
        return hand_over(came, server.callbacks, server.state)

    async def finish(
        self, stop: Stop[Any, Any], caller: Caller[Any] | None, error: BaseException | None
    ) -> None:
        """Be over, because of `error` if there is one, when what `terminate` gave is there."""
        try:
            if error is not None:
                raise error  # now, to be the context of what comes out of `terminate`
        except CRASHES:
            await self._terminate(stop, caller)
            raise
        await self._terminate(stop, caller)
        if not isinstance(stop.reason, Normal):
            raise Exit(stop.reason)

    async def _terminate(self, stop: Stop[Any, Any], caller: Caller[Any] | None) -> None:
        """Terminate, or wait for what that gave; reply then, failed or not (GEN-10)."""
        server = self._server
        try:
            if self._first is not None:
                await self._take_first()
            else:
                result: Any = server.callbacks.terminate(stop.reason, server.state)
                if inspect.isawaitable(result):
                    await result
        except CRASHES:
            reply_at_last(stop, caller)
            raise
        reply_at_last(stop, caller)


def reply_at_last(stop: Stop[Any, Any], caller: Caller[Any] | None) -> None:
    """Reply as `stop` says, when `terminate` is over."""
    if caller is not None and stop.reply is not NO_ANSWER:
        caller.reply(stop.reply)
