"""Merges that touch no file: from commits to the tree of a new one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from otpy_agents.errors import ApplyConflict, GitFailed
from otpy_agents.workspace.git import Git

__all__ = ["message_of", "merged", "one_line"]


async def merged(git: Git, where: Path, ours: str, theirs: str) -> str:
    """Return the tree object of what two commits have in common and each has changed.

    Args:
        git: A sealed git.
        where: A work tree; it is not looked at.
        ours: A commit.
        theirs: Another one.

    Raises:
        ApplyConflict: Both changed the same.
        GitFailed: Git refused, as one before 2.38 does.
    """
    flags = ("--write-tree", "-z", "--name-only", "--no-messages")
    command = ("merge-tree", *flags, ours, theirs)
    answer = await git.ask(where, *command)
    parts = [part for part in os.fsdecode(answer.out).split("\0") if part]
    if answer.code == 0:
        return parts[0].strip()
    if answer.code == 1:
        raise ApplyConflict(where, sorted({*parts[1:]}))
    raise GitFailed(where, "merge-tree", answer.error)


def message_of(text: str, trailers: Mapping[str, str]) -> bytes:
    """Return the message of a commit: a text, and a last paragraph of trailers."""
    lines = "\n".join(f"{name}: {one_line(value)}" for name, value in trailers.items())
    return f"{text.strip() or 'Apply a step'}\n\n{lines}\n".encode(errors="replace")


def one_line(text: str) -> str:
    """Return a text in one line."""
    return " ".join(text.split())
