"""What the hygiene daemon cleans up after the mortals of one project (TREE-45)."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from otpy_agents.run.marker import list_marker
from otpy_agents.run.orphans import end_found, find
from otpy_monitors import Deletion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from otpy_agents.tree.project import Project
    from otpy_monitors import Chore

STALE_AFTER: Final = 7 * 86400.0
"""Seconds for which the work directory of an assignment that is no longer listed is kept."""

OLD_AFTER: Final = 30 * 86400.0
"""Seconds for which finished attempts are kept in the ledger."""

_GRACE: Final = 1.0


def chores_of(project: Project) -> dict[str, Chore]:
    """Return the chores by name, in the order in which they are done."""

    async def left_over_processes() -> AsyncIterator[Deletion]:
        """Find processes of the list whose attempt has ended.

        Looks for processes first and asks the ledger second: an attempt is written down before its
        process is started, so that whatever was found and is not in the ledger has had its end.
        """
        marker = list_marker(project.ledger.list_id)
        found = await anyio.to_thread.run_sync(find, marker)
        live = {(row.assignment, row.incarnation) for row in await project.ledger.live_attempts()}
        for orphan in found:
            if (orphan.assignment, orphan.incarnation) not in live:
                yield Deletion(str(orphan), partial(end_found, [orphan], _GRACE))

    async def stale_work_directories() -> AsyncIterator[Deletion]:
        """Find the work directories of assignments that left the list long ago."""
        listed = {assignment.id for assignment in project.work.assignments}
        for directory in await anyio.to_thread.run_sync(_stale, project.work_root, listed):
            yield Deletion(directory.name, partial(_remove, directory))

    async def old_rows() -> AsyncIterator[Deletion]:
        """Find what the ledger knows of attempts that ended long ago."""
        old = await project.ledger.count_old(OLD_AFTER)
        if old:
            yield Deletion(f"{old} rows", partial(_purge, project))

    return {
        "left-over processes": left_over_processes,
        "stale work directories": stale_work_directories,
        "old rows": old_rows,
    }


def _stale(root: Path, listed: set[str]) -> list[Path]:
    directories = sorted(root.iterdir()) if root.is_dir() else []
    return [
        directory
        for directory in directories
        if directory.name not in listed and directory.is_dir() and _is_old(directory)
    ]


async def _remove(directory: Path) -> None:
    await anyio.to_thread.run_sync(_remove_if_old, directory)


def _remove_if_old(directory: Path) -> None:
    if directory.is_dir() and _is_old(directory):  # nobody came back to it since it was found
        shutil.rmtree(directory)


async def _purge(project: Project) -> None:
    await project.ledger.purge(OLD_AFTER)


def _is_old(directory: Path) -> bool:
    limit = time.time() - STALE_AFTER  # noqa: TID251 - files carry the wall clock's time
    return _newest(directory) < limit


def _newest(directory: Path) -> float:
    """Return when anything in `directory` was last written, in Unix seconds."""
    return max(path.lstat().st_mtime for path in (directory, *directory.rglob("*")))
