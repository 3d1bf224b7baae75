"""What the hygiene daemon cleans up after mortals, and after runs of agents (TREE-45)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from otpy_agents.hygiene.leftovers import (
    old_changesets,
    orphaned_folders,
    orphaned_sessions,
    stale_worktrees,
)
from otpy_agents.hygiene.old_runs import old_runs
from otpy_agents.hygiene.run_leftovers import attempts_of_runs
from otpy_agents.process.orphans import end_found, find
from otpy_agents.sandbox.marker import list_marker
from otpy_monitors import Deletion, rotate_logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from otpy_agents.store.runs import RunStore
    from otpy_agents.tree.project import Project
    from otpy_monitors import Chore

STALE_AFTER: Final = 7 * 86400.0
"""Seconds for which the work directory of an assignment that is no longer listed is kept."""

OLD_AFTER: Final = 30 * 86400.0
"""Seconds for which finished attempts are kept in the ledger."""

LOG_BYTES: Final = 10_000_000
"""Size beyond which a log file is rotated (G-13)."""

LOGS_KEPT: Final = 5
"""Rotated files that are kept of each log."""

_GRACE: Final = 1.0


def chores_of(project: Project) -> dict[str, Chore]:
    """Return the chores of one project by name, in the order in which they are done."""

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

    async def listed() -> set[str]:
        return {assignment.id for assignment in project.work.assignments}

    async def old_rows() -> AsyncIterator[Deletion]:
        """Find what the ledger knows of attempts that ended long ago."""
        old = await project.ledger.count_old(OLD_AFTER)
        if old:
            yield Deletion(f"{old} rows", partial(_purge, project))

    async def agents() -> set[str]:
        return {project.agent_key(one.id) for one in project.assignments if one.agent is not None}

    more: dict[str, Chore] = {}
    for repository in project.repositories:
        changesets = project.keeping.changesets(repository)
        more[f"discarded work of {repository.name}"] = old_changesets(changesets)
        more[f"finished work trees of {repository.name}"] = stale_worktrees(
            changesets, project.ledger.finished_ids
        )
    if project.workplace.store is not None:
        more["orphaned sessions"] = orphaned_sessions(project.keeping.sessions, agents)
        more["left-over attempts"] = attempts_of_runs(
            project.workplace.store, f"{project.ledger.list_id}/", project.workplace.sandboxes
        )
    if project.work.logs is not None:
        more["logs"] = rotate_logs(project.work.logs, LOG_BYTES, LOGS_KEPT)
    return {
        **more,
        "left-over processes": left_over_processes,
        "stale work directories": orphaned_folders(project.work_root, listed, STALE_AFTER),
        "old rows": old_rows,
    }


def chores_of_runs(store: RunStore, projects: Sequence[Project]) -> dict[str, Chore]:
    """Return the chores of the store of runs by name, which all projects of a host share.

    Args:
        store: The store.
        projects: Whose runs stay as long as their assignments are worked on.
    """

    async def wanted() -> set[str]:
        found: set[str] = set()
        for project in projects:
            over = await project.ledger.finished_ids()
            found |= {project.label(one) for one in project.assignments if one.id not in over}
        return found

    async def unfinished() -> set[str]:
        return {record.id for record in await store.runs(unfinished=True)}

    return {
        "orphaned artifacts": orphaned_folders(store.files, unfinished),
        "old runs": old_runs(store, wanted),
    }


async def _purge(project: Project) -> None:
    await project.ledger.purge(OLD_AFTER)
