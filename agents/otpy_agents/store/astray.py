"""Restores the content of a file that was deleted, or replaced, while it was open."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TypeAlias

import aiosqlite
import psutil

__all__ = ["Inode", "copy_into", "inode_of", "knows_us"]

Inode: TypeAlias = tuple[int, int]
"""Device and number, by which a file is told from another of the same name."""


def inode_of(path: Path) -> Inode | None:
    """Return the identity of the file at a path; None if there is none, or it is unknown."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def copy_into(database: aiosqlite.Connection, path: Path, mode: int) -> None:
    """Write all that an open file holds into a new one, wholly or not at all.

    Args:
        database: The open file, in no transaction.
        path: Of the new one.
        mode: Its permissions.

    Raises:
        FileExistsError: There is one already; it is left as it is.
        OSError: It cannot be made.
        sqlite3.Error: It cannot be written.
    """
    draft = path.with_name(f"{path.name}.draft-{os.getpid()}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        await database.execute("VACUUM INTO ?", (str(draft),))
        _put(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _put(draft: Path, path: Path) -> None:
    if not path.exists():
        # Logs of the file that is gone would be taken for logs of the new one.
        for log in ("-wal", "-shm"):
            path.with_name(f"{path.name}{log}").unlink(missing_ok=True)
    os.link(draft, path)  # which, other than a rename, replaces nothing


async def knows_us(database: aiosqlite.Connection) -> bool:
    """Whether this process is among the hosts of a file: another host has put it back."""
    try:
        rows = await database.execute_fetchall(
            "SELECT 1 FROM host WHERE pid = ? AND create_time = ? AND ended IS NULL",
            (os.getpid(), psutil.Process().create_time()),
        )
    except sqlite3.Error:  # it is none of ours, and perhaps no database
        return False
    return bool(list(rows))
