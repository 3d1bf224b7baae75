"""Detects changes by an agent in the folders of other projects (CTL-60).

A sandbox prevents it; where agents work without one, it is told.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias, final

from anyio.to_thread import run_sync
from attrs import frozen

from otpy_agents.completion import to_completion
from otpy_agents.control.project_folder import FILES_LIMIT

__all__ = ["Trespass", "held", "watched"]

_SHOWN: Final = 20

Mark: TypeAlias = tuple[int, int, int]
"""When a file was changed, its size, and which file it is."""

Look: TypeAlias = Mapping[str, Mapping[str, Mark]]
"""The files of each idle project."""


@final
@frozen
class Trespass:
    """What an agent has changed in another project.

    Attributes:
        project: Name of its folder.
        paths: What was written or removed there, relative to it; at most 20.
        count: How many there are.
    """

    project: str
    paths: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        files = "1 file" if self.count == 1 else f"{self.count} files"
        return f"{files} of the project {self.project}, such as {self.paths[0]}"


@asynccontextmanager
async def watched(
    root: Path, own: Path, tell: Callable[[Trespass], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Report changes in other projects for the length of a block.

    Args:
        root: Folder of all projects.
        own: That of the one whose agent works.
        tell: Called with each project in which something was changed.

    Cancellation:
        What was changed until then is told.
    """
    look = partial(_look_at_others, root, own)
    before = await run_sync(look)

    async def tell_all() -> None:
        for trespass in _trespasses(before, await run_sync(look)):
            await tell(trespass)

    try:
        yield
    finally:
        await to_completion(tell_all())


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Let other hosts know, for the length of a block, that a project is worked on."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _look_at_others(root: Path, own: Path) -> Look:
    """Return how the files of the other projects stand.

    Projects that somebody works on are left out: nobody could tell who has changed them. So are
    those with which there would be more than 20,000 files.
    """
    left = FILES_LIMIT
    found: dict[str, Mapping[str, Mark]] = {}
    for folder in sorted(root.absolute().iterdir()) if root.is_dir() else ():
        if folder == own or folder.is_symlink() or not folder.is_dir() or _is_held(folder):
            continue
        marks = dict(islice(_marks(folder), left + 1))
        left -= len(marks)
        if left < 0:
            break
        found[folder.name] = marks
    return found


def _trespasses(before: Look, after: Look) -> Iterator[Trespass]:
    """Yield changes between two looks, in projects without a worker at either."""
    for project in sorted(before.keys() & after.keys()):
        old, new = before[project], after[project]
        paths = sorted(path for path in {**old, **new} if old.get(path) != new.get(path))
        if paths:
            yield Trespass(project, tuple(paths[:_SHOWN]), len(paths))


def _is_held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return True  # what cannot be read cannot be compared
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _marks(folder: Path) -> Iterator[tuple[str, Mark]]:
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(top, name)
            try:
                state = path.lstat()
            except OSError:
                continue
            shown = os.fsencode(path.relative_to(folder)).decode(errors="replace")
            yield shown, (state.st_mtime_ns, state.st_size, state.st_ino)
