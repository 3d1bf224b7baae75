"""Exits that the workers of a killed host have left on disk, taken in by the next one."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from otpy_agents.process.guardian import exit_on_disk
from otpy_agents.process.orphans import Recorded
from otpy_agents.process.process import ExitStatus
from otpy_agents.sandbox.marker import attempt_marker

if TYPE_CHECKING:
    from otpy_agents.store.ledger import Ledger

__all__ = ["exit_file", "forget_exits", "settle"]


def exit_file(state: Path, assignment: str) -> Path:
    """Return where the guardian of a worker writes down its exit; no worker is told of it.

    Args:
        state: The ledger.
        assignment: Id of the assignment.
    """
    return state.with_suffix(".exits") / assignment


async def settle(ledger: Ledger, ended: Collection[int]) -> None:
    """Write into the ledger which programs have ended by themselves, though no host lived.

    Args:
        ledger: Of which `close_interrupted` has not been called yet.
        ended: Pids of processes that this host has ended: their exits are not their own.
    """
    for attempt in await ledger.last_attempts():
        recorded = None
        if attempt.pid is not None and attempt.create_time is not None:
            recorded = Recorded(attempt.pid, attempt.create_time)
        marker = attempt_marker(ledger.list_id, attempt.assignment, attempt.incarnation)
        found = await exit_on_disk(exit_file(ledger.path, attempt.assignment), marker, recorded)
        if found is not None and found.pid not in ended:
            status = ExitStatus.of(found.returncode)
            await ledger.settle(attempt.id, status.code, str(status))


async def forget_exits(state: Path) -> None:
    """Remove what earlier hosts have left, once it is settled."""
    folder = state.with_suffix(".exits")
    await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
