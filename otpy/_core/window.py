"""The restart intensity window, with OTP's arithmetic."""

from __future__ import annotations

from collections import deque
from math import floor
from typing import final


@final
class RestartWindow:
    """Counts restarts and says when there were too many.

    Source: OTP `supervisor`, SUP-503 to SUP-506. Times are truncated to whole seconds and a
    restart exactly `period` seconds ago still counts. Differs only in bookkeeping: no more than
    `intensity + 1` times are ever kept, which decides the same in constant time.
    """

    __slots__ = ("_limit", "_period", "_times")

    def __init__(self, intensity: int, period: float) -> None:
        """Allow `intensity` restarts within any `period` seconds."""
        self._limit = intensity
        self._period = period
        self._times: deque[int] = deque(maxlen=intensity + 1)

    def add(self, now: float) -> bool:
        """Count a restart at `now` (seconds, monotonic) and return whether it is allowed.

        A refused restart is counted too: the caller is expected to give up (SUP-509).
        """
        second = floor(now)
        times = self._times
        times.append(second)
        return len(times) <= self._limit or times[0] < second - self._period

    def add_if_exceeded(self, now: float) -> bool:
        """Count a restart at `now` if it is refused, and return whether it is."""
        second, times, limit = floor(now), self._times, self._limit
        if len(times) < limit or (limit and times[-limit] < second - self._period):
            return False
        times.append(second)
        return True

    def add_if_allowed(self, now: float) -> bool:
        """Count a restart at `now` if it is allowed, and return whether it is."""
        second, times, limit = floor(now), self._times, self._limit
        if len(times) >= limit and (not limit or times[-limit] >= second - self._period):
            return False
        times.append(second)
        return True

    def change(self, intensity: int, period: float) -> None:
        """Allow `intensity` restarts within any `period` seconds from now on.

        What lay in the old window at the last restart still counts; OTP forgets the rest too.
        """
        times = self._times
        kept = [second for second in times if second >= times[-1] - self._period]
        self._limit = intensity
        self._period = period
        self._times = deque(kept, maxlen=intensity + 1)

    def __len__(self) -> int:
        """Return how many restarts are remembered; the oldest may lie outside the window."""
        return len(self._times)
