"""Sessions as rows of one SQLite file."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, final

from otpy_agents.clock import CLOCK
from otpy_agents.completion import OpenedWhole, to_completion
from otpy_agents.errors import LedgerCorrupt, LedgerForeign, LedgerUnwritable, SessionCorrupt
from otpy_agents.store.file import StoreFile, inserted
from otpy_agents.store.kind import FileKind, in_seconds
from otpy_agents.store.sessions.session import Broken, StoredSession, decode, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiosqlite

__all__ = ["SqliteSessions"]

T = TypeVar("T")

_TABLES: Final = """
CREATE TABLE session (agent TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL, body, reason TEXT NOT NULL, at TEXT NOT NULL
);
"""

_UNIX: Final = in_seconds("quarantine", "at", required=True)
"""Since version 2: moments are Unix seconds; before, they were text."""

_KIND: Final = FileKind(
    noun="a store of sessions",
    application=0x6F747073,  # "otps"
    newest=2,
    tables=_TABLES + _UNIX,
    mode=0o600,
    upgrades={1: _UNIX},
)

_FILES: Final = ("-wal", "-shm", "")


@final
class SqliteSessions(OpenedWhole):
    """A `SessionStore` in one SQLite file; an async context manager.

    A row that is not a sound session is moved into the table `quarantine`. A file that is damaged
    as a whole is moved away, with SQLite's files beside it, and a new one is begun.

    Args:
        path: The file, made if it is not there. Nothing else may be in it.

    Raises:
        LedgerForeign: On entering, if it is a database of another program; it is left as it is.
        LedgerTooNew: On entering, if a newer version wrote it; it is left as it is.
        LedgerUnwritable: On entering or from any operation, if the disk does not take it.
        LedgerClosed: From any operation outside the block.

    Attributes:
        aside: Folder into which a damaged file was moved since entering; None if none was.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = StoreFile(path, _KIND)
        self.aside: Path | None = None
        self._turn = asyncio.Lock()

    async def load(self, agent: str) -> StoredSession | None:
        """See `SessionStore.load`."""
        query = "SELECT body FROM session WHERE agent = ?"
        before = self.aside
        try:
            rows = await self._file.rows(query, (agent,))
        except LedgerCorrupt as error:
            folder = await to_completion(self._replace(before))
            raise SessionCorrupt(agent, str(error), str(folder)) from error
        if not rows:
            return None
        try:
            return _read(rows[0]["body"], agent)
        except Broken as error:
            row = await self._set_aside(agent, str(error))
            aside = f"row {row} of the table quarantine in {self._path}"
            raise SessionCorrupt(agent, str(error), aside) from error

    async def save(self, session: StoredSession) -> None:
        """See `SessionStore.save`: one transaction."""
        values = (session.agent, encode(session).encode())

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute("INSERT OR REPLACE INTO session VALUES (?, ?)", values)

        await self._change(work)

    async def forget(self, agent: str) -> None:
        """See `SessionStore.forget`."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute("DELETE FROM session WHERE agent = ?", (agent,))

        await self._change(work)

    async def all(self) -> tuple[StoredSession, ...]:
        """See `SessionStore.all`."""
        found: list[StoredSession] = []
        for row in await self._file.rows("SELECT agent, body FROM session ORDER BY agent"):
            with contextlib.suppress(Broken):
                found.append(_read(row["body"], row["agent"]))
        return tuple(found)

    async def _close(self) -> None:
        await self._file.close()

    async def _open(self) -> None:
        try:
            await self._file.open()
        except LedgerForeign:
            raise
        except LedgerCorrupt:
            await self._replace(None)

    async def _change(self, work: Callable[[aiosqlite.Connection], Awaitable[T]]) -> T:
        """Run a transaction; if the file turns out to be damaged, in a new one."""
        before = self.aside
        try:
            return await self._file.change(work)
        except LedgerCorrupt:
            await to_completion(self._replace(before))
            return await self._file.change(work)

    async def _set_aside(self, agent: str, reason: str) -> int:
        """Move the row of an agent into the quarantine; a session is not touched twice."""

        async def work(database: aiosqlite.Connection) -> int:
            row = await inserted(
                database,
                "INSERT INTO quarantine (agent, body, reason, at)"
                " SELECT agent, body, ?, ? FROM session WHERE agent = ?",
                (reason, CLOCK(), agent),
            )
            await database.execute("DELETE FROM session WHERE agent = ?", (agent,))
            return row

        return await self._change(work)

    async def _replace(self, before: Path | None) -> Path:
        """Move the damaged file away, begin a new one, and return the folder it lies in now.

        Args:
            before: `aside` before the damage was found; if it has changed since, another call has
                done this already.
        """
        async with self._turn:
            if self.aside is None or self.aside == before:
                self.aside = await self._move_away()
            return self.aside

    async def _move_away(self) -> Path:
        await self._file.close()
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")  # noqa: TID251 - for people
        aside = self._path.with_name(f"{self._path.name}.corrupt-{stamp}")
        try:
            aside.mkdir(mode=0o700)
            # The log first: SQLite would put a log that is left behind into the new file.
            for ending in _FILES:
                part = self._path.with_name(self._path.name + ending)
                with contextlib.suppress(FileNotFoundError):
                    part.replace(aside / part.name)
        except OSError as error:
            raise LedgerUnwritable(self._path, error.strerror or str(error)) from error
        await self._file.open()
        return aside


def _read(body: object, agent: str) -> StoredSession:
    if not isinstance(body, bytes):
        raise Broken(f"{type(body).__name__} instead of bytes")
    return decode(body, agent)
