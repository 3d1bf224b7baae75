"""Input and output of packing a context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from attrs import Factory, field, frozen

from otpy_agents.engine.roles import WorkerRole

__all__ = [
    "ContextRequest",
    "ContextSection",
    "ContextSource",
    "FileReading",
    "FileText",
    "MissingFile",
    "PackedContext",
    "Part",
    "PartKind",
    "UnreadableFile",
    "tokens_of",
]

CHARACTERS: Final = 4
"""Characters that count as one token (ENG-21)."""


def tokens_of(characters: int) -> int:
    """Return the number of tokens for a number of characters, rounded up."""
    return -(-characters // CHARACTERS)


class PartKind(StrEnum):
    """What a part of a prompt is."""

    SYSTEM_PROMPT = "system_prompt"
    """What every worker of the role is told."""
    TASK = "task"
    """What this worker is told."""
    FEEDBACK = "feedback"
    """What failed in the last attempt."""
    OUTPUT = "output"
    """The form of the answer."""
    TARGET = "target"
    """A file that the task is about."""
    SECTION = "section"
    """A text that the caller added."""
    ALWAYS = "always_include"
    """A file that the role shows before others."""
    DIFF = "git_diff"
    """The latest changes in one file."""
    RELATED = "related"
    """A file that goes with a target."""
    INCLUDED = "include"
    """A file that the role shows while there is room."""


PROTECTED: Final = (PartKind.SYSTEM_PROMPT, PartKind.TASK, PartKind.FEEDBACK, PartKind.OUTPUT)
"""What is never left out."""


@frozen
class ContextSection:
    """A text of the caller, such as the issues of a review.

    Attributes:
        title: Its heading.
        text: What it says.
    """

    title: str
    text: str


@frozen(kw_only=True)
class ContextRequest:
    """A prompt that is wanted.

    Attributes:
        role: Who gets it.
        task: What to do.
        targets: Files that the task is about, relative to the top of the work tree, with `/`; one
            that is not there yet is named as such.
        feedback: What failed in the last attempt; empty if this is the first. Never left out.
        sections: More texts, left out last but for the targets.
        output: What is said about the form of the answer. Never left out.
    """

    role: WorkerRole
    task: str
    targets: tuple[str, ...] = ()
    feedback: str = ""
    sections: tuple[ContextSection, ...] = ()
    output: str = ""


@frozen
class FileText:
    """A file that can be shown.

    Attributes:
        text: What is in it.
    """

    text: str


@frozen
class MissingFile:
    """A file that is not there."""


@frozen
class UnreadableFile:
    """A file that cannot be shown.

    Attributes:
        why: Why not, such as `is binary`.
        refused: Whether asking for it is forbidden: it is outside of the work tree, or not a file.
        size: Its length in bytes, as far as that is known.
    """

    why: str
    refused: bool = False
    size: int = 0


FileReading: TypeAlias = FileText | MissingFile | UnreadableFile


@frozen(kw_only=True)
class ContextSource:
    """The work tree that a context is taken from.

    Attributes:
        read: Reads a file by its path.
        size: Returns the length of a file in bytes, at most; 0 if that is unknown.
        files: All paths that globs are matched with, sorted.
        diff: The latest changes, as `git diff` prints them without renames.
        changed: Paths of the latest changes, sorted.
        outlines: Shorter texts of files, by path, for those that do not fit whole.
        identity: What is the same only for a work tree of the same content; empty if nobody asks.
    """

    read: Callable[[str], FileReading]
    size: Callable[[str], int] = field(default=lambda _: 0)
    files: tuple[str, ...] = ()
    diff: str = ""
    changed: tuple[str, ...] = ()
    outlines: Mapping[str, str] = field(default=Factory(dict[str, str]))
    identity: str = ""


@frozen(kw_only=True)
class Part:
    """A part of a prompt, or an omitted part.

    Attributes:
        kind: What it is.
        name: The path of a file, or the title of a section; else its kind.
        tokens: What it costs; of a file that was left out unread, about what it would cost.
        included: Whether it is in the prompt.
        why: Why it is there, or why not.
    """

    kind: PartKind
    name: str
    tokens: int
    included: bool
    why: str


@frozen(kw_only=True)
class PackedContext:
    """A prompt, and its parts.

    Attributes:
        prompt: The text for the worker.
        tokens: What it costs, at four characters each.
        budget: Tokens that the role gives it. What is never left out may alone be more.
        parts: All parts, the most important first.
        more: How many files of still less importance were not even weighed, since so many before
            them had found no room.
    """

    prompt: str
    tokens: int
    budget: int
    parts: tuple[Part, ...]
    more: int = 0

    @property
    def left_out(self) -> tuple[Part, ...]:
        """What is not in the prompt, the most important first."""
        return tuple(part for part in self.parts if not part.included)

    @property
    def fits(self) -> bool:
        """Whether the prompt is within its budget."""
        return self.tokens <= self.budget

    def report(self) -> str:
        """Return the costs of the prompt, its omitted parts and the reasons, in a few lines."""
        over = "" if self.fits else "; what is never left out is more than the budget"
        lines = [f"{self.tokens:,} of {self.budget:,} tokens{over}"]
        lines += [f"left out: {part.name}: {part.why}" for part in self.left_out]
        lines += [f"left out: {self.more:,} more files of less importance"] if self.more else []
        return "\n".join(lines)
