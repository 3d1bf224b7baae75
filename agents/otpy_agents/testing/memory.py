"""Stores without a thread: SQLite in the loop's own thread, so that time may be virtual."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, final
from unittest.mock import patch

__all__ = ["memory_stores"]

_Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


@contextmanager
def memory_stores() -> Generator[None]:
    """Keep ledgers and stores of runs in memory while the block lasts.

    Each path is one database for as long, so that a second host finds what the first has left.
    Every statement is one turn of the loop.
    """
    databases: dict[Path, sqlite3.Connection] = {}

    async def connect(path: Path, **_: object) -> _Threadless:
        if path not in databases:
            databases[path] = sqlite3.connect(":memory:", isolation_level=None)
        return _Threadless(databases[path])

    try:
        with patch("otpy_agents.store.file.aiosqlite.connect", connect):
            yield
    finally:
        for database in databases.values():
            database.close()


@final
class _Threadless:
    """The part of an `aiosqlite.Connection` that the stores use."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.row_factory: Any = None

    async def execute(self, statement: str, values: _Values = ()) -> sqlite3.Cursor:
        await asyncio.sleep(0)
        self._database.row_factory = self.row_factory
        return self._database.execute(statement, values)

    async def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        await asyncio.sleep(0)
        return self._database.executemany(statement, rows)

    async def execute_fetchall(self, statement: str, values: _Values = ()) -> list[Any]:
        return (await self.execute(statement, values)).fetchall()

    async def _execute(self, work: Callable[[sqlite3.Connection], Any], database: Any) -> Any:
        await asyncio.sleep(0)
        database.row_factory = self.row_factory
        return work(database)

    @property
    def _conn(self) -> sqlite3.Connection:
        return self._database

    async def rollback(self) -> None:
        self._database.rollback()

    async def close(self) -> None:
        """Stay open: the next host opens the same database."""
