"""The inputs of a gate, as one hash: while that stays, the gate need not run again (ENG-31)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from otpy_agents.engine.globs import Globs

__all__ = ["FILES_LIMIT", "TOTAL_LIMIT", "inputs_digest"]

FILES_LIMIT: Final = 50_000
"""Files that are read for a hash."""
TOTAL_LIMIT: Final = 512 * 1024 * 1024
"""Bytes that are read for a hash."""

_OURS: Final = (".git", ".worktrees")


def inputs_digest(folder: Path, globs: Sequence[str] = ()) -> str | None:
    """Return the hash of the files in a work tree: names, contents, and whether they are programs.

    Ignored files count too: a user's work tree has some, and a gate reads them. What a link leads
    to outside counts by its size and its time. Takes the time of reading all of them.

    Args:
        folder: The work tree; `.git` and `.worktrees` in it are left out.
        globs: Which files, as `Globs`; none for all.

    Returns:
        None if the hash is unknown: a file cannot be read or is not a file, or it is too much.
    """
    chosen = Globs(globs) if globs else None
    base = os.path.realpath(folder)
    digest = hashlib.sha256()
    room = TOTAL_LIMIT
    try:
        for number, path in enumerate(_files(base, chosen)):
            if number == FILES_LIMIT:
                return None
            described = _described(Path(base, path), base, room)
            if described is None:
                return None
            kind, content = described
            room -= len(content)
            name = os.fsencode(path)
            digest.update(b"%d %s%s %d " % (len(name), name, kind, len(content)))
            digest.update(content)
    except OSError:
        return None
    return digest.hexdigest()


def _files(base: str, chosen: Globs | None) -> Iterator[str]:
    """Yield everything below a folder except folders, in a fixed order, relative to it."""

    def refuse(error: OSError) -> None:
        raise error

    for top, folders, names in os.walk(base, onerror=refuse):
        if top == base:
            folders[:] = [name for name in folders if name not in _OURS]
            names = [name for name in names if name not in _OURS]  # noqa: PLW2901
        links = [name for name in folders if os.path.islink(f"{top}/{name}")]  # noqa: PTH114
        folders.sort()
        start = len(base) + 1
        for path in sorted(f"{top}/{name}"[start:] for name in (*names, *links)):
            if chosen is None or chosen.match(path):
                yield path


def _described(path: Path, base: str, room: int) -> tuple[bytes, bytes] | None:
    """Return its kind and its content; None if they are unknown."""
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        target = os.path.realpath(path)
        content = os.fsencode(path.readlink())
        if Path(target).is_relative_to(base):
            return b"l", content
        try:
            outside = Path(target).stat()
        except OSError:
            return b"l", content  # it leads nowhere
        if not stat.S_ISREG(outside.st_mode):
            return None
        return b"l", b"%s %d %d" % (content, outside.st_size, outside.st_mtime_ns)
    if not stat.S_ISREG(state.st_mode) or state.st_size > room:
        return None
    return (b"x" if state.st_mode & stat.S_IXUSR else b"f"), path.read_bytes()
