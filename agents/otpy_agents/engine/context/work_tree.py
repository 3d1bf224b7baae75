"""Reading a work tree for a context: nothing outside of it, nothing of git's own, only text."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

import anyio.to_thread

from otpy_agents.engine.context.candidates import diff_of_files
from otpy_agents.engine.context.values import (
    ContextSource,
    FileReading,
    FileText,
    MissingFile,
    UnreadableFile,
)
from otpy_agents.engine.repository_path import path_fault
from otpy_agents.workspace.git import Git

__all__ = ["WorkTreeFiles", "read_work_tree"]

LARGEST_FILE: Final = 1024 * 1024
"""Bytes that a file in a prompt may have; more is four times the largest sensible budget."""

_DIFF: Final = (
    # Neither a program of the repository nor a setting of the user changes what is printed.
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--no-relative"),
    # The index line then has the content of a file whole, also where its changes are not shown.
    "--full-index",
    *("--ignore-submodules", "--src-prefix=a/", "--dst-prefix=b/", "--unified=3"),
)
_STATUS: Final = (
    *("--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"),
)
_SETTINGS: Final = (
    *("-c", "core.quotePath=false", "-c", f"core.bigFileThreshold={LARGEST_FILE}"),
    *("-c", f"diff.orderFile={os.devnull}"),
)


@final
class WorkTreeFiles:
    """Files of one work tree.

    Args:
        folder: Its top.
    """

    def __init__(self, folder: Path) -> None:
        self._real = os.path.realpath(folder)

    def size(self, path: str) -> int:
        """Return the length of a file in bytes; 0 if that is unknown."""
        try:
            return os.stat(f"{self._real}/{path}").st_size  # noqa: PTH116 - of thousands of files
        except (OSError, ValueError):
            return 0

    def read(self, path: str) -> FileReading:
        """Return the content of a file, or why it cannot be shown.

        A link is followed as long as it stays in the work tree.

        Args:
            path: Relative to the top, with `/`.
        """
        # Strings, not paths: this is asked of hundreds of files for each prompt.
        if why := path_fault(path):
            return UnreadableFile(why, refused=True)
        real = os.path.realpath(f"{self._real}/{path}")
        inside = real.removeprefix(f"{self._real}/")
        if inside == real != self._real:
            return UnreadableFile("leads out of the repository by a link", refused=True)
        if any(part.lower() == ".git" for part in inside.split("/")):  # a link leads there
            return UnreadableFile("is git's own", refused=True)
        try:
            return _read(real)
        except (FileNotFoundError, NotADirectoryError):
            return MissingFile()
        except OSError as error:
            return UnreadableFile(f"cannot be read: {error.strerror}")


def _read(real: str) -> FileReading:
    # A pipe would keep us waiting for a writer, and a link put there since then is not followed.
    opened = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(opened)
        if stat.S_ISDIR(status.st_mode):
            return UnreadableFile("is a folder", refused=True)
        if not stat.S_ISREG(status.st_mode):
            return UnreadableFile("is not a regular file", refused=True)
        size = status.st_size
        content = b"" if size > LARGEST_FILE else _content(opened)
    finally:
        os.close(opened)
    if max(size, len(content)) > LARGEST_FILE:
        megabytes = size / LARGEST_FILE
        return UnreadableFile(f"is too large for a prompt: {megabytes:.1f} MiB", size=size)
    if b"\0" in content:
        return UnreadableFile("is binary", size=size)
    try:
        return FileText(content.decode("utf-8"))
    except UnicodeDecodeError:
        return UnreadableFile("is not UTF-8", size=size)


def _content(opened: int) -> bytes:
    with os.fdopen(opened, "rb", closefd=False) as file:
        return file.read(LARGEST_FILE + 1)


async def read_work_tree(folder: Path, git: Git | None = None) -> ContextSource:
    """Return the work tree at `folder` as a context is taken from it.

    Its files are those that git knows and those that it does not ignore. The latest changes are
    what is not committed; if all is, those of the last commit against its first parent.

    Cancelled, it leaves nothing behind.

    Args:
        folder: The top of the work tree.
        git: Runs git; None for one of its own.

    Raises:
        NotARepository: The folder is in no repository.
        GitMissing: There is no git.
        GitFailed: It refused.
    """
    git = git or Git()
    listed, seen, commit = await asyncio.gather(
        git.run(folder, "ls-files", "-z"),
        git.run(folder, *_SETTINGS, "status", *_STATUS),
        git.ask(folder, "log", "-1", "--format=%T%n%P"),
    )
    tree, _, parents = commit.text.partition("\n") if commit.code == 0 else ("", "", "")
    states = _names(seen.out)
    new = tuple(state[3:] for state in states if state.startswith("??"))
    diff = ""
    if tree and len(new) < len(states):
        diff = await _diff(git, folder, "HEAD")
    elif parents:
        diff = await _diff(git, folder, parents.split(" ")[0], "HEAD")
    files = WorkTreeFiles(folder)
    return ContextSource(
        read=files.read,
        size=files.size,
        files=tuple(sorted({*_names(listed.out), *new})),
        diff=diff,
        changed=tuple(sorted({path for path, _ in diff_of_files(diff)}.union(new))),
        identity=await anyio.to_thread.run_sync(_identity, files, (tree, diff), new),
    )


def _names(out: bytes) -> tuple[str, ...]:
    """Return the NUL-terminated names; a name that is not UTF-8 cannot be in a prompt."""
    names = out.decode("utf-8", "surrogateescape").split("\0")
    return tuple(name for name in names if name and name.isprintable())


async def _diff(git: Git, folder: Path, *commits: str) -> str:
    answer = await git.run(folder, *_SETTINGS, "diff", *_DIFF, *commits, "--")
    return answer.out.decode("utf-8", "replace")


def _identity(files: WorkTreeFiles, known: Sequence[str], new: Sequence[str]) -> str:
    """Return a digest of `known`, and of the names and the content of `new`."""
    digest = hashlib.sha256()
    for text in (*known, *new, *(repr(files.read(path)) for path in new)):
        digest.update(text.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()
