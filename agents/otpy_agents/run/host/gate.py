"""How many are worked on at the same time, and whose turn is next: runs, mortals (RUN-03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

__all__ = ["RunGate", "Turn"]

Turn: TypeAlias = Callable[[str, Callable[[], object]], bool]
"""Returns whether a run of that label, which has waited for its account, may go on; if not, it
calls back once when it may. It may be asked again, and must neither block nor raise."""


@final
class RunGate:
    """Lets a limited number of runs in at once; the others wait in order.

    Args:
        capacity: How many; None is no limit.
    """

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self._inside: set[str] = set()
        self._queue: dict[str, Callable[[], object]] = {}

    @property
    def capacity(self) -> int | None:
        """How many; None is no limit."""
        return self._capacity

    @property
    def open(self) -> bool:
        """Whether one more would be let in at once."""
        return not self._queue and self._room()

    def holds(self, run: str) -> bool:
        """Whether `run` is inside."""
        return run in self._inside

    def queues(self, run: str) -> bool:
        """Whether `run` waits to be let in."""
        return run in self._queue

    def enter(self, run: str, when_free: Callable[[], object], *, anyway: bool = False) -> bool:
        """Return whether `run` is inside; if not, it waits, and is called when it has been let in.

        It may ask again, and keeps its place.

        Args:
            run: Its id.
            when_free: Called once; must neither block nor raise.
            anyway: Let it in although there is no room: it has begun already.
        """
        if run in self._inside:
            return True
        if anyway or self.open:
            self._queue.pop(run, None)
            self._inside.add(run)
            return True
        self._queue[run] = when_free
        return False

    def leave(self, run: str) -> None:
        """Make room, wherever it was; doing so twice does no harm."""
        self._queue.pop(run, None)
        self._inside.discard(run)
        while self._queue and self._room():
            following = next(iter(self._queue))
            when_free = self._queue.pop(following)
            self._inside.add(following)
            when_free()

    def _room(self) -> bool:
        return self._capacity is None or len(self._inside) < self._capacity
