"""How long to wait before a restart. OTP has no such thing (SUP-511); this is an extension."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, final

from attrs import frozen

from otpy._core.checks import check_number, refuse

if TYPE_CHECKING:
    from collections.abc import Callable


@final
@frozen
class Backoff:
    """A delay before each restart of a child; built by one of the three class methods.

    The delay never blocks the supervisor: it goes on serving its other children, shows the child
    as backing off until a time, and `retry_now(id)` or `terminate_child(id)` cut it short.

    Attributes:
        delays: The first delays, in seconds, in order. The last one is repeated.
        factor: The factor by which the last delay grows with each further restart.
        max: The longest delay, in seconds, jitter included.
        jitter: Share of the delay by which it is varied at random, up or down, 0 to 1.
        reset_after: Seconds a child must have run for the next restart to count as the first
            again; None counts for ever.
    """

    delays: tuple[float, ...]
    factor: float = 1.0
    max: float = float("inf")
    jitter: float = 0.0
    reset_after: float | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        seconds = "seconds of at least 0"
        for delay in self.delays:
            check_number("Backoff", "delay", delay, seconds, least=0)
        check_number("Backoff", "max", self.max, seconds, least=0)
        check_number("Backoff", "factor", self.factor, "a number of at least 1", least=1)
        if not isfinite(self.factor):
            refuse("Backoff", "factor", self.factor, "a number of at least 1")
        share = "a share between 0 and 1"
        check_number("Backoff", "jitter", self.jitter, share, least=0)
        if self.jitter > 1:
            refuse("Backoff", "jitter", self.jitter, share)
        if self.reset_after is not None:
            wanted = "seconds above 0, or None"
            check_number("Backoff", "reset_after", self.reset_after, wanted, least=0, above=True)

    @classmethod
    def exponential(
        cls,
        base: float,
        *,
        factor: float = 2.0,
        max: float = 60.0,
        jitter: float = 0.1,
        reset_after: float | None = None,
    ) -> Backoff:
        """Wait `base`, `base * factor`, `base * factor**2` … seconds, but no more than `max`."""
        return cls((base,), factor, max, jitter, reset_after)

    @classmethod
    def sequence(
        cls, *delays: float, jitter: float = 0.0, reset_after: float | None = None
    ) -> Backoff:
        """Wait the given seconds, one after the other; the last is repeated (RUN-47)."""
        return cls(delays, jitter=jitter, reset_after=reset_after)

    @classmethod
    def none(cls) -> Backoff:
        """Wait not at all, as OTP."""
        return cls(())

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Return the seconds to wait before restart number `attempt`, counted from 0.

        Args:
            attempt: Restarts since the child last ran quietly for `reset_after` seconds.
            random: Returns a number from 0 up to 1; only called if there is jitter.
        """
        if not self.delays:
            return 0.0
        last = len(self.delays) - 1
        delay = self.delays[min(attempt, last)]
        if attempt > last and self.factor != 1:
            try:
                delay *= self.factor ** (attempt - last)
            except OverflowError:
                delay = self.max
        delay = min(delay, self.max)
        if self.jitter:
            delay *= 1 + self.jitter * (2 * random() - 1)
        return min(delay, self.max)
