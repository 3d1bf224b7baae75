"""One open SQLite file: one connection, one transaction at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, final

import aiosqlite

from otpy_agents.completion import to_completion
from otpy_agents.errors import LedgerAstray, LedgerClosed, LedgerUnwritable
from otpy_agents.store.astray import Inode, copy_into, inode_of, knows_us
from otpy_agents.store.kind import BUSY, FileKind, check, prepare, translate

__all__ = ["StoreFile", "in_its_thread", "inserted"]

T = TypeVar("T")

_OPENINGS: Final = 50
_PAUSE: Final = 0.02


@final
class StoreFile:
    """A SQLite file of one of our kinds.

    Other processes may have it open at the same time. Cancellation never cuts a transaction: it is
    carried to its end first. Errors of SQLite come out as the typed ones of `otpy_agents.errors`.

    A file that is deleted while it is open is put back with all that it held, by the next who uses
    it. Where another file lies in its place, that is left alone, and a file beside it is gone on
    with. A file of a kind that is not put back raises `LedgerAstray` on every use, and its content
    is kept beside it. Every use looks which file lies there, which takes microseconds.

    Attributes:
        on_astray: Called with one line for a person when that has happened.
    """

    def __init__(self, path: Path, kind: FileKind) -> None:
        self._path = path
        self._kind = kind
        self._turn = asyncio.Lock()
        self._database: aiosqlite.Connection | None = None
        self._inode: Inode | None = None
        self._said = ""
        self.on_astray: Callable[[str], None] = lambda _line: None

    async def open(self, *, look: bool = False) -> None:
        """Open the file, making it if it is not there.

        If this fails, `close` must still be called.

        Args:
            look: Be content to read where nothing can be written, as on a full disk.

        Raises:
            LedgerError: If the file cannot be used.
        """
        try:
            await self._open()
        except LedgerUnwritable:
            try:
                if not look or not await self._open_to_look():
                    raise
            except sqlite3.Error as error:
                raise translate(error, self._path, self._kind) from error

    async def _open(self) -> None:
        try:
            # By hand, because the thread of a connection that fails to open outlives the attempt,
            # and because the system's reason is better than SQLite's.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, self._kind.mode))
        except OSError as error:
            raise LedgerUnwritable(self._path, error.strerror or str(error)) from error
        try:
            self._database = database = await self._connected(self._path)
            await self._prepare(database)
        except sqlite3.Error as error:
            raise translate(error, self._path, self._kind) from error
        self._inode = inode_of(self._path)

    async def _open_to_look(self) -> bool:
        """Open the file as it is; return whether that could be done.

        First with the log of writes that SQLite keeps beside it. Without room for the memory that
        readers share nobody can read that; then what was moved into the file itself has to do.
        """
        await self.close()
        for how in ("mode=ro", "mode=ro&immutable=1"):
            uri = f"{self._path.absolute().as_uri()}?{how}"
            try:
                # By hand first, as above: only what can be read is worth a thread.
                with contextlib.closing(sqlite3.connect(uri, uri=True)) as probe:
                    probe.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.Error as error:
                if error.sqlite_errorname.startswith("SQLITE_BUSY"):
                    return False  # beside a lock one would read what is half written
                continue
            self._database = database = await aiosqlite.connect(uri, uri=True, isolation_level=None)
            database.row_factory = sqlite3.Row
            await check(database, self._path, self._kind)
            return True
        return False

    async def close(self) -> None:
        """Close the file behind whatever is still being written."""
        database, self._database = self._database, None
        if database is not None:
            async with self._turn:
                await database.close()

    async def change(self, work: Callable[[aiosqlite.Connection], Awaitable[T]]) -> T:
        """Run `work` as one transaction and return its answer.

        Raises:
            LedgerClosed: If the file is not open.
            LedgerError: If SQLite cannot do it; nothing of `work` has happened then.
        """
        return await to_completion(self._transact("BEGIN IMMEDIATE", work))

    async def read(self, work: Callable[[aiosqlite.Connection], Awaitable[T]]) -> T:
        """Run `work`, which only reads, on one state of the file; it keeps no writer waiting.

        Raises:
            LedgerClosed: If the file is not open.
            LedgerError: If SQLite cannot do it.
        """
        return await to_completion(self._transact("BEGIN", work))

    async def vacuum(self) -> None:
        """Return the space of deleted rows to the disk; takes time in proportion to the whole file.

        Raises:
            LedgerClosed: If the file is not open.
            LedgerError: If SQLite cannot do it.
        """

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute("COMMIT")  # it takes no transaction around it
            await database.execute("VACUUM")
            await database.execute("BEGIN")

        await to_completion(self._transact("BEGIN", work))

    async def rows(self, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Return the rows of a query as mappings from column to value; it keeps no writer waiting.

        Raises:
            LedgerClosed: If the file is not open.
            LedgerError: If SQLite cannot do it.
        """
        return [dict(row) for row in await self.look(query, values)]

    async def look(self, query: str, values: Sequence[object] = ()) -> Iterable[sqlite3.Row]:
        """Return the rows of a query, as `rows` does, just as SQLite gives them."""

        async def work(database: aiosqlite.Connection) -> Iterable[sqlite3.Row]:
            return await database.execute_fetchall(query, values)

        return await to_completion(self._transact(None, work))

    async def _transact(
        self, begin: str | None, work: Callable[[aiosqlite.Connection], Awaitable[T]]
    ) -> T:
        """Run `work` in a transaction that begins so; None for a query, which is one by itself."""
        async with self._turn:
            database = self._database
            if database is None:
                raise LedgerClosed(self._path, self._kind.noun)
            if self._is_astray():
                database = await self._find_again(database)
            try:
                # A transaction that reads before it writes could find itself locked out when it
                # comes to writing; one that begins as a writer cannot.
                if begin is None:  # each statement takes a turn of a thread
                    return await work(database)
                await database.execute(begin)
                try:
                    answer = await work(database)
                    await database.execute("COMMIT")
                except BaseException:
                    # SQLite rolls back by itself for some errors; then this does nothing.
                    await database.rollback()
                    raise
            except sqlite3.Error as error:
                raise translate(error, self._path, self._kind) from error
            if not self._kind.put_back and self._is_astray():  # it may have gone in between
                database = await self._find_again(database)
            return answer

    def _is_astray(self) -> bool:
        return self._inode is not None and inode_of(self._path) != self._inode

    async def _find_again(self, database: aiosqlite.Connection) -> aiosqlite.Connection:
        """Go on with what lies in the place of the file now; return the one to use."""
        if not self._kind.put_back:
            raise LedgerAstray(self._path, await self._kept(database))
        was, mode = self._path, self._kind.mode
        line = f"state file {was} was deleted while it was open; all that it held is there again"
        try:
            with contextlib.suppress(FileExistsError):
                await copy_into(database, was, mode)
                return await self._go_on(was, database, line)
            another = await self._connected(was)
            if await knows_us(another):  # another host of the same file was faster
                await another.close()
                return await self._go_on(was, database, "")
            await another.close()
            kept = was.with_name(f"{was.name}.kept-{os.getpid()}")
            await copy_into(database, kept, mode)
            line = (
                f"state file {was} was replaced by another; what this host does is kept in {kept}"
            )
            return await self._go_on(kept, database, line)
        except (OSError, sqlite3.Error) as error:
            # What it holds is not lost as long as it is open: the next use tries again.
            self._say(f"state file {was} was deleted or replaced, and cannot be written: {error}")
            return database

    async def _kept(self, database: aiosqlite.Connection) -> str:
        """Keep the content of the open file beside its place; return the outcome."""
        number = 0 if self._inode is None else self._inode[1]
        kept = self._path.with_name(f"{self._path.name}.kept-{os.getpid()}-{number}")
        try:
            with contextlib.suppress(FileExistsError):
                await copy_into(database, kept, self._kind.mode)
        except (OSError, sqlite3.Error) as error:
            return f"all that it held cannot be kept: {error}"
        return f"all that it held is kept in {kept}"

    async def _go_on(
        self, path: Path, before: aiosqlite.Connection, line: str
    ) -> aiosqlite.Connection:
        database = await self._connected(path)
        await self._prepare(database)
        self._path, self._inode, self._database = path, inode_of(path), database
        # SQLite sees that this one has lost its name, and leaves the logs of the new one alone.
        await before.close()
        if line:
            self._say(line)
        return database

    async def _connected(self, path: Path) -> aiosqlite.Connection:
        database = await aiosqlite.connect(path, timeout=BUSY, isolation_level=None)
        database.row_factory = sqlite3.Row
        return database

    def _say(self, line: str) -> None:
        """Tell a line, if it is news."""
        if line != self._said:
            self._said = line
            self.on_astray(line)

    async def _prepare(self, database: aiosqlite.Connection) -> None:
        """Prepare the file, although others may be about to do the same.

        SQLite does not wait for them when it switches to write-ahead logging, but fails at once.
        """
        for _ in range(_OPENINGS):
            try:
                return await prepare(database, self._path, self._kind)
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                    raise
            await asyncio.sleep(_PAUSE)
        return await prepare(database, self._path, self._kind)


async def in_its_thread(
    database: aiosqlite.Connection, work: Callable[[sqlite3.Connection], T]
) -> T:
    """Run `work` in the thread of a connection: all its statements in one turn of that thread.

    A turn takes longer than most statements, and aiosqlite takes one for each.
    """
    connection: Any = database  # of what is used here it has no public names
    answer: T = await connection._execute(work, connection._conn)
    return answer


async def inserted(database: aiosqlite.Connection, statement: str, values: Sequence[object]) -> int:
    """Insert one row and return its number."""
    cursor = await database.execute(statement, values)
    number = cursor.lastrowid
    if number is None:
        message = f"got no row from {statement!r}, wanted one"
        raise sqlite3.DatabaseError(message)
    return number
