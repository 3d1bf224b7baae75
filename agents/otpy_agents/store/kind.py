"""The kinds of our SQLite files, and how to open a file with unknown content."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiosqlite
from attrs import field, frozen

from otpy_agents.errors import (
    LedgerCorrupt,
    LedgerError,
    LedgerForeign,
    LedgerTooNew,
    LedgerUnwritable,
)

__all__ = ["BUSY", "FileKind", "check", "in_seconds", "prepare", "translate"]

BUSY: Final = 5.0
"""Seconds to wait for another process that is writing into the same file."""


_LITTLE: Final = 64 * 1024  # bytes; the shared memory of a file takes 32 KiB

_MAY_BE_FULL: Final = ("SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")


@frozen(kw_only=True)
class FileKind:
    """One kind of file, with everything needed to make an empty one.

    Attributes:
        noun: Its name for people, with its article: `a work list ledger`.
        application: Mark by which a file of this kind is told, `PRAGMA application_id`.
        newest: Schema version this code writes, `PRAGMA user_version`.
        tables: The statements that make an empty one, each ended by a semicolon and a new line.
        mode: Permissions of a new file.
        upgrades: The statements that make a file of a version into one of the next, by the older
            version; written as `tables`.
        put_back: Whether a file that is deleted while it is open is put back; else its users get an
            error, and a copy is kept.
        sound: Whether the whole file is checked when it is opened, in the time of its size.
    """

    noun: str
    application: int
    newest: int
    tables: str
    mode: int
    upgrades: Mapping[int, str] = field(factory=dict[int, str])
    put_back: bool = True
    sound: bool = True


def in_seconds(table: str, column: str, *, required: bool = False) -> str:
    """Return the statements that make Unix seconds of a column of moments in ISO-8601.

    Args:
        table: The table.
        column: The column, in no index.
        required: Whether each row has one.
    """
    kind = "REAL NOT NULL DEFAULT 0" if required else "REAL"
    new = f"{column}_in_seconds"
    seconds = f"round((julianday({column}) - 2440587.5) * 86400, 3)"
    return (
        f"ALTER TABLE {table} ADD COLUMN {new} {kind};\n"
        f"UPDATE {table} SET {new} = {seconds} WHERE {column} IS NOT NULL;\n"
        f"ALTER TABLE {table} DROP COLUMN {column};\n"
        f"ALTER TABLE {table} RENAME COLUMN {new} TO {column};\n"
    )


async def prepare(database: aiosqlite.Connection, path: Path, kind: FileKind) -> None:
    """Check that the file is a sound one of its kind, or make an empty file into one.

    Several processes may do so at once: one of them makes the tables.

    Raises:
        LedgerCorrupt: If it is damaged.
        LedgerForeign: If it belongs to another program.
        LedgerTooNew: If a newer version wrote it.
        sqlite3.Error: As SQLite puts it; see `translate`.
    """
    version, empty = await check(database, path, kind)
    sound = str(await _value(database, "PRAGMA quick_check(1)")) if kind.sound else "ok"
    if sound != "ok":
        raise LedgerCorrupt(path, f"a damaged file ({sound.splitlines()[-1]})", kind.noun)
    await _value(database, "PRAGMA journal_mode = WAL")
    await database.execute("PRAGMA synchronous = FULL")
    await database.execute("PRAGMA foreign_keys = ON")
    if empty:
        await _create(database, kind)
    elif version < kind.newest:
        await _upgrade(database, kind)


async def check(database: aiosqlite.Connection, path: Path, kind: FileKind) -> tuple[int, bool]:
    """Return the version of the file, and whether it is empty; refuse one of another kind.

    Raises:
        LedgerForeign: If it belongs to another program.
        LedgerTooNew: If a newer version wrote it.
        sqlite3.Error: As SQLite puts it; see `translate`.
    """
    # First of all, because it reads the header and so detects a file that is not a database.
    version = int(await _value(database, "PRAGMA user_version"))
    empty = await _is_empty(database)
    if not empty and int(await _value(database, "PRAGMA application_id")) != kind.application:
        raise LedgerForeign(path, "a database of another program", kind.noun)
    if version > kind.newest:
        raise LedgerTooNew(path, version, kind.newest)
    return version, empty


async def _upgrade(database: aiosqlite.Connection, kind: FileKind) -> None:
    """Upgrade an older file, wholly or not at all; its content stays (G-15)."""
    await database.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it since we looked.
        version = int(await _value(database, "PRAGMA user_version"))
        for older in range(version, kind.newest):
            for statement in kind.upgrades[older].split(";\n"):
                await database.execute(statement)
        await database.execute(f"PRAGMA user_version = {kind.newest}")
        await database.execute("COMMIT")
    except BaseException:
        await database.rollback()
        raise


async def _create(database: aiosqlite.Connection, kind: FileKind) -> None:
    """Make the tables, all or none of them."""
    await database.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made them since we looked.
        if await _is_empty(database):
            for statement in kind.tables.split(";\n"):
                await database.execute(statement)
            await database.execute(f"PRAGMA application_id = {kind.application}")
            await database.execute(f"PRAGMA user_version = {kind.newest}")
        await database.execute("COMMIT")
    except BaseException:
        await database.rollback()
        raise


async def _is_empty(database: aiosqlite.Connection) -> bool:
    return not int(await _value(database, "SELECT count(*) FROM sqlite_master"))


async def _value(database: aiosqlite.Connection, query: str) -> Any:
    """Return the first column of the first row."""
    rows = list(await database.execute_fetchall(query))
    return rows[0][0]


def translate(error: sqlite3.Error, path: Path, kind: FileKind) -> LedgerError:
    """Return the error of ours that says what SQLite's means for the person at the keyboard."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return LedgerCorrupt(path, str(error), kind.noun)
    if name.startswith("SQLITE_BUSY"):
        return LedgerUnwritable(path, f"a lock that another process holds for {BUSY:g} s")
    if name == "SQLITE_FULL" or (name.startswith(_MAY_BE_FULL) and _is_full(path)):
        return LedgerUnwritable(path, os.strerror(errno.ENOSPC))
    return LedgerUnwritable(path, str(error))


def _is_full(path: Path) -> bool:
    """Whether the disk has no room, which SQLite does not say of the memory that readers share."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _LITTLE
