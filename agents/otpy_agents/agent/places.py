"""The places of `parallel`: who works has one, who rests has none (TREE-19)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

from otpy_agents.run.host.gate import Gate

__all__ = ["Places"]


@final
class Places:
    """Who of a list works, and who waits for a place.

    Args:
        capacity: How many may work at the same time; None is no limit.
        news: Called with the name of who has left a place, or has got one.
        tell: Called as `tell(name, id, **detail)` with who has to wait.
    """

    def __init__(
        self, capacity: int | None, news: Callable[[str], None], tell: Callable[..., None]
    ) -> None:
        self.capacity = capacity
        self._gate = Gate(capacity)
        self._news = news
        self._tell = tell

    def clear(self) -> None:
        """Let nobody have a place, or wait for one: the pool of all of them has ended."""
        self._gate = Gate(self.capacity)

    def has_room_for(self, name: str) -> bool:
        """Whether a mortal has a place, or there is one for it at once."""
        return self._gate.holds(name) or self._gate.open

    def holds(self, name: str) -> bool:
        """Whether a mortal has a place."""
        return self._gate.holds(name)

    def enter(self, name: str) -> None:
        """Let a mortal have a place, though there be none: it works already."""
        self._gate.enter(name, lambda: self._news(name), anyway=True)

    def leave(self, name: str) -> None:
        """Give the place of a mortal that rests, or is gone, to who is next."""
        self._gate.leave(name)
        self._news(name)

    async def take(self, name: str) -> None:
        """Wait until a mortal that works from now on has a place; those that wait have turns.

        Cancellation:
            It waits no longer. A place that it has got meanwhile it keeps: its next life, or its
            end, finds it.
        """
        free = asyncio.Event()
        if not self.ask(name, free.set):
            await free.wait()

    def ask(self, name: str, when_free: Callable[[], object]) -> bool:
        """Return whether a mortal that works from now on has a place.

        Args:
            name: Its name.
            when_free: Called once, when it has got one; must neither block nor raise.
        """
        was_in_line = self._gate.queues(name)
        mine = self._gate.enter(name, when_free)
        if not mine and not was_in_line:
            detail = f"as many work as may at the same time: {self.capacity}"
            self._tell("mortal.queued", name, detail=detail)
        return mine
