"""Ends the remains of a killed host before anything is begun (G-03)."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from otpy_agents.agent.folders import forget_exits, settle
from otpy_agents.agent.memory import label_of
from otpy_agents.process.orphans import Recorded, end
from otpy_agents.run.host.dismissal import dismiss
from otpy_agents.sandbox.marker import list_marker

if TYPE_CHECKING:
    from otpy_agents.app.chronicle import Chronicle
    from otpy_agents.store import RunStore
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.worklist.assignment import WorkList

__all__ = ["clear_up", "drop_runs"]

_GRACE: Final = 2.0  # seconds


async def clear_up(work: WorkList, ledger: Ledger, chronicle: Chronicle, *, fresh: bool) -> None:
    """End what is left of a killed host, and tell the ends that it could not tell.

    Args:
        work: The list.
        ledger: Its ledger, open; it is told of the list.
        chronicle: Told of each process that was ended, and of each end.
        fresh: Whether to forget what is done, and to empty the folders of the list.
    """
    recorded = [
        Recorded(attempt.pid, attempt.create_time)
        for attempt in await ledger.live_attempts()
        if attempt.pid is not None and attempt.create_time is not None
    ]
    orphans = await end(list_marker(ledger.list_id), _GRACE, recorded=recorded)
    for orphan in orphans:
        detail = {"process": str(orphan)}
        chronicle.on_event("orphan.ended", orphan.assignment or work.name, detail)
    await settle(ledger, {orphan.pid for orphan in orphans})
    await ledger.close_interrupted()
    await forget_exits(work.state)
    if fresh:
        await ledger.forget_all()
        for folder in map(work.state.with_suffix, (".work", ".messages")):
            await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
    await ledger.declare({assignment.id: assignment.digest for assignment in work.assignments})
    untold = await ledger.untold()
    for one in untold:
        chronicle.on_event(f"mortal.{one.state}", one.id, {"reason": one.reason, "earlier": True})
    await ledger.record_told(one.id for one in untold)


async def drop_runs(work: WorkList, ledger: Ledger, store: RunStore, *, fresh: bool) -> None:
    """Give up what a killed host has left at work and nobody will take up any more."""
    over = await ledger.finished_ids()
    labels = {label_of(ledger.list_id, one) for one in work.assignments if one.id not in over}
    wanted = frozenset[str]() if fresh else labels
    dead = [
        run
        for run in await store.dead_runs()
        if run.label.startswith(f"{ledger.list_id}/") and run.label not in wanted
    ]
    for run in dead:
        await dismiss(store, run.id)
