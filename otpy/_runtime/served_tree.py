"""A tree inside a server: its start in time, its root, and what happens when it ends first."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, final

from otpy._core.child import Status
from otpy._core.phase import Phase
from otpy._runtime.root import WAITS_FOR_NOTHING, name_refusing
from otpy._runtime.run import status_of
from otpy._runtime.server_end import ServerEnd, Way, way_out
from otpy._runtime.stderr import say
from otpy.errors import SupervisorFailed, TreeStartFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from otpy._runtime.handles import AnySupervisor
    from otpy._runtime.root import RunningTree
    from otpy._runtime.shells import AnyShell
    from otpy._runtime.snapshot import TreeSnapshot

UNSEEN_GRACE: Final = 1.0
"""Seconds for requests in flight where the server cannot be asked to stop, nor they be counted."""

FLUSH: Final = 0.1
"""Seconds for the server to send the last bytes of what has been answered."""


@final
class ServedTree(AbstractAsyncContextManager[Any]):
    """The tree around one life of one application.

    Also an asynchronous iterator: aiohttp before 3.14 wants what an async generator does.

    Attributes:
        root: The root supervisor; None before it is ready, and when the block has been left.
        counts_requests: Whether somebody counts the requests in flight.
        requests: How many there are.
    """

    def __init__(
        self,
        app: object,
        running: RunningTree,
        take_turns: Callable[[ServedTree | None, ServedTree | None], None],
        start_timeout: float | None,
        stop_timeout: float,
    ) -> None:
        """Describe the block; nothing is started yet.

        Args:
            app: The application.
            running: The tree.
            take_turns: Called with the block that runs and the one that is to run instead.
            start_timeout: See `otpy.lifespan`.
            stop_timeout: See `otpy.lifespan`.
        """
        self.root: AnyShell | None = None
        self.counts_requests = False
        self.requests = 0
        self._app: Any = app
        self._running = running
        self._take_turns = take_turns
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._late: TreeStartFailed | None = None
        self._end: ServerEnd | None = None

    async def __aenter__(self) -> dict[str, AnySupervisor]:
        """Start the tree, in time, and return the state that the application gets."""
        self._take_turns(None, self)
        self._loop = asyncio.get_running_loop()
        try:
            with _waits_for_nothing():
                root = await self._start()
        except BaseException:
            self._left()
            raise
        self.root = root
        self._cancel_host, root.on_end = root.on_end, self._ended
        if root.ended:
            self._ended()
        if hasattr(self._app, "state"):
            with suppress(AttributeError):  # it is not a place for names
                self._app.state.otpy = root
        return {"otpy": root}

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the tree; raise `SupervisorFailed` if it had failed."""
        host = asyncio.current_task()
        if self._end is not None and host is not None:
            host.add_done_callback(self._host_done)
        try:
            with _waits_for_nothing():
                await self._running.__aexit__(kind, error, traceback)
        finally:
            self._left()

    def __aiter__(self) -> ServedTree:
        """Return the block itself."""
        return self

    async def __anext__(self) -> None:
        """Enter the block; the second time leave it."""
        if self.root is None:
            await self.__aenter__()
            return
        await self.__aexit__(None, None, None)
        raise StopAsyncIteration

    def request_done(self) -> None:
        """Count one request less."""
        self.requests -= 1
        if self._end is not None and not self.requests:
            self._all_answered(self._end)

    # --- the start -------------------------------------------------------------------------------

    async def _start(self) -> AnyShell:
        if self._start_timeout is None:
            return await self._running.__aenter__()
        try:
            async with asyncio.timeout(None) as block:
                timer = self._loop.call_later(self._start_timeout, self._too_late, block)
                try:
                    return await self._running.__aenter__()
                finally:
                    timer.cancel()
        except TimeoutError as error:
            raise self._late or error from None

    def _too_late(self, block: asyncio.Timeout) -> None:
        """Note which child is starting, while it can be seen, and end the start."""
        root = self._running.root
        if root is None or root.snapshot().state != Phase.STARTING.value:
            return  # it is ready, or did not start: what has started is being stopped
        why = f"still starting after start_timeout={self._start_timeout:g} s of otpy.lifespan()"
        self._late = TreeStartFailed(
            _starting(root.snapshot()), f"{root.path} did not start: {why}"
        )
        block.reschedule(self._loop.time())

    # --- a tree that ends before the server ------------------------------------------------------

    def _ended(self) -> None:
        # Later, and not on a supervisor's stack: what handles a signal may raise.
        self._loop.call_soon(self._end_server)

    def _end_server(self) -> None:
        """Let the server end as the tree has."""
        root, way = self.root, way_out()
        if root is None:  # the server has left the block meanwhile
            return
        if way is Way.NONE:
            if self._cancel_host is not None:
                self._cancel_host()  # if it did not end in good order
            return
        why, status = _why(root)
        end = self._end = ServerEnd(self._loop, root.path, way, status)
        say(f"{why}; process {os.getpid()} ends, with status {status}")
        end.within(self._stop_timeout)
        if way is Way.ASK:
            end.ask()
        elif not self.counts_requests:
            self._loop.call_later(UNSEEN_GRACE, end.leave_worker)
        elif not self.requests:
            self._all_answered(end)

    def _all_answered(self, end: ServerEnd) -> None:
        if end.way is Way.LEAVE:  # a server that was asked knows it by itself
            self._loop.call_later(FLUSH, end.leave_worker)

    def _host_done(self, host: asyncio.Task[Any]) -> None:
        """The task that left the block has ended, and with it the server."""
        end, root = self._end, self._running.root
        if end is None or root is None:
            return
        if not end.status and not root.abandoned:
            end.over()
        elif end.status and not host.cancelled() and host.exception() is None:
            # The server has kept the failure to itself, and would end with status 0. Now and not
            # before: whatever else was open in that task has been left in order.
            end.leave_loop()

    def _left(self) -> None:
        """The block has been left, or could not be entered.

        Where a child refuses to end, the event loop would wait for it, and the process not end.
        """
        self.root = None
        self._take_turns(self, None)
        root, way, seconds = self._running.root, way_out(), self._stop_timeout
        if root is None or way is Way.NONE:
            return
        consequence = f"process {os.getpid()} will wait for {{them}} {seconds:g} s at most"
        if root.abandoned and name_refusing(root, consequence) and self._end is None:
            ServerEnd(self._loop, root.path, way, 1).within(seconds)


@contextmanager
def _waits_for_nothing() -> Generator[None]:
    """Tell the tree's end that a server's process ends whatever refuses to."""
    ends = WAITS_FOR_NOTHING.get() or way_out() is not Way.NONE
    token = WAITS_FOR_NOTHING.set(ends)
    try:
        yield
    finally:
        WAITS_FOR_NOTHING.reset(token)


def _starting(tree: TreeSnapshot) -> str:
    """Return the path of the child that keeps `tree` from being ready; one starts at a time."""
    while True:
        starting = [child for child in tree.children if child.state == Status.STARTING.value]
        if not starting:
            return tree.path
        tree = starting[0]


def _why(root: AnyShell) -> tuple[str, int]:
    """Return in one line why the tree has ended, and the exit status that tells it."""
    interruption, failure = root.tree.interruption, root.failure()
    if isinstance(interruption, SystemExit):
        return f"{root.path} was shut down by {interruption!r}", status_of(interruption)
    if interruption is not None:
        return f"{root.path} was shut down by {interruption!r}", 128 + signal.SIGINT
    if isinstance(failure, SupervisorFailed):
        return f"{failure.args[0]}; {failure.reasons[-1]}", 1
    return f"{root.path} has ended in good order", 0
