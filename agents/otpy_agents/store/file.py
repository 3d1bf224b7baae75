"""The open file of a ledger: one lock, one connection, one transaction at a time."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, final

import aiosqlite

from otpy_agents.completion import to_completion
from otpy_agents.errors import LedgerClosed, LedgerUnwritable
from otpy_agents.store.lock import HostLock
from otpy_agents.store.schema import prepare, translate

__all__ = ["LedgerFile", "inserted"]

T = TypeVar("T")

_BUSY: Final = 5.0


@final
class LedgerFile:
    """A SQLite file that is open under a `HostLock`.

    Cancellation never cuts a transaction: it is carried to its end first. Errors of SQLite come out
    as the typed ones of `otpy_agents.errors`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = HostLock(path)
        self._turn = asyncio.Lock()
        self._database: aiosqlite.Connection | None = None

    async def open(self) -> None:
        """Take the lock and open the file, making it if it is not there.

        If this fails, `close` must still be called.

        Raises:
            AlreadyRunning: If another host works on the file.
            LedgerError: If the file cannot be used.
        """
        self._lock.acquire()
        try:
            # By hand, because the thread of a connection that fails to open outlives the attempt,
            # and because the system's reason is better than SQLite's.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644))
        except OSError as error:
            raise LedgerUnwritable(self._path, error.strerror or str(error)) from error
        try:
            self._database = await aiosqlite.connect(
                self._path, timeout=_BUSY, isolation_level=None
            )
            self._database.row_factory = sqlite3.Row
            await prepare(self._database, self._path)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    async def close(self) -> None:
        """Close the file behind whatever is still being written, then give the lock back."""
        database, self._database = self._database, None
        try:
            if database is not None:
                async with self._turn:
                    await database.close()
        finally:
            self._lock.release()

    async def change(self, work: Callable[[aiosqlite.Connection], Awaitable[T]]) -> T:
        """Run `work` as one transaction and return its answer.

        Raises:
            LedgerClosed: If the file is not open.
            LedgerError: If SQLite cannot do it; nothing of `work` has happened then.
        """
        return await to_completion(self._transact(work))

    async def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query as mappings from column to value."""

        async def work(database: aiosqlite.Connection) -> Iterable[sqlite3.Row]:
            return await database.execute_fetchall(query)

        return [dict(row) for row in await self.change(work)]

    async def _transact(self, work: Callable[[aiosqlite.Connection], Awaitable[T]]) -> T:
        async with self._turn:
            database = self._database
            if database is None:
                raise LedgerClosed(self._path)
            try:
                # A transaction that reads before it writes could find itself locked out when it
                # comes to writing; one that begins as a writer cannot.
                await database.execute("BEGIN IMMEDIATE")
                try:
                    answer = await work(database)
                    await database.execute("COMMIT")
                except BaseException:
                    # SQLite rolls back by itself for some errors; then this does nothing.
                    await database.rollback()
                    raise
            except sqlite3.Error as error:
                raise translate(error, self._path) from error
            return answer


async def inserted(database: aiosqlite.Connection, statement: str, values: Sequence[object]) -> int:
    """Insert one row and return its number."""
    cursor = await database.execute(statement, values)
    number = cursor.lastrowid
    if number is None:
        message = f"got no row from {statement!r}, wanted one"
        raise sqlite3.DatabaseError(message)
    return number
