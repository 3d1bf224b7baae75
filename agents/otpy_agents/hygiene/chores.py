"""The chores of the hygiene daemon for mortals, and for runs of agents (TREE-45)."""

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
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from otpy_agents.sandbox.behaviour import Sandbox
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.store.runs import RunStore
    from otpy_agents.store.sessions import SessionStore
    from otpy_agents.worklist.assignment import WorkList
    from otpy_agents.workspace import Changesets
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


def chores_of(
    work: WorkList,
    ledger: Ledger,
    folder: Path,
    changesets: Mapping[str, Changesets],
) -> dict[str, Chore]:
    """Return the chores of one list by name, in order.

    Args:
        work: The list.
        ledger: Its ledger.
        folder: Where its private work directories lie.
        changesets: The work trees of its agents, by the names of their repositories.
    """

    async def left_over_processes() -> AsyncIterator[Deletion]:
        """Find processes of the list whose attempt has ended.

        Looks for processes first and asks the ledger second: an attempt is written down before its
        process is started, so that whatever was found and is not in the ledger has had its end.
        """
        marker = list_marker(ledger.list_id)
        found = await anyio.to_thread.run_sync(find, marker)
        live = {(row.assignment, row.incarnation) for row in await ledger.live_attempts()}
        for orphan in found:
            if (orphan.assignment, orphan.incarnation) not in live:
                yield Deletion(str(orphan), partial(end_found, [orphan], _GRACE))

    async def listed() -> set[str]:
        return {assignment.id for assignment in work.assignments}

    async def old_rows() -> AsyncIterator[Deletion]:
        """Find the ledger's rows of attempts that ended long ago."""
        old = await ledger.count_old(OLD_AFTER)
        if old:
            yield Deletion(f"{old} rows", partial(_purge, ledger))

    more: dict[str, Chore] = {}
    for name, trees in changesets.items():
        more[f"discarded work of {name}"] = old_changesets(trees)
        more[f"finished work trees of {name}"] = stale_worktrees(trees, ledger.finished_ids)
    if work.logs is not None:
        more["logs"] = rotate_logs(work.logs, LOG_BYTES, LOGS_KEPT)
    return {
        **more,
        "left-over processes": left_over_processes,
        "stale work directories": orphaned_folders(folder, listed, STALE_AFTER),
        "old rows": old_rows,
    }


def chores_of_agents(
    store: RunStore,
    list_id: str,
    sandboxes: Mapping[str, Sandbox],
    sessions: SessionStore,
    agents: Callable[[], AbstractSet[str]],
) -> dict[str, Chore]:
    """Return the chores of the agents of one list by name.

    Args:
        store: The store of their runs.
        list_id: Identity of their list.
        sandboxes: Sandboxes by name, before those that are built in.
        sessions: Where their sessions are kept.
        agents: Returns the keys of all of them.
    """

    async def known() -> AbstractSet[str]:
        return agents()

    return {
        "orphaned sessions": orphaned_sessions(sessions, known),
        "left-over attempts": attempts_of_runs(store, f"{list_id}/", sandboxes),
    }


def chores_of_runs(
    store: RunStore, wanted: Callable[[], Awaitable[AbstractSet[str]]]
) -> dict[str, Chore]:
    """Return the chores of the store of runs by name, which all lists of a host share.

    Args:
        store: The store.
        wanted: Returns the labels of the runs that stay, as their assignments are worked on.
    """

    async def unfinished() -> set[str]:
        return {record.id for record in await store.runs(unfinished=True)}

    return {
        "orphaned artifacts": orphaned_folders(store.files, unfinished),
        "old runs": old_runs(store, wanted),
    }


async def _purge(ledger: Ledger) -> None:
    await ledger.purge(OLD_AFTER)
