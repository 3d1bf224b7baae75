"""A restart loop as one writes it by hand: one task that starts, restarts and stops its children.

It keeps OTP's restart window (whole seconds, the boundary inclusive) and OTP's strict stop (one
child at a time, in reverse), because a loop without them would not be a supervisor. It keeps
nothing else: no names, no reasons, no limits of time, no reports.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.subject import Body


class GaveUp(Exception):
    """Too many restarts within the window."""


@final
class Window:
    """At most `limit` restarts in any `period` seconds."""

    __slots__ = ("_limit", "_period", "_times")

    def __init__(self, limit: int, period: int) -> None:
        """Start with no restart."""
        self._limit = limit
        self._period = period
        self._times: deque[int] = deque(maxlen=limit + 1)

    def count(self) -> None:
        """Count one restart; raise `GaveUp` if it is one too many."""
        now = int(monotonic())
        times = self._times
        times.append(now)
        if len(times) > self._limit and times[0] >= now - self._period:
            raise GaveUp


class Ends:
    """The tasks that have ended and are not dealt with; somebody may wait for the next."""

    __slots__ = ("_ended", "_waker")

    def __init__(self) -> None:
        """Hold none."""
        self._ended: deque[asyncio.Task[Any]] = deque()
        self._waker: asyncio.Future[None] | None = None

    def add(self, task: asyncio.Task[Any]) -> None:
        """Take `task`, as its done callback."""
        self._ended.append(task)
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def next(self) -> asyncio.Task[Any]:
        """Return the first of them."""
        while not self._ended:
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker
            self._waker = None
        return self._ended.popleft()


@final
class Supervisor:
    """A fixed list of children, all permanent."""

    __slots__ = ("_bodies", "_ends", "_numbers", "_tasks", "_together", "_window", "ready")

    def __init__(
        self, bodies: Sequence[Body], limit: int, period: int, *, together: bool = False
    ) -> None:
        """Have nothing started; `together` restarts all when one ends."""
        self._bodies = bodies
        self._window = Window(limit, period)
        self._together = together
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers: dict[asyncio.Task[Any], int] = {}
        self._ends = Ends()
        self.ready = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Be the body of the supervisor's task; cancel it to stop everything."""
        self._tasks = [self._start(number) for number in range(len(self._bodies))]
        if not self.ready.done():
            self.ready.set_result(None)
        try:
            while True:
                task = await self._ends.next()
                number = self._numbers.pop(task, None)
                if not task.cancelled():
                    task.exception()
                if number is None:
                    continue  # it was stopped
                self._window.count()
                if self._together:
                    await self._stop()
                    self._tasks = [self._start(number) for number in range(len(self._bodies))]
                else:
                    self._tasks[number] = self._start(number)
        finally:
            await self._stop()

    def _start(self, number: int) -> asyncio.Task[None]:
        task = asyncio.create_task(self._bodies[number]())
        self._numbers[task] = number
        task.add_done_callback(self._ends.add)
        return task

    async def _stop(self) -> None:
        self._numbers.clear()
        for task in reversed(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
