"""Rows of the store of runs: reads and writes inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

import aiosqlite

from otpy_agents.errors import RunLost, UnknownRun
from otpy_agents.store.hosts import HOST, HostRecord
from otpy_agents.store.run_records import (
    AttemptBegun,
    AttemptEnded,
    Lease,
    RunRecord,
    StoredAttempt,
    StoredRun,
)

__all__ = [
    "OLD",
    "RECORD",
    "check_begun",
    "check_lease",
    "chosen_runs",
    "first",
    "holder_of",
    "stored",
    "write_attempt",
]

RECORD: Final = (
    "run.id, run.host, run.fence, run.version, run.status, run.agent, run.prompt, run.cwd,"
    " run.label, run.created, run.changed, run.finished, run.exit_code"
)
"""The columns of a `RunRecord`."""

OLD: Final = (
    ("cooldown", "until < ?"),
    ("host", "ended < ? AND id NOT IN (SELECT host FROM run)"),
)
"""Tables in the order in which they are purged behind the runs, with what makes a row old."""


def chosen_runs(only: Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    """Return the condition, and its values, that selects only these runs."""
    if only is None:
        return "", ()
    return " AND id IN (SELECT value FROM json_each(?))", (json.dumps(list(only)),)


async def write_attempt(
    database: aiosqlite.Connection, run: str, attempt: AttemptBegun | AttemptEnded, now: float
) -> None:
    """Insert the row of an attempt, or complete it.

    Raises:
        LookupError: If it has ended and was not begun.
        ValueError: If it was begun before.
    """
    key = (run, attempt.number)
    found = await first(database, "SELECT ended FROM attempt WHERE run = ? AND number = ?", key)
    if isinstance(attempt, AttemptEnded):
        check_begun(len(found), *key)
        await database.execute(
            "UPDATE attempt SET ended = ?, outcome = ?"
            " WHERE run = ? AND number = ? AND ended IS NULL",
            (now, attempt.outcome, *key),
        )
        return
    if found:
        message = f"run {run!r}: got attempt {attempt.number} once more, wanted a new number"
        raise ValueError(message)
    await database.execute(
        "INSERT INTO attempt (run, number, agent, started) VALUES (?, ?, ?, ?)",
        (*key, attempt.agent, now),
    )


def check_begun(rows: int, run: str, number: int) -> None:
    """Raise unless the attempt has a row.

    Raises:
        LookupError: If there are none.
    """
    if not rows:
        message = f"run {run!r}: got attempt {number}, wanted one that was begun"
        raise LookupError(message)


async def stored(database: aiosqlite.Connection, run: str) -> StoredRun:
    """Return a run with all that belongs to it.

    Raises:
        UnknownRun: If there is none.
    """
    row = await first(database, f"SELECT {RECORD}, run.state FROM run WHERE id = ?", (run,))  # noqa: S608 - our columns
    if not row:
        raise UnknownRun(run)
    state = str(row.pop("state"))
    attempts = await database.execute_fetchall(
        "SELECT number, agent, identity, started, ended, outcome FROM attempt WHERE run = ?"
        " ORDER BY number",
        (run,),
    )
    return StoredRun(
        record=RunRecord(**row),
        state=state,
        attempts=tuple(StoredAttempt(**dict(attempt)) for attempt in attempts),
    )


async def holder_of(database: aiosqlite.Connection, run: str) -> HostRecord:
    """Return the host that works on a run, or was the last to do so.

    Raises:
        UnknownRun: If there is none.
    """
    row = await first(
        database,
        f"SELECT {HOST} FROM run JOIN host ON host.id = run.host WHERE run.id = ?",  # noqa: S608 - our columns
        (run,),
    )
    if not row:
        raise UnknownRun(run)
    return HostRecord(**row)


async def check_lease(database: aiosqlite.Connection, lease: Lease) -> None:
    """Raise unless the lease is the latest of its run.

    Raises:
        RunLost: If it is not.
        UnknownRun: If there is no such run.
    """
    row = await first(database, "SELECT fence FROM run WHERE id = ?", (lease.run,))
    if row.get("fence") != lease.fence:
        raise RunLost(lease.run, (await holder_of(database, lease.run)).pid)


async def first(
    database: aiosqlite.Connection, query: str, values: Sequence[object]
) -> dict[str, Any]:
    """Return the first row; nothing if there is none."""
    for row in await database.execute_fetchall(query, values):
        return dict(row)
    return {}
