"""The queries of a log: its length, and its events page by page."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, final

import aiosqlite
from attrs import frozen

from otpy_agents.log.chain import FIRST
from otpy_agents.log.event import ROW

__all__ = ["PAGE", "Standing", "VERSION", "end_of", "page_after", "page_query", "standing_of"]

_LAST: Final = """
SELECT position, hash FROM events
UNION ALL SELECT position, hash FROM archived ORDER BY position DESC LIMIT 1
"""
VERSION: Final = """
SELECT max(version) AS version FROM (
    SELECT max(version) AS version FROM events WHERE stream = ?
    UNION ALL SELECT max(version) FROM archived WHERE stream = ?)
"""
_STANDING: Final = f"""
SELECT 'event' AS what, NULL AS name, NULL AS version, position, hash FROM ({_LAST})
UNION ALL SELECT 'projection', name, version, position, NULL FROM projections
    WHERE EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = projections.name)
"""  # noqa: S608 - our own text


@final
@frozen
class Standing:
    """How far a log has come.

    Attributes:
        position: Of the last event.
        last: Its hash.
        versions: Of the streams that were asked for.
        projections: Version and position of each table that is there.
    """

    position: int
    last: bytes
    versions: dict[str, int]
    projections: dict[str, tuple[int, int]]


def standing_of(database: sqlite3.Connection, streams: Sequence[str] = ()) -> Standing:
    """Look how far a log has come, in one question."""
    of_streams = f"UNION ALL SELECT 'stream', ?, ({VERSION}), NULL, NULL " * len(streams)
    values = [stream for stream in streams for _ in range(3)]
    position, last = 0, FIRST
    versions = dict.fromkeys(streams, 0)
    projections: dict[str, tuple[int, int]] = {}
    for row in database.execute(f"{_STANDING}{of_streams}", values):
        match row["what"]:
            case "event":
                position, last = int(row["position"]), bytes(row["hash"])
            case "stream":
                versions[row["name"]] = row["version"] or 0
            case _:
                projections[row["name"]] = row["version"], row["position"]
    return Standing(position, last, versions, projections)


async def end_of(database: aiosqlite.Connection) -> tuple[int, bytes]:
    """Return position and hash of the last event."""
    for row in await database.execute_fetchall(_LAST):
        return int(row["position"]), bytes(row["hash"])
    return 0, FIRST


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
