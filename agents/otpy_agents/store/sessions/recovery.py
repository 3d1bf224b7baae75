"""The note to a restarted agent, and the session it continues; pure."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

from attrs import frozen

from otpy_agents.store.sessions.session import StoredSession

__all__ = ["RestartContext", "Continuation", "continuation", "recovery_note"]

_REASON_LIMIT: Final = 1000
_SUMMARY_LIMIT: Final = 4000

CONTINUE: Final = "Continue your assignment."


class RestartContext(StrEnum):
    """The parts of its last life that a restarted agent keeps (C-21)."""

    FRESH = "fresh"
    """Nothing: a new session, and the prompt as if for the first time."""
    RESUME = "resume"
    """The session, without a word about the restart."""
    RESUME_WITH_NOTE = "resume_with_note"
    """The session, and a note that it was restarted and why (TREE-37); the default."""


@frozen
class Continuation:
    """How the next life of an agent begins.

    Attributes:
        session: The session to resume; None begins a new one.
        prompt: What to send first.
    """

    session: StoredSession | None
    prompt: str


def recovery_note(reason: str, session: StoredSession | None) -> str:
    """Return the note to a restarted agent (TREE-36).

    Args:
        reason: Why its last life ended; empty if unknown. Cut after 1000 characters.
        session: What was stored of it; None if nothing was, or nothing sound. Its summary is cut
            after 4000 characters.

    Returns:
        The reason, the summary of the previous state or that it starts fresh, its checkpoint if it
        left one, and the instruction to continue.
    """
    why = f" because {_cut(reason, _REASON_LIMIT)}" if reason else "; why is not known."
    lines = [f"You were restarted{why}"]
    if session is not None and session.summary:
        lines.append(f"Previous state: {_cut(session.summary, _SUMMARY_LIMIT)}")
    elif session is None:
        lines.append("Starting fresh: nothing of your previous state was kept.")
    if session is not None and session.checkpoint is not None:
        lines.append(f"Your last checkpoint: {json.dumps(session.checkpoint)}")
    return "\n".join([*lines, CONTINUE])


def continuation(
    policy: RestartContext,
    session: StoredSession | None,
    reason: str | None,
    *,
    prompt: str,
    cli: str,
) -> Continuation:
    """Return which session an agent goes on with, and the prompt it gets.

    | | first life | restarted, session stored | restarted, none stored |
    |---|---|---|---|
    | `fresh` | prompt | prompt | prompt |
    | `resume` | prompt | session, "continue" | prompt |
    | `resume_with_note` | prompt | session, note | note and prompt |

    A session that another CLI made cannot be resumed; what it says is told all the same.

    Args:
        policy: The parts to keep.
        session: The stored session; None if there is none, or it was corrupt.
        reason: Why the last life ended; None if there was none.
        prompt: The assignment, as for a first life.
        cli: Name of the adapter that will run the agent.
    """
    if policy is RestartContext.FRESH or (reason is None and session is None):
        return Continuation(None, prompt)
    resumed = session if session is not None and session.cli == cli else None
    if policy is RestartContext.RESUME:
        return Continuation(resumed, prompt if resumed is None else CONTINUE)
    note = recovery_note(reason or "", session)
    return Continuation(resumed, note if resumed is not None else f"{note}\n\n{prompt}")


def _cut(text: str, limit: int) -> str:
    """Return text that can be an argument of a program: without a NUL, and not endless."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
