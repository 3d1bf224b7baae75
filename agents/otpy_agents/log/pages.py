"""Events page by page: so many are held in memory at once, however long a log is."""

from __future__ import annotations

import sqlite3
from typing import Final

import aiosqlite

from otpy_agents.log.event import ROW

__all__ = ["PAGE", "page_after", "page_query"]

PAGE: Final = 1000


def page_query(
    after: int, stream: str | None = None, until: int | None = None
) -> tuple[str, list[object]]:
    """Return the query for a page of events, and its values."""
    of = "" if stream is None else " AND stream = ?"
    to = "" if until is None else " AND position <= ?"
    what = f"{', '.join(ROW)} FROM events WHERE position > ?{of}{to}"
    given: list[object] = [after, *(one for one in (stream, until) if one is not None)]
    return f"SELECT {what} ORDER BY position LIMIT {PAGE}", given


async def page_after(database: aiosqlite.Connection, after: int) -> list[sqlite3.Row]:
    """Return the page of events behind a position."""
    return list(await database.execute_fetchall(*page_query(after)))
