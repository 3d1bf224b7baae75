"""Where the files of a work list lie, beside its ledger."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, final

from otpy_agents.agent import messages
from otpy_agents.agent.checkpoint import CHECKPOINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Folders"]


@final
class Folders:
    """The files of one list.

    Args:
        state: Its ledger.

    Attributes:
        state: As given.
        root: Folder of the private work directories.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self.root = state.with_suffix(".work")
        self._messages = state.with_suffix(".messages")

    def work(self, assignment: str) -> Path:
        """Return the private work directory of an assignment; it is made on first use."""
        directory = self.root / assignment
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def notes(self, assignment: str) -> Path:
        """Return the file by which messages reach the worker; its name is `OTPY_NOTES` there."""
        return self.work(assignment) / "NOTES"

    def checkpoint(self, assignment: str) -> Path:
        """Return the file in which an agent may say where it stands, `OTPY_CHECKPOINT` there."""
        return self.work(assignment) / CHECKPOINT

    def kept_messages(self, assignment: Assignment) -> list[str]:
        """Return what others had to say to an agent before its host ended."""
        return messages.kept(self._kept_in(assignment))

    def keep_messages(self, assignment: Assignment, said: Sequence[str]) -> None:
        """Keep what others have to say to an agent, until its next prompt under any host."""
        with contextlib.suppress(OSError):  # then it is told if this host lives as long
            messages.keep(self._kept_in(assignment), said)

    def _kept_in(self, assignment: Assignment) -> Path:
        # By its definition: with another one it is another agent.
        return self._messages / f"{assignment.id}.{assignment.digest}.json"
