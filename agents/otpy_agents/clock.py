"""Both clocks in one value: one that people set, and one that only goes on.

What is stored, and what a vendor names, is told in wall time, as Unix seconds. Waits and silences
are spans, and spans are measured by the monotonic clock. A run stays in wall time and is told how
far that was moved (`ClockMoved`); so its spans hold, and what is stored can be read by the next
host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, final

from attrs import field, frozen

__all__ = ["CLOCK", "Clock", "Moved", "ClockReading"]

_MOVED: Final = 1.0
"""Seconds between the clocks that are not worth a word; what adds up to more is."""

_BOOT: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def _steady() -> float:
    return asyncio.get_running_loop().time()


def _slept() -> float | None:
    """Return how long the machine has slept since it was started; None if it does not tell."""
    if _BOOT is None:
        return None
    return time.clock_gettime(_BOOT) - time.clock_gettime(time.CLOCK_MONOTONIC)


@final
@frozen
class Moved:
    """How the wall clock moved against the monotonic one.

    Attributes:
        by: Seconds by which it was set, forward or back.
        slept: Seconds for which the machine slept meanwhile; its wall clock went on.
    """

    by: float = 0.0
    slept: float = 0.0

    def __bool__(self) -> bool:
        """Tell whether it moved at all."""
        return self.by != 0 or self.slept != 0


@final
@frozen
class ClockReading:
    """Both clocks at one moment.

    Attributes:
        wall: Unix seconds.
        steady: Seconds of the event loop.
        slept: Seconds for which the machine has slept; None if it does not tell.
    """

    wall: float
    steady: float
    slept: float | None

    def since(self, before: ClockReading) -> Moved:
        """Return how the clocks moved against each other from `before` until now.

        Less than a second is nothing. Where the machine does not tell how long it slept, a wall
        clock that is ahead counts as sleep: no wait gets longer for it.
        """
        ahead = (self.wall - before.wall) - (self.steady - before.steady)
        if self.slept is None or before.slept is None:
            ahead = ahead if abs(ahead) >= _MOVED else 0.0
            return Moved(min(0.0, ahead), max(0.0, ahead))
        slept = self.slept - before.slept
        by = ahead - slept
        return Moved(by if abs(by) >= _MOVED else 0.0, slept if slept >= _MOVED else 0.0)


@final
@frozen(repr=False)
class Clock:
    """Tells the time; called, it is the wall clock.

    Attributes:
        wall: Unix seconds.
        steady: Seconds of the event loop that runs, by which spans are measured.
        slept: Seconds for which the machine has slept since some moment; None if unknown.
    """

    wall: Callable[[], float] = time.time  # noqa: TID251 - what is stored outlives the loop
    steady: Callable[[], float] = field(default=_steady)
    slept: Callable[[], float | None] = field(default=_slept)

    def __repr__(self) -> str:
        """Return the name; which functions tell the time is of no interest to readers."""
        return "Clock()"

    def __call__(self) -> float:
        """Return the time in Unix seconds."""
        return self.wall()

    def read(self) -> ClockReading:
        """Return both clocks at this moment."""
        return ClockReading(self.wall(), self.steady(), self.slept())

    def at(self, steady: float) -> float:
        """Return a moment of the event loop in Unix seconds, by what the wall clock says now."""
        return self.wall() - (self.steady() - steady)


CLOCK: Final = Clock()
"""The clocks of this machine and of the event loop that runs."""
