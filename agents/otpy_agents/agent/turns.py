"""Lets runs that wait for their account keep no place of `parallel` meanwhile (TREE-19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from otpy_agents.run.decide.state import WaitReason
from otpy_agents.run.host import facts

if TYPE_CHECKING:
    from otpy_agents.agent.places import Places

__all__ = ["Turns"]


@final
class Turns:
    """A listener of a host of runs, which also asks it before such a run goes on."""

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
