"""Who of a list asked for whom, told to the monitors (TREE-47)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from otpy_monitors import activity

if TYPE_CHECKING:
    from collections.abc import Generator

    from otpy_monitors import Feed

__all__ = ["Children"]


@final
class Children:
    """The children that mortals of one list have asked for.

    Args:
        key: Name of the list among all projects.
        feed: Where they are told.
    """

    def __init__(self, key: str, feed: Feed) -> None:
        self._key = key
        self._feed = feed
        self._parents: dict[str, str] = {}

    def parent(self, name: str) -> str:
        """Return the key of the agent that asked for a mortal; that of the list if none did."""
        return self._parents.get(name, self._key)

    @contextmanager
    def asked(self, name: str, by: str) -> Generator[None]:
        """Let a mortal be spawned, within the block, for another; told if that succeeds.

        Args:
            name: The new one.
            by: Name of the mortal that asked; empty if none did.
        """
        if not by:
            yield
            return
        self._parents[name] = f"{self._key}/{by}"
        try:
            yield
        except BaseException:
            del self._parents[name]
            raise
        now = asyncio.get_running_loop().time()
        self._feed.tell(activity.ChildSpawned(self._parents[name], now, f"{self._key}/{name}"))

    def gone(self, name: str, why: str) -> None:
        """Tell that a mortal has come out; a program has no card, so nobody else would."""
        if name in self._parents:
            now = asyncio.get_running_loop().time()
            self._feed.tell(activity.AgentGone(f"{self._key}/{name}", now, why))
