"""Errors of the work trees of steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from otpy_agents.errors.stores import ChangesetError

__all__ = [
    "ApplyBlocked",
    "ApplyConflict",
    "HeadMoved",
    "StepTreeError",
    "StepTreeTaken",
    "StepTreeUnwritable",
]

_NAMED: Final = 10
"""Files that a message names; all of them are in the attribute."""


class StepTreeError(ChangesetError, RuntimeError):
    """Something about the work tree of a step; the subclasses say what to do."""


class StepTreeTaken(StepTreeError):
    """Another process works on the step, or its place is used for something else."""

    def __init__(self, path: Path, got: str) -> None:
        super().__init__(path, f"got {got}, wanted a step that nobody works on")


class StepTreeUnwritable(StepTreeError):
    """The disk is full, or a file or folder cannot be made, changed or deleted.

    Attributes:
        detail: What is in the way, as the system puts it.
    """

    def __init__(self, path: Path, detail: str) -> None:
        self.detail = detail
        super().__init__(path, f"got {detail!r}, wanted a file or folder that can be written")


class HeadMoved(StepTreeError):
    """The repository is at another commit than the one the step began at; `rebase` may help.

    Attributes:
        base: The commit the step began at.
        now: The commit the repository is at.
    """

    def __init__(self, path: Path, base: str, now: str) -> None:
        self.base, self.now = base, now
        super().__init__(path, f"got HEAD at {now[:12]}, wanted it at {base[:12]}")


class ApplyBlocked(StepTreeError):
    """Something is in the way of a change; nothing was changed.

    Attributes:
        files: The files in the way, by their paths in the repository; empty if it is none of them.
        why: What is in the way.
    """

    def __init__(self, path: Path, files: Sequence[str], why: str) -> None:
        self.files, self.why = tuple(files), why
        super().__init__(path, f"got {why}{_named(files)}, wanted nothing in the way of the change")


class ApplyConflict(StepTreeError):
    """A change conflicts with later commits; nothing was changed.

    Attributes:
        files: The files in conflict, by their paths in the repository.
    """

    def __init__(self, path: Path, files: Sequence[str]) -> None:
        self.files = tuple(files)
        super().__init__(path, f"got conflicts{_named(files)}, wanted a change that fits HEAD")


def _named(files: Sequence[str]) -> str:
    if not files:
        return ""
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return f" in {', '.join(files[:_NAMED])}{more}"
