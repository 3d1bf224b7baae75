"""How fast agents of one vendor, and programs, may be restarted, over all of them (G-17).

One crash of a vendor ends all agents at once, and all would come back at once, and again; so would
programs that crash at once and have no delay. So restarts are spread: a burst is free, then each
waits for its place. First starts are not held back, as `parallel` bounds them. A little chance
keeps those that wait from moving in step.
"""

from __future__ import annotations

import math
from typing import final

from attrs import evolve, frozen

from otpy_agents.errors import InvalidStartRate

__all__ = ["StartRate", "StartSlots"]


@final
@frozen(kw_only=True)
class StartRate:
    """The limit.

    Attributes:
        starts: How many may be started within `seconds`, and at once if there was quiet before.
        seconds: The length of that time.
        jitter: Most that is added at random to a wait, as a share of the wait; from 0 to 1.

    Raises:
        InvalidStartRate: One of these can never work.
    """

    starts: int = 20
    seconds: float = 10.0
    jitter: float = 0.1

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        if self.starts < 1:
            raise InvalidStartRate("starts", repr(self.starts), "a whole number from 1")
        if not 0 < self.seconds < math.inf:
            raise InvalidStartRate("seconds", repr(self.seconds), "seconds above 0")
        if not 0 <= self.jitter <= 1:
            raise InvalidStartRate("jitter", repr(self.jitter), "a share from 0 to 1")


@final
@frozen
class StartSlots:
    """The places that were given away; a value, its times in seconds of any one clock.

    Attributes:
        rate: The limit.
        given: When the last `rate.starts` starts were, or will be; oldest first.
    """

    rate: StartRate = StartRate()
    given: tuple[float, ...] = ()

    def take(self, now: float, chance: float) -> tuple[StartSlots, float]:
        """Give the next slot away.

        The caller must use it: an unused slot is lost.

        Args:
            now: The time.
            chance: A number from 0 to 1, drawn for each call.

        Returns:
            The slots from now on, and the seconds to wait before the start; 0 if there is no need.
        """
        at = now
        if len(self.given) >= self.rate.starts:
            free = self.given[-self.rate.starts] + self.rate.seconds
            wait = max(0.0, free - now)
            at = now + wait * (1 + self.rate.jitter * chance)
        # Never before one that was given away earlier: the places are in order.
        at = max(at, self.given[-1]) if self.given else at
        kept = (*self.given, at)[-self.rate.starts :]
        return evolve(self, given=kept), at - now
