"""A store that takes no writes for a while: when to try again, and when to give up."""

from __future__ import annotations

from typing import Final

from attrs import frozen

__all__ = ["StoreOutage"]

_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 30.0
_PATIENCE: Final = 30.0  # without an attempt, which may itself have filled the disk


@frozen
class StoreOutage:
    """The store takes no writes: its disk is full, it may not be written, or is kept locked.

    Attributes:
        since: When that was found out, in seconds of the loop.
        delay: Seconds between the last try and the next.
        again: When that is, in seconds of the loop.
        alone: Since when no attempt is at work; None while one is.
    """

    since: float
    delay: float
    again: float
    alone: float | None

    @classmethod
    def found(cls, now: float, *, flying: bool, before: StoreOutage | None) -> StoreOutage:
        """Return what follows a write that failed `now`; `before` is what followed the last."""
        delay = _FIRST_DELAY if before is None else min(before.delay * 2, _LAST_DELAY)
        since = now if before is None else before.since
        alone = now if before is None or before.alone is None else before.alone
        return cls(since, delay, now + delay, None if flying else alone)

    def is_due(self, now: float, *, flying: bool) -> bool:
        """Whether to try again: when it is time, and as soon as the attempt has ended."""
        return now >= self.again or (self.alone is None and not flying)

    def is_hopeless(self, now: float) -> bool:
        """Whether to end: no attempt is at work, and nothing may begin before this is stored."""
        return self.alone is not None and now >= self.alone + _PATIENCE
