"""What an agent is told: its assignment, why it was restarted, and what others have to say to it.

Every prompt holds the assignment. A vendor may have lost the session that a prompt was meant to go
on with; the run then begins a new one with the same words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from otpy_agents.store.sessions import RestartContext, StoredSession, recovery_note
from otpy_agents.worklist.assignment import AgentWork

__all__ = ["ASKING", "CHECKPOINTS", "GUIDE", "first_prompt", "next_prompt", "question_in"]

ASKING: Final = "NEEDS INPUT:"
"""The start of the last line of an answer that is in fact a question to a person."""

GUIDE: Final = f"""\
You work unattended.
- If you cannot go on without a person, end your turn, and let "{ASKING}" followed by your \
question be the last line of your answer. You will be given what the person says.
- Messages to you, such as warnings, are appended to the file that the environment variable \
OTPY_NOTES names; as long as there are none it does not exist. Look into it after each larger \
step, and before you say that you are done, and act on what it says."""
"""How an agent asks, and where it is warned; part of every prompt."""

CHECKPOINTS: Final = """
- After a larger step you may write where you stand, as JSON or in a few lines of text, into the \
file that the environment variable OTPY_CHECKPOINT names. If you are restarted, you are told it."""
"""How an agent leaves itself a checkpoint; part of the prompts of those that would be told it."""

_QUESTION: Final = re.compile(rf"^\s*{re.escape(ASKING)}[ \t]*(\S.*)$", re.MULTILINE)


def first_prompt(
    work: AgentWork,
    *,
    reason: str | None,
    stored: StoredSession | None,
    said: str = "",
    messages: Sequence[str] = (),
) -> str:
    """Return the prompt with which a life begins.

    Args:
        work: Its work.
        reason: Why the life before it ended; None if there was none.
        stored: The stored session of that life; None if there is none.
        said: A person's answer to that life.
        messages: What others have to say to it.
    """
    parts = [work.prompt]
    if reason is not None and work.context is RestartContext.RESUME_WITH_NOTE:
        parts = [recovery_note(reason, stored), f"Your assignment:\n{work.prompt}"]
    elif reason is not None and work.context is RestartContext.RESUME and stored is not None:
        parts = [f"Continue your assignment:\n{work.prompt}"]
    return _joined(
        work, [*parts, f"The answer to your question:\n{said}" if said else ""], messages
    )


def next_prompt(work: AgentWork, said: str, messages: Sequence[str] = ()) -> str:
    """Return the prompt with which a life goes on after a stop of its own.

    Args:
        work: Its work.
        said: Why it goes on, or what it was answered.
        messages: What others have to say to it.
    """
    return _joined(work, [said, f"Continue your assignment:\n{work.prompt}"], messages)


def _joined(work: AgentWork, parts: Sequence[str], messages: Sequence[str]) -> str:
    # Who gets no note when it is restarted would never see its checkpoint again.
    guide = GUIDE + (CHECKPOINTS if work.context is RestartContext.RESUME_WITH_NOTE else "")
    notes = ["Messages for you:\n" + "\n".join(f"- {one}" for one in messages)] if messages else []
    return "\n\n".join([*(part for part in parts if part), guide, *notes])


def question_in(answer: str) -> str | None:
    """Return an agent's question to a person, from the last such line; None if it asks nothing."""
    found = _QUESTION.findall(answer)
    last = answer.rstrip().rpartition("\n")[2].lstrip()
    return str(found[-1]).strip() if found and last.startswith(ASKING) else None
