"""Bringing an index up to its work tree, without a look into repositories inside.

`git add` would have git look there, with their own configuration, and so with their own programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from otpy_agents.workspace.git import Git

__all__ = ["changed_files", "joined", "stage"]


async def changed_files(git: Git, path: Path, *, submodules: str) -> dict[str, str]:
    """Return the files of an index that differ in the work tree, with git's letter for how.

    Args:
        git: What runs git on the index.
        path: The work tree.
        submodules: What of repositories inside is ignored: `all`, or `dirty`, which is what they
            have that is in none of their commits.
    """
    flags = ("-z", "--name-status", f"--ignore-submodules={submodules}")
    answer = await git.run(path, "diff-files", *flags)
    parts = os.fsdecode(answer.out).split("\0")
    return dict(zip(parts[1::2], parts[::2], strict=False))


async def stage(git: Git, path: Path, changed: Mapping[str, str], others: Iterable[str]) -> None:
    """Bring an index up to a work tree.

    Args:
        git: What runs git on the index.
        path: The work tree.
        changed: From `changed_files`.
        others: Files to be added.
    """
    gone = {name for name, status in changed.items() if status == "D"}
    if gone:  # first, as there may be a file now where their folder was
        remove = ("update-index", "-z", "--force-remove", "--stdin")
        await git.run(path, *remove, stdin=joined(sorted(gone)))
    if names := sorted(({*changed} - gone) | {*others}):
        add = ("update-index", "-z", "--add", "--replace", "--remove", "--stdin")
        await git.run(path, *add, stdin=joined(names))


def joined(names: Iterable[str]) -> bytes:
    """Return names of files as git takes them on its input."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)
