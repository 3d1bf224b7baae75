"""The deadlines of all waiting callers, on one timer of the loop.

Nearly every deadline is met, and most who wait are willing to wait equally long. Those stand in one
line, where the first to come is the first whose time is over: to join it and to leave it costs a
place in a dictionary, a hundredth of a timer. The one timer is set for the earliest of all lines,
and stays set when that was met: it then fires once for nothing, and is set for the next.
"""

from __future__ import annotations

import math
from collections import deque
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, final

from otpy._core.checks import check_timeout

if TYPE_CHECKING:
    import asyncio
    from contextvars import Context

_FEW: Final = 64  # empty lines that may be kept


class Waiter(Protocol):
    """A caller that waits for something, but not for ever."""

    def overdue(self) -> None:
        """The time is over."""
        ...


@final
class Line:
    """All callers with the same timeout.

    Attributes:
        seconds: How long.
        waiting: When the time of each is over, in the loop's seconds; who came first is first.
        watched: Whether it has a place among the lines that the timer is set for.
    """

    __slots__ = ("_told", "seconds", "waiting", "watched")

    def __init__(self, seconds: float) -> None:
        """Make an empty line."""
        self.seconds = seconds
        self.waiting: dict[Waiter, float] = {}
        self.watched = False
        self._told = 0

    def meet(self, waiting: Waiter) -> None:
        """It does not wait any more; without effect if its time was over before."""
        self.waiting.pop(waiting, None)

    def overdue(self, now: float) -> list[tuple[float, Waiter]]:
        """Take out all whose time is over, and return them with their times."""
        told: list[tuple[float, Waiter]] = []
        for waiting, when in self.waiting.items():
            if when > now:
                break
            told.append((when, waiting))
        for _, waiting in told:
            del self.waiting[waiting]
        self._told += len(told)
        if self._told * self._told > len(self.waiting):
            # What was at the front of a dictionary is stepped over each time its first is sought.
            self.waiting = dict(self.waiting)
            self._told = 0
        return told


@final
class Deadlines:
    """The deadlines of one tree, each exact."""

    __slots__ = (
        "_context",
        "_due",
        "_heap",
        "_lines",
        "_loop",
        "_many",
        "_now",
        "_number",
        "_timer",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        """Have none; tell of them in `loop`, in `context`."""
        self._loop = loop
        self._context = context
        self._now = loop.time
        self._lines: dict[float, Line] = {}
        self._heap: list[tuple[float, int, Line]] = []  # no later than the first of each line
        self._number = 0
        self._many = _FEW
        self._due = math.inf  # when the timer fires
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, waiting: Waiter) -> Line:
        """Tell `waiting` when `seconds` have passed, unless it `meet`s its deadline before.

        Returns:
            The line in which it stands; no waiter stands twice in the same line.

        Raises:
            ValueError: If `seconds` is not a number.
        """
        line = self._lines.get(seconds)
        if line is None:
            line = self._made(seconds)
        line.waiting[waiting] = when = self._now() + seconds
        if not line.watched:
            self._watch(line, when)
            if when < self._due:
                self._set_timer(when)
        return line

    def _made(self, seconds: float) -> Line:
        check_timeout("deadlines", seconds)
        if len(self._lines) >= self._many:  # hardly two are willing to wait equally long
            self._lines = {key: line for key, line in self._lines.items() if line.waiting}
            self._heap = [entry for entry in self._heap if entry[2].waiting]
            heapify(self._heap)
            self._many = len(self._lines) * 2 + _FEW
        line = self._lines[seconds] = Line(seconds)
        return line

    def _watch(self, line: Line, when: float) -> None:
        self._number += 1
        heappush(self._heap, (when, self._number, line))
        line.watched = True

    def clear(self) -> None:
        """Remove all timers: the tree has ended, and every waiting caller has been told."""
        self._lines.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._due = None, math.inf

    def _set_timer(self, when: float) -> None:
        timer = self._timer
        self._timer = self._loop.call_at(when, self._time_has_come, context=self._context)
        self._due = when
        if timer is not None:
            timer.cancel()

    def _time_has_come(self) -> None:
        self._timer, self._due = None, math.inf
        now, overdue = self._now(), list[tuple[float, Waiter]]()
        while self._heap and self._heap[0][0] <= now:
            line = heappop(self._heap)[2]
            overdue += line.overdue(now)
            first = next(iter(line.waiting.values()), None)
            if first is not None:
                self._watch(line, first)
            else:
                line.watched = False
                del self._lines[line.seconds]
        if self._heap:
            self._set_timer(self._heap[0][0])
        self._tell(deque(sorted(overdue, key=itemgetter(0))))

    def _tell(self, overdue: deque[tuple[float, Waiter]]) -> None:
        """Tell all of them, also if one is disturbed: by Ctrl-C, or where memory ends."""
        try:
            while overdue:
                overdue.popleft()[1].overdue()
        finally:
            if overdue:
                self._loop.call_soon(self._tell, overdue, context=self._context)
