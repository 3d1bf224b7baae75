"""How long everybody is willing to wait, on one timer of the loop.

Nearly every deadline is met. One timer for each costs more than the rest of a call to a server; a
place in a heap costs a tenth of that. The timer is set for the earliest, and stays set when that
was met: it then fires once for nothing, and is set for the next.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

if TYPE_CHECKING:
    import asyncio
    from contextvars import Context

_FEW: Final = 64  # deadlines that may lie about although they were met


class Waiting(Protocol):
    """Who waits for something, but not for ever."""

    def overdue(self) -> None:
        """The time is over."""
        ...


Deadline: TypeAlias = list[Any]
"""When, in the loop's seconds; its number; who waits, None if nobody does any more."""


@final
class Deadlines:
    """The deadlines of one tree, each exact and in the order in which they were set."""

    __slots__ = ("_context", "_due", "_heap", "_loop", "_met", "_number", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        """Have none; tell of them in `loop`, in `context`."""
        self._loop = loop
        self._context = context
        self._heap: list[Deadline] = []
        self._number = 0
        self._met = 0  # how many in the heap nobody waits for
        self._due = math.inf  # when the timer fires
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float, waiting: Waiting) -> Deadline:
        """Tell `waiting` when `seconds` have passed, unless its deadline was met by then."""
        when = self._loop.time() + seconds
        self._number = number = self._number + 1
        deadline = [when, number, waiting]
        heappush(self._heap, deadline)
        if when < self._due:
            self._set_timer(when)
        return deadline

    def meet(self, deadline: Deadline) -> None:
        """Nobody waits any more."""
        if deadline[2] is None:
            return
        deadline[2] = None
        self._met += 1
        if self._met > _FEW and self._met * 2 > len(self._heap):
            self._heap = [deadline for deadline in self._heap if deadline[2] is not None]
            heapify(self._heap)
            self._met = 0

    def clear(self) -> None:
        """The tree has ended, and whoever waited has been told: leave no timer behind."""
        self._heap.clear()
        self._met = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._due = None, math.inf

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = self._loop.call_at(when, self._time_has_come, context=self._context)

    def _time_has_come(self) -> None:
        self._timer, self._due = None, math.inf
        now = self._loop.time()
        while self._heap and (self._heap[0][2] is None or self._heap[0][0] <= now):
            deadline = heappop(self._heap)
            waiting: Waiting | None = deadline[2]
            if waiting is None:
                self._met -= 1
            else:
                deadline[2] = None
                waiting.overdue()
        if self._heap:
            self._set_timer(self._heap[0][0])
