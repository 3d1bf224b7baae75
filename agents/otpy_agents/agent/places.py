"""The places of `parallel`, which mortals that work have (TREE-19), and those of restarts.

Runs that wait for their account keep no place of `parallel` meanwhile. Restarts have their own
places, by vendor and over all lists of a host (G-17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

from otpy_agents.run.decide.state import WaitReason
from otpy_agents.run.host import facts
from otpy_agents.run.host.gate import RunGate
from otpy_agents.worklist.start_rate import StartRate, StartSlots

__all__ = ["Places", "StartLimit", "Turns"]


@final
class Places:
    """The agents of a list that work, and those that wait for a place.

    Args:
        capacity: How many may work at the same time; None is no limit.
        news: Called with the name of who has left a place, or has got one.
        tell: Called as `tell(name, id, **detail)` with who has to wait.
    """

    def __init__(
        self, capacity: int | None, news: Callable[[str], None], tell: Callable[..., None]
    ) -> None:
        self.capacity = capacity
        self._gate = RunGate(capacity)
        self._news = news
        self._tell = tell

    def clear(self) -> None:
        """Free all places and end all waits: the pool has ended."""
        self._gate = RunGate(self.capacity)

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
        """Give the place of a mortal that rests, or is gone, to the next in line."""
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


@final
class Turns:
    """Hears of runs that wait for their account: these have no place of `parallel`.

    A host of runs tells it facts, and asks it before such a run goes on.
    """

    def __init__(self) -> None:
        self._mortals: dict[str, tuple[Places, str]] = {}
        self._labels: dict[str, str] = {}
        self._resting: set[str] = set()

    def follow(self, label: str, places: Places, name: str) -> None:
        """Count runs with this label as work of the mortal `name`, which takes one of `places`."""
        self._mortals[label] = places, name

    def rests(self, label: str) -> bool:
        """Whether the run with this label waits for its account, or then for a place."""
        return label in self._resting

    def hear(self, fact: facts.Fact) -> None:
        """Take a fact."""
        if isinstance(fact, facts.RunBegan) and fact.order.label in self._mortals:
            self._labels[fact.run] = fact.order.label
        label = self._labels.get(fact.run)
        if label is None:
            return
        places, name = self._mortals[label]
        match fact:
            case facts.WaitBegan(reason=WaitReason.COOLDOWN):
                self._resting.add(label)
                if places.holds(name):  # else it is in line, and must stay there
                    places.leave(name)
            case facts.AttemptBegan() if label in self._resting:
                self._resting.discard(label)
                # It has one already, unless a person let it go on: that word goes before the bound.
                places.enter(name)
            case facts.RunEnded() | facts.RunLeft():
                self._resting.discard(label)
                del self._labels[fact.run]
            case _:
                pass

    def may_go_on(self, label: str, when: Callable[[], object]) -> bool:
        """Return whether a run whose account is free has a place; a `Turn`."""
        if label not in self._mortals:
            return True
        places, name = self._mortals[label]
        return places.ask(name, when)
