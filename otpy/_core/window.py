"""The restart intensity window, with OTP's arithmetic."""

from __future__ import annotations

from collections import deque
from math import floor, inf
from typing import TYPE_CHECKING, final

from otpy._core.spec import INFINITY

if TYPE_CHECKING:
    from otpy._core.spec import Count


@final
class RestartWindow:
    """Counts restarts and says when there were too many.

    Source: OTP `supervisor`, SUP-503 to SUP-506. Times are truncated to whole seconds and a
    restart exactly `period` seconds ago still counts. Differs only in bookkeeping: the restarts of
    one second are one number, and those older than the period are dropped. So there is a number
    for each second of the period at most, however many restarts are allowed, and none if any
    number is.
    """

    __slots__ = ("_before", "_earlier", "_here", "_limit", "_period", "_second")

    def __init__(self, limit: Count, period: float) -> None:
        """Allow `limit` restarts within any `period` seconds."""
        self._limit: float = inf if limit is INFINITY else limit
        self._period = period
        self._second = 0  # of the last question
        self._here = 0  # restarts in it
        self._before: deque[tuple[int, int]] = deque()  # seconds of the window before it, and how
        self._earlier = 0  # many restarts were in each; in all of them together

    @property
    def endless(self) -> bool:
        """Whether any number of restarts is allowed."""
        return self._limit == inf

    def add(self, now: float) -> bool:
        """Count a restart at `now` (seconds, monotonic) and return whether it is allowed.

        A refused restart is counted too: the caller is expected to give up (SUP-509).
        """
        second = floor(now)
        if second != self._second:
            self._turn_to(second)
        self._here += 1
        return self._earlier + self._here <= self._limit

    def change(self, limit: Count, period: float) -> None:
        """Allow `limit` restarts within any `period` seconds from now on.

        What lay in the old window at the last restart still counts; OTP forgets the rest too.
        """
        if self.endless:
            self._here = 0
        self._limit = inf if limit is INFINITY else limit
        self._period = period
        self._drop()

    def _turn_to(self, second: int) -> None:
        """Let the window end with `second`."""
        if self._here:
            self._before.append((self._second, self._here))
            self._earlier += self._here
            self._here = 0
        self._second = second
        self._drop()

    def _drop(self) -> None:
        """Forget what lies before the window."""
        before, oldest = self._before, self._second - self._period
        while before and (self.endless or before[0][0] < oldest):
            self._earlier -= before.popleft()[1]

    def __len__(self) -> int:
        """Return how many restarts count, as of the second of the last question."""
        return self._earlier + self._here
