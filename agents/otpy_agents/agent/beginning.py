"""May it start now? One answer, for Jake, for whoever spawns a mortal, and for `retry`."""

from __future__ import annotations

from enum import StrEnum

from otpy_agents.store.records import Outcome, State

__all__ = ["Waits", "hindrance"]


class Waits(StrEnum):
    """What an assignment waits for before it is begun."""

    BUDGET = "budget"
    """Nothing is left of the list's. An agent that was begun before rests with its session."""
    PLACE = "place"
    """As many work as may at the same time (TREE-19)."""


def hindrance(*, spent: str, held: bool, place: bool) -> Waits | Outcome | None:
    """Return what keeps an assignment from being begun now.

    Args:
        spent: Which budget leaves a program nothing, in one line; empty for none, and for an agent.
            A program has no turn at whose end it could rest: without a budget it is over (C-12).
        held: Whether it is new, and nothing is left of the list's budget.
        place: Whether it has a place to work, or there is one.

    Returns:
        None if nothing does; an outcome if it never will be begun.
    """
    if spent:
        return Outcome(State.REAPED, spent)
    if held:
        return Waits.BUDGET
    return None if place else Waits.PLACE
