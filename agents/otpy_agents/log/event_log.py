"""The event log: one SQLite file to which events are appended, and nothing else is done (ENG-06).

Any number of processes append to it and follow it. An append is one transaction: its events, in
one or several streams, and what they change in projections are on the disk when it returns, or
none of it is.

**Cancellation.** An append that is cancelled is carried to its end and raises `CancelledError`
afterwards, so that it is made or not made, never half.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import aiosqlite

from otpy_agents.clock import CLOCK
from otpy_agents.completion import OpenedWhole
from otpy_agents.errors import InvalidEventType, InvalidProjection, VersionConflict
from otpy_agents.log import archive
from otpy_agents.log.archive import Archived
from otpy_agents.log.audit import audited
from otpy_agents.log.chain import canonical, hash_of
from otpy_agents.log.event import ROW, Append, Stored
from otpy_agents.log.projection import Difference, Projection, Rows
from otpy_agents.log.queries import (
    PAGE,
    VERSION,
    Standing,
    end_of,
    page_after,
    page_query,
    standing_of,
)
from otpy_agents.log.tables import LOG
from otpy_agents.log.types import COLUMNS, Catalogue
from otpy_agents.store.file import StoreFile, in_its_thread
from otpy_agents.store.redaction import without_secrets

if TYPE_CHECKING:
    from otpy_agents.log.types import Plain

__all__ = ["EventLog"]

_LOOK: Final = 0.25
"""Seconds between two looks for what other processes have appended: SQLite tells nobody."""

_INSERT: Final = (
    f"INSERT INTO events ({', '.join(ROW)})"  # noqa: S608 - our own names
    f" VALUES ({', '.join('?' * len(ROW))})"
)
_Draft: TypeAlias = tuple[str, int, tuple[Any, ...], str, "Plain"]
"""What is known of an event before it is appended: its type, the version of that, the values of
`COLUMNS`, its payload; and its fields."""


@final
class EventLog(OpenedWhole):
    """An event log; an async context manager.

    Args:
        path: The file; its folder must exist.
        types: Classes of the events that are appended, or wanted as objects (`event_type`).
        projections: What is kept of the events. One whose table is missing, or of another version,
            is folded from the whole log when this is entered.
        clean: Takes secrets out of a text before it is written (G-04).
        clock: Unix seconds.
        looks: Whether nothing is to be changed: tables that are missing, or that the programs they
            belong to have not brought up to date, are left so.

    Raises:
        InvalidEventType: Two types have the same name.
        InvalidProjection: Two projections have the same name.
        LedgerError: On entering or from any operation: the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        types: Iterable[type] = (),
        projections: Collection[Projection] = (),
        clean: Callable[[str], str] = str,
        clock: Callable[[], float] = CLOCK,
        looks: bool = False,
    ) -> None:
        self.path = path
        self.archive = path.with_suffix(".archive")
        self._types = Catalogue(types)
        self._projections = {one.name: one for one in projections}
        if len(self._projections) != len(projections):
            raise InvalidProjection(str(path), "two of one name", "one projection for each name")
        self._looks = looks or not projections
        self._clean = clean
        self._clock = clock
        self._file = StoreFile(path, LOG)
        self._appended = asyncio.Event()

    async def _close(self) -> None:
        await self._file.close()

    async def _open(self) -> None:
        await self._file.open(look=self._looks)
        if not self._looks:
            await self._file.change(self._catch_up)

    # --- appending --------------------------------------------------------------------------------

    async def append(self, *appends: Append) -> tuple[Stored, ...]:
        """Append to one stream or several, all of it or nothing; return the appended events.

        Raises:
            VersionConflict: A stream has another version than expected.
            InvalidEventType: An event is of no type of this log, or holds what JSON has not.
            LedgerError: It cannot be written.
        """
        drafts = [(one, [self._draft(event) for event in one.events]) for one in appends]

        async def work(database: aiosqlite.Connection) -> tuple[Stored, ...]:
            return await self._write(database, drafts)

        stored = await self._file.change(work)
        self._tell()
        return stored

    def _draft(self, event: object) -> _Draft:
        name, version, fields = self._types.plain(event)
        cleaned: Plain = without_secrets(fields, self._clean)
        rest = dict(cleaned)
        columns: list[str | None] = []
        for key in COLUMNS:
            value = cleaned.get(key)
            columns.append(value)
            if value is not None:
                del rest[key]
                if not isinstance(value, str):
                    raise InvalidEventType(name, f"{key} {value!r}", "text")
        try:
            payload = canonical(rest)
        except (TypeError, ValueError) as error:
            raise InvalidEventType(name, str(error), "what JSON can hold") from error
        return name, version, tuple(columns), payload, cleaned

    async def _write(
        self, database: aiosqlite.Connection, drafts: list[tuple[Append, list[_Draft]]]
    ) -> tuple[Stored, ...]:
        stored = await in_its_thread(database, partial(self._insert, drafts))
        if stored is None:  # another program may know less than this one
            await self._catch_up(database)
            stored = await in_its_thread(database, partial(self._insert, drafts))
        assert stored is not None  # noqa: S101 - no other writer comes meanwhile
        return stored

    def _insert(
        self, drafts: list[tuple[Append, list[_Draft]]], database: sqlite3.Connection
    ) -> tuple[Stored, ...] | None:
        """Insert events and let projections take them; None if these are behind the log."""
        at = standing_of(database, list(dict.fromkeys(append.stream for append, _ in drafts)))
        if any(self._behind(at)):
            return None
        position, last, versions = at.position, at.last, at.versions
        types, clock = self._types, self._clock
        rows: list[tuple[Any, ...]] = []
        stored: list[Stored] = []
        for append, events in drafts:
            stream, actor = append.stream, without_secrets(append.actor, self._clean)
            version = versions[stream]
            if append.expected not in {None, version}:
                raise VersionConflict(stream, version, append.expected or 0)
            for name, schema, columns, payload, fields in events:
                position, version, now = position + 1, version + 1, clock()
                said = (position, stream, version, name, schema, now, *columns, payload, actor)
                last = hash_of(last, said)
                rows.append((*said, last))
                stored.append(
                    Stored(position, stream, version, name, schema, now, actor, fields, last, types)
                )
            versions[stream] = version
        database.executemany(_INSERT, rows)
        if stored and self._projections:
            for one in self._projections.values():
                one.take(database, stored)
            ends = [(position, name) for name in self._projections]
            database.executemany("UPDATE projections SET position = ? WHERE name = ?", ends)
        return tuple(stored)

    def _behind(self, at: Standing) -> Iterator[Projection]:
        """Yield the projections whose tables differ from the whole log."""
        for name, one in self._projections.items():
            if at.projections.get(name) != (one.version, at.position):
                yield one

    async def _catch_up(self, database: aiosqlite.Connection) -> None:
        """Bring the tables of projections to the end of the log; make those that are missing."""
        at = await in_its_thread(database, standing_of)
        for one in self._behind(at):
            version, position = at.projections.get(one.name, (0, 0))
            if version == one.version:
                pages = self._pages(database, position)
            else:
                await in_its_thread(database, one.make)
                pages = self._history(database)
            async for page in pages:
                await in_its_thread(database, partial(one.take, events=page))
            entry = (one.name, one.version, at.position)
            await database.execute("REPLACE INTO projections VALUES (?, ?, ?)", entry)

    # --- reading ----------------------------------------------------------------------------------

    async def read(
        self, *, after: int = 0, stream: str | None = None, until: int | None = None
    ) -> AsyncIterator[Stored]:
        """Yield events, oldest first; those that were archived are not among them.

        Args:
            after: Position to go on from; 0 for the beginning.
            stream: Of this stream alone; None for all.
            until: Position of the last one; None for the end of the log.
        """
        async for page in self._read(after, stream, until):
            for event in page:
                yield event

    async def _read(
        self, after: int, stream: str | None, until: int | None
    ) -> AsyncIterator[list[Stored]]:
        """Yield the pages of events; nothing is held between two of them."""
        while True:
            rows = await self._file.look(*page_query(after, stream, until))
            page = [Stored.of(row, self._types) for row in rows]
            yield page
            if len(page) < PAGE:
                return
            after = page[-1].position

    async def follow(self, *, after: int, stream: str | None = None) -> AsyncIterator[Stored]:
        """Yield events as they are appended, by whatever process; it never ends by itself.

        Args:
            after: Position to go on from, such as `end()`; 0 for the beginning.
            stream: Of this stream alone; None for all.
        """
        seen, woken = -1, True
        while True:
            appended = self._appended  # before the look: what comes after it wakes us
            changed = await self._changes()
            if woken or changed != seen:
                async for event in self.read(after=after, stream=stream):
                    after = event.position
                    yield event
            seen = changed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await appended.wait()
            woken = appended.is_set()

    async def end(self) -> int:
        """Return the position of the last event; 0 if there is none."""
        position, _ = await self._file.read(end_of)
        return position

    async def version(self, stream: str) -> int:
        """Return the version of a stream; 0 if it has no event."""
        rows = await self._file.rows(VERSION, (stream, stream))
        return int(rows[0]["version"] or 0)

    async def position_at(self, moment: float) -> int:
        """Return the position of the last event by a moment in Unix seconds; 0 if there is none."""
        query = "SELECT max(position) AS position FROM events WHERE timestamp <= ?"
        rows = await self._file.rows(query, (moment,))
        return int(rows[0]["position"] or 0)

    async def _changes(self) -> int:
        """Return a number that is another one when another process has changed the file."""
        rows = await self._file.rows("PRAGMA data_version")
        return int(rows[0]["data_version"])

    def _tell(self) -> None:
        self._appended.set()
        self._appended = asyncio.Event()

    async def _pages(
        self, database: aiosqlite.Connection, after: int
    ) -> AsyncIterator[list[Stored]]:
        while rows := await page_after(database, after):
            yield [Stored.of(row, self._types) for row in rows]
            after = rows[-1]["position"]

    # --- projections ------------------------------------------------------------------------------

    async def rows(self, projection: str) -> Rows:
        """Return the rows of a projection."""
        one = self._projections[projection]
        return await self._file.read(lambda database: in_its_thread(database, one.read))

    async def state(self, projection: str, *, until: int, stream: str | None = None) -> Rows:
        """Return the rows of a projection at a position, folded from the log.

        Args:
            projection: Its name.
            until: The position; `position_at` returns that of a moment.
            stream: Fold the events of this stream alone, which takes the time of its events.
        """
        one, rows = self._projections[projection], Rows()
        async for page in self._read(0, stream, until):
            rows = one.after(rows, page)
        return rows

    async def compare(self) -> list[Difference]:
        """Return the rows of projections that differ from the log; nothing is changed.

        Tables that are missing, not up to date or of another program are left out.
        """
        return await self._file.read(self._differences)

    async def rebuild(self) -> list[Difference]:
        """Rebuild the tables of projections, and return where they differed from the log."""

        async def work(database: aiosqlite.Connection) -> list[Difference]:
            found = await self._differences(database)
            end, _ = await end_of(database)
            for name, one in self._projections.items():
                folded = await self._folded(database, one)
                await in_its_thread(database, one.make)
                await in_its_thread(database, partial(one.write, before={}, after=folded))
                entry = (name, one.version, end)
                await database.execute("REPLACE INTO projections VALUES (?, ?, ?)", entry)
            return found

        return await self._file.change(work)

    async def _differences(self, database: aiosqlite.Connection) -> list[Difference]:
        found: list[Difference] = []
        behind = [*self._behind(await in_its_thread(database, standing_of))]
        for name, one in self._projections.items():
            if one in behind or not await in_its_thread(database, one.fits):
                continue
            stored = await in_its_thread(database, one.read)
            folded = await self._folded(database, one)
            found += [
                Difference(name, key, stored.get(key), folded.get(key))
                for key in sorted(stored.keys() | folded.keys())
                if stored.get(key) != folded.get(key)
            ]
        return found

    async def _folded(self, database: aiosqlite.Connection, one: Projection) -> Rows:
        rows = Rows()
        async for page in self._history(database):
            rows = one.after(rows, page)
        return rows

    async def _history(self, database: aiosqlite.Connection) -> AsyncIterator[list[Stored]]:
        """Yield all events that ever were, page by page, those that were archived too."""
        files, hashes = await archive.archives(database, self.archive)
        moved = archive.merged(files, {name: frozenset(kept) for name, kept in hashes.items()})
        waiting = next(moved, None)
        async for page in self._pages(database, 0):
            events: list[Stored] = []
            for event in page:
                while waiting is not None and waiting["position"] < event.position:
                    events.append(self._archived(waiting))
                    waiting = next(moved, None)
                events.append(event)
            yield events
        while waiting is not None:
            rest = [waiting, *itertools.islice(moved, PAGE)]
            yield [self._archived(row) for row in rest]
            waiting = next(moved, None)

    def _archived(self, row: Mapping[str, Any]) -> Stored:
        return Stored.of((row[name] for name in ROW), self._types)

    # --- integrity --------------------------------------------------------------------------------

    async def verify(self) -> int:
        """Check the chain of hashes from the first event to the last; return how many there are.

        Archives are checked too.

        Raises:
            LogTampered: An event was changed, removed or put elsewhere.
        ArchiveMissing: An archive is not there.
        """

        async def work(database: aiosqlite.Connection) -> int:
            events = await audited(database)
            archive.check_archives(*await archive.archives(database, self.archive))
            return events

        return await self._file.read(work)

    async def export(self, out: Callable[[str], object], *, stream: str | None = None) -> int:
        """Hand each event to `out` as a line of JSON with its chain; return how many there were.

        What was archived stands in the archives, in the same form.
        """

        async def work(database: aiosqlite.Connection) -> int:
            number = 0
            async for line in archive.lines(database, stream=stream):
                out(line)
                number += 1
            return number

        return await self._file.read(work)

    async def move(self, *, before: float, dry_run: bool = False) -> Archived:
        """Move streams that are over into an archive, and give their room on the disk back.

        This is the one operation that takes events out of a log. Killed at any moment, it leaves
        them in the log or in an archive that was checked, or in both.

        Args:
            before: Unix seconds; streams with an event since stay.
            dry_run: Only tell what would be moved.

        Raises:
            LedgerUnwritable: The archive cannot be written; nothing was taken out.
        """

        async def count(database: aiosqlite.Connection) -> Archived:
            size = "coalesce(sum(length(payload)), 0) AS size"
            wanted = f"count(DISTINCT stream) AS streams, count(*) AS events, {size}"
            query = f"SELECT {wanted} FROM events WHERE stream IN ({archive.OVER})"  # noqa: S608
            (found,) = await database.execute_fetchall(query, {"before": before})
            return Archived(file=None, **dict(found))

        told = await self._file.read(count)
        if dry_run or not told.events:
            return told
        file, hashes = await self._file.read(
            partial(archive.write, folder=self.archive, before=before)
        )
        if file is None:
            return told
        streams, events = await self._file.change(
            partial(archive.drop, file=file, hashes=hashes, before=before)
        )
        await self._file.vacuum()
        return Archived(file=file, streams=streams, events=events, size=told.size)
