"""Where an agent stands: one machine, its table as data, each move a fact (TREE-25, TREE-26).

The machine is pure. The code that manages an agent hands it each event and gets the move back, to
tell and to store. No other value holds the agent's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, final

from attrs import frozen

from otpy_agents.errors import ForbiddenMove

__all__ = ["MOVES", "Agent", "AgentState", "Happening", "Move", "moves_table"]


class AgentState(StrEnum):
    """The states of TREE-25."""

    WORKING = "working"
    """It has been begun, and nothing keeps it from going on."""
    WAITING_FOR_INPUT = "waiting_for_input"
    """A person has to say something first: an answer, or more budget."""
    WAITING_FOR_WAKEUP = "waiting_for_wakeup"
    """It goes on by itself, or when it is resumed: a delay, a cooldown, a pause."""
    VERIFYING = "verifying"
    """It says that it is done, and that is being looked into."""
    DONE = "done"
    """It did what it was for. Final."""
    FAILED = "failed"
    """It ended otherwise; it is restarted or given up."""
    REAPED = "reaped"
    """It was given up, with a reason. Final."""

    @property
    def final(self) -> bool:
        """Whether nothing follows."""
        return self in {AgentState.DONE, AgentState.REAPED}


class Happening(StrEnum):
    """What may happen to an agent."""

    ASKED = "asked"
    """It needs something from a person."""
    ANSWERED = "answered"
    """It got that."""
    RESTED = "rested"
    """It was paused, or waits for a time to come."""
    WOKEN = "woken"
    """It goes on."""
    CLAIMED = "claimed"
    """It says that it is done."""
    ACCEPTED = "accepted"
    """So it is."""
    FAILED = "failed"
    """It ended, or was ended, without having done what it was for."""
    RESTARTED = "restarted"
    """It is begun again."""
    REAPED = "reaped"
    """It is given up."""


def _moves() -> dict[tuple[AgentState, Happening], AgentState]:
    """Return the table of moves; a move that is not in it cannot happen."""
    state, what = AgentState, Happening
    table = {
        (state.WORKING, what.ASKED): state.WAITING_FOR_INPUT,
        (state.WORKING, what.RESTED): state.WAITING_FOR_WAKEUP,
        (state.WORKING, what.CLAIMED): state.VERIFYING,
        (state.WAITING_FOR_INPUT, what.ANSWERED): state.WORKING,
        (state.WAITING_FOR_WAKEUP, what.WOKEN): state.WORKING,
        # A budget may run out, and a person may be asked, while it waits.
        (state.WAITING_FOR_WAKEUP, what.ASKED): state.WAITING_FOR_INPUT,
        (state.VERIFYING, what.ACCEPTED): state.DONE,
        (state.FAILED, what.RESTARTED): state.WORKING,
    }
    for source in state:
        if not source.final:
            table[source, what.REAPED] = state.REAPED
        if not source.final and source is not state.FAILED:
            table[source, what.FAILED] = state.FAILED
    return table


MOVES: Final[Mapping[tuple[AgentState, Happening], AgentState]] = MappingProxyType(_moves())
"""From where, by what, to where; complete."""


def moves_table() -> str:
    """Return `MOVES` as text for people, one line for each move."""
    rows = [("state", "what happens", "next"), *((*key, to) for key, to in MOVES.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


@final
@frozen(kw_only=True)
class Move:
    """One move of one agent.

    Attributes:
        agent: Its key, `project/assignment`.
        source: Where it stood.
        happening: What happened.
        target: Where it stands now.
        why: The reason in one line; empty if there is nothing to say.
    """

    agent: str
    source: AgentState
    happening: Happening
    target: AgentState
    why: str = ""


@final
class Agent:
    """The machine of one agent.

    Args:
        key: `project/assignment`.
        state: Where it stands; what was stored of it if an earlier host began it.

    Attributes:
        key: As given.
        state: Where it stands now.
    """

    def __init__(self, key: str, state: AgentState = AgentState.WORKING) -> None:
        self.key = key
        self.state = state

    def can(self, happening: Happening) -> bool:
        """Whether `happening` may happen now."""
        return (self.state, happening) in MOVES

    def take(self, happening: Happening, why: str = "") -> Move:
        """Move as `happening` says and return the move.

        Raises:
            ForbiddenMove: The table has no such move; the agent stays where it is.
        """
        target = MOVES.get((self.state, happening))
        if target is None:
            raise ForbiddenMove(self.key, self.state, happening)
        move = Move(agent=self.key, source=self.state, happening=happening, target=target, why=why)
        self.state = target
        return move
