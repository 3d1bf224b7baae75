"""How fast mortals of one vendor may be restarted, over all lists of a host (G-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

from otpy_agents.worklist.start_rate import StartRate, StartSlots

__all__ = ["StartLimit"]


@final
class StartLimit:
    """The places among restarts.

    Args:
        rate: The limit for each vendor.
        chance: Draws a number from 0 to 1.
    """

    def __init__(self, rate: StartRate, chance: Callable[[], float]) -> None:
        self._rate = rate
        self._chance = chance
        self._slots: dict[str, StartSlots] = {}

    async def take(self, tell: Callable[..., None], name: str, vendor: str = "") -> None:
        """Wait for a place.

        Args:
            tell: Called as `tell(name, id, **detail)` if it has to wait.
            name: Name of the mortal.
            vendor: Name of the agent's CLI; empty for programs.

        Cancellation:
            The place is lost.
        """
        now = asyncio.get_running_loop().time()
        slots = self._slots.get(vendor, StartSlots(self._rate))
        self._slots[vendor], delay = slots.take(now, self._chance())
        if delay > 0:
            detail = f"{self._rate.starts} restarts in {self._rate.seconds:g} s"
            tell("mortal.held_back", name, delay=delay, detail=detail)
            await asyncio.sleep(delay)
