"""The tables of a ledger, and opening a file that may hold anything."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiosqlite

from otpy_agents.errors import LedgerCorrupt, LedgerError, LedgerTooNew, LedgerUnwritable

__all__ = ["NEWEST", "SCHEMA", "now", "prepare", "translate"]

NEWEST: Final = 1
"""Schema version this code writes, kept in the file as `PRAGMA user_version`."""

_APPLICATION: Final = 0x6F747079

SCHEMA: Final = """
CREATE TABLE identity (list_id TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE host (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL, create_time REAL NOT NULL,
    started TEXT NOT NULL, ended TEXT
);
CREATE TABLE assignment (
    id TEXT PRIMARY KEY,
    position INTEGER,
    digest TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', reason TEXT NOT NULL DEFAULT '',
    restarts INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    first_started TEXT, finished TEXT, seconds REAL NOT NULL DEFAULT 0,
    output_bytes INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER, last_line TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host INTEGER NOT NULL REFERENCES host (id),
    assignment TEXT NOT NULL, incarnation INTEGER NOT NULL,
    pid INTEGER, pgid INTEGER, create_time REAL,
    started TEXT NOT NULL, ended TEXT, seconds REAL, reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX attempt_live ON attempt (assignment) WHERE ended IS NULL;
"""


def now(earlier: float = 0.0) -> str:
    """Return the wall-clock time, or that of `earlier` seconds ago: ISO-8601, UTC, milliseconds."""
    moment = datetime.now(UTC) - timedelta(seconds=earlier)  # noqa: TID251 - a stamp for people
    return moment.isoformat(timespec="milliseconds")


async def prepare(database: aiosqlite.Connection, path: Path) -> None:
    """Check that the file is a sound ledger, or make an empty file into one.

    Raises:
        LedgerCorrupt: If it is damaged or belongs to another program.
        LedgerTooNew: If a newer version wrote it.
        sqlite3.Error: As SQLite puts it; see `translate`.
    """
    # First of all, because it reads the header and so finds out what is no database.
    version = int(await _value(database, "PRAGMA user_version"))
    tables = int(await _value(database, "SELECT count(*) FROM sqlite_master"))
    if tables and int(await _value(database, "PRAGMA application_id")) != _APPLICATION:
        raise LedgerCorrupt(path, "a database of another program")
    if version > NEWEST:
        raise LedgerTooNew(path, version, NEWEST)
    sound = str(await _value(database, "PRAGMA quick_check(1)"))
    if sound != "ok":
        raise LedgerCorrupt(path, f"a damaged file ({sound.splitlines()[-1]})")
    await _value(database, "PRAGMA journal_mode = WAL")
    await database.execute("PRAGMA synchronous = FULL")
    await database.execute("PRAGMA foreign_keys = ON")
    if not tables:
        await _create(database)


async def _create(database: aiosqlite.Connection) -> None:
    """Make the tables, all or none of them."""
    await database.execute("BEGIN IMMEDIATE")
    try:
        for statement in SCHEMA.split(";\n"):
            await database.execute(statement)
        await database.execute("INSERT INTO identity VALUES (?, ?)", (uuid.uuid4().hex, now()))
        await database.execute(f"PRAGMA application_id = {_APPLICATION}")
        await database.execute(f"PRAGMA user_version = {NEWEST}")
        await database.execute("COMMIT")
    except BaseException:
        await database.rollback()
        raise


async def _value(database: aiosqlite.Connection, query: str) -> Any:
    """Return the first column of the first row."""
    rows = list(await database.execute_fetchall(query))
    return rows[0][0]


def translate(error: sqlite3.Error, path: Path) -> LedgerError:
    """Return the error of ours that says what SQLite's means for the person at the keyboard."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return LedgerCorrupt(path, str(error))
    return LedgerUnwritable(path, str(error))
