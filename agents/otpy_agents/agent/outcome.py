"""How an assignment may come out."""

from __future__ import annotations

from typing import final

from attrs import field, frozen

from otpy_agents.store.records import State

__all__ = ["Outcome", "Reaped"]


@final
@frozen
class Reaped:
    """Detail of the `Shutdown` of a mortal that was given up (TREE-49).

    Attributes:
        why: The reason, in one line.
    """

    why: str

    def __str__(self) -> str:
        """Return the reason."""
        return self.why


@final
@frozen
class Outcome:
    """How an assignment came out.

    Attributes:
        state: Done, reaped or failed.
        reason: Why, in one line; empty if there is nothing to say.
    """

    state: State
    reason: str = field(default="")
