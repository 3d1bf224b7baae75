"""What the hygiene daemon cleans up after the mortals of one project (TREE-45)."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from otpy_agents.run.marker import list_marker
from otpy_agents.run.orphans import end_found, find

if TYPE_CHECKING:
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

    async def left_over_processes() -> list[str]:
        """End processes of the list whose attempt has ended.

        Looks for processes first and asks the ledger second: an attempt is written down before its
        process is started, so that whatever was found and is not in the ledger has had its end.
        """
        marker = list_marker(project.ledger.list_id)
        found = await anyio.to_thread.run_sync(find, marker)
        live = {(row.assignment, row.incarnation) for row in await project.ledger.live_attempts()}
        dead = [orphan for orphan in found if (orphan.assignment, orphan.incarnation) not in live]
        await end_found(dead, _GRACE)
        return [str(orphan) for orphan in dead]

    async def stale_work_directories() -> list[str]:
        """Remove the work directories of assignments that left the list long ago."""
        listed = {assignment.id for assignment in project.work.assignments}
        return await anyio.to_thread.run_sync(_remove_stale, project.work_root, listed)

    async def old_rows() -> list[str]:
        """Delete what the ledger knows of attempts that ended long ago."""
        deleted = await project.ledger.purge(OLD_AFTER)
        return [f"{deleted} rows"] if deleted else []

    return {
        "left-over processes": left_over_processes,
        "stale work directories": stale_work_directories,
        "old rows": old_rows,
    }


def _remove_stale(root: Path, listed: set[str]) -> list[str]:
    removed: list[str] = []
    limit = time.time() - STALE_AFTER  # noqa: TID251 - files carry the wall clock's time
    for directory in sorted(root.iterdir()) if root.is_dir() else ():
        if directory.name not in listed and directory.is_dir() and _newest(directory) < limit:
            shutil.rmtree(directory)
            removed.append(directory.name)
    return removed


def _newest(directory: Path) -> float:
    """Return when anything in `directory` was last written, in Unix seconds."""
    return max(path.lstat().st_mtime for path in (directory, *directory.rglob("*")))
