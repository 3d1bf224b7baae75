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
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import aiosqlite
from attrs import frozen

from otpy_agents.clock import CLOCK
from otpy_agents.completion import OpenedWhole
from otpy_agents.errors import InvalidEventType, InvalidProjection, LogTampered, VersionConflict
from otpy_agents.log import archive
from otpy_agents.log.archive import Archived
from otpy_agents.log.chain import FIRST, Chain, canonical, hash_of
from otpy_agents.log.projection import Difference, Projection, Rows
from otpy_agents.log.stored import ROW, Stored
from otpy_agents.log.tables import LOG
from otpy_agents.log.types import COLUMNS, Catalogue
from otpy_agents.store.file import StoreFile

if TYPE_CHECKING:
    from otpy_agents.log.types import Plain

__all__ = ["Append", "EventLog"]

_PAGE: Final = 1000
_LOOK: Final = 0.25
"""Seconds between two looks for what other processes have appended: SQLite tells nobody."""

_HALVES: Final = re.compile("[\ud800-\udfff]")
"""What a program wrote that was no UTF-8: no file can hold it."""

_INSERT: Final = (
    f"INSERT INTO events ({', '.join(ROW)})"  # noqa: S608 - our own names
    f" VALUES ({', '.join('?' * len(ROW))})"
)
_LAST: Final = """
SELECT position, hash FROM events
UNION ALL SELECT position, hash FROM archived ORDER BY position DESC LIMIT 1
"""
_VERSION: Final = """
SELECT max(version) AS version FROM (
    SELECT max(version) AS version FROM events WHERE stream = ?
    UNION ALL SELECT max(version) FROM archived WHERE stream = ?)
"""
_STANDING: Final = f"""
SELECT 'event' AS what, NULL AS name, NULL AS version, position, hash FROM ({_LAST})
UNION ALL SELECT 'projection', name, version, position, NULL FROM projections
"""  # noqa: S608 - our own text
_Draft: TypeAlias = tuple[str, int, tuple[Any, ...], str, "Plain"]
"""What is known of an event before it is appended: its type, the version of that, the values of
`COLUMNS`, its payload; and its fields."""


@final
@frozen
class Append:
    """What is to be appended to one stream.

    Attributes:
        stream: Which; it begins with its first event.
        events: In their order, each of a type of the log's catalogue.
        expected: Version the stream must have, 0 for a new one; None if any will do.
        actor: Who does it; empty for the program itself.
    """

    stream: str
    events: Sequence[object]
    expected: int | None = None
    actor: str = ""


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
    ) -> None:
        self.path = path
        self.archive = path.with_suffix(".archive")
        self._types = Catalogue(types)
        self._projections = {one.name: one for one in projections}
        if len(self._projections) != len(projections):
            raise InvalidProjection(str(path), "two of one name", "one projection for each name")
        self._clean = clean
        self._clock = clock
        self._file = StoreFile(path, LOG)
        self._appended = asyncio.Event()

    async def _close(self) -> None:
        await self._file.close()

    async def _open(self) -> None:
        await self._file.open(look=not self._projections)
        if self._projections:

            async def work(database: aiosqlite.Connection) -> None:
                await self._catch_up(database, await _standing(database, ()))

            await self._file.change(work)

    # --- appending --------------------------------------------------------------------------------

    async def append(self, *appends: Append) -> tuple[Stored, ...]:
        """Append to one stream or several, all of it or nothing; return what was appended.

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
        cleaned: Plain = self._cleaned(fields)
        rest, columns = dict(cleaned), [None] * len(COLUMNS)
        for number, key in enumerate(COLUMNS):
            value = cleaned.get(key)
            if value is not None:
                columns[number] = rest.pop(key)
                if not isinstance(value, str):
                    raise InvalidEventType(name, f"{key} {value!r}", "text")
        try:
            payload = canonical(rest)
        except (TypeError, ValueError) as error:
            raise InvalidEventType(name, str(error), "what JSON can hold") from error
        return name, version, tuple(columns), payload, cleaned

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            text = self._clean(value)
            return text if text.isascii() else _HALVES.sub("\ufffd", text)
        if isinstance(value, list):
            return [self._cleaned(item) for item in cast("Iterable[Any]", value)]
        if isinstance(value, dict):
            entries = cast("Plain", value)
            return {self._cleaned(key): self._cleaned(item) for key, item in entries.items()}
        return value

    async def _write(
        self, database: aiosqlite.Connection, drafts: list[tuple[Append, list[_Draft]]]
    ) -> tuple[Stored, ...]:
        streams = list(dict.fromkeys(append.stream for append, _ in drafts))
        at = await _standing(database, streams)
        await self._catch_up(database, at)  # another program may know less than this one
        position, last, versions = at.position, at.last, at.versions
        types, clock = self._types, self._clock
        rows: list[tuple[Any, ...]] = []
        stored: list[Stored] = []
        for append, events in drafts:
            stream, actor = append.stream, self._cleaned(append.actor)
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
        await database.executemany(_INSERT, rows)
        await self._project(database, stored)
        return tuple(stored)

    async def _project(self, database: aiosqlite.Connection, events: Sequence[Stored]) -> None:
        """Let projections take what has just been appended."""
        if not events or not self._projections:
            return
        for one in self._projections.values():
            await one.take(database, events)
        await database.executemany(
            "UPDATE projections SET position = ? WHERE name = ?",
            [(events[-1].position, name) for name in self._projections],
        )

    async def _catch_up(self, database: aiosqlite.Connection, at: _Standing) -> None:
        """Bring the tables of projections to the end of the log; make those that are missing."""
        for name, one in self._projections.items():
            version, position = at.projections.get(name, (0, 0))
            if version == one.version and position == at.position:
                continue
            if version == one.version:
                pages = self._pages(database, position)
            else:
                await one.make(database)
                pages = self._history(database)
            async for page in pages:
                await one.take(database, page)
            entry = (name, one.version, at.position)
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
            rows = await self._file.look(*_page_query(after, stream, until))
            page = [Stored.of(row, self._types) for row in rows]
            yield page
            if len(page) < _PAGE:
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
        position, _ = await self._file.read(_end)
        return position

    async def version(self, stream: str) -> int:
        """Return the version of a stream; 0 if it has no event."""
        rows = await self._file.rows(_VERSION, (stream, stream))
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
        while rows := await _page(database, after):
            yield [Stored.of(row, self._types) for row in rows]
            after = rows[-1]["position"]

    # --- projections ------------------------------------------------------------------------------

    async def rows(self, projection: str) -> Rows:
        """Return what a projection has come to."""
        return await self._file.read(self._projections[projection].read)

    async def state(self, projection: str, *, until: int, stream: str | None = None) -> Rows:
        """Return what a projection had come to at a position, folded from the log.

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
        """Return where the tables of projections are not what the log says; nothing is changed."""
        return await self._file.read(self._differences)

    async def rebuild(self) -> list[Difference]:
        """Make the tables of projections anew, and return where they were not what the log says."""

        async def work(database: aiosqlite.Connection) -> list[Difference]:
            found = await self._differences(database)
            end, _ = await _end(database)
            for name, one in self._projections.items():
                folded = await self._folded(database, one)
                await one.make(database)
                await one.write(database, {}, folded)
                entry = (name, one.version, end)
                await database.execute("REPLACE INTO projections VALUES (?, ?, ?)", entry)
            return found

        return await self._file.change(work)

    async def _differences(self, database: aiosqlite.Connection) -> list[Difference]:
        found: list[Difference] = []
        for name, one in self._projections.items():
            stored, folded = await one.read(database), await self._folded(database, one)
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
            rest = [waiting, *itertools.islice(moved, _PAGE)]
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
            events = await _verify(database)
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


@final
@frozen
class _Standing:
    """How far a log has come.

    Attributes:
        position: Of the last event.
        last: Its hash.
        versions: Of the streams that were asked for.
        projections: Version and position of each table.
    """

    position: int
    last: bytes
    versions: dict[str, int]
    projections: dict[str, tuple[int, int]]


async def _standing(database: aiosqlite.Connection, streams: Sequence[str]) -> _Standing:
    """Look how far a log has come, in one question: each takes a turn of a thread."""
    of_streams = f"UNION ALL SELECT 'stream', ?, ({_VERSION}), NULL, NULL " * len(streams)
    values = [stream for stream in streams for _ in range(3)]
    position, last = 0, FIRST
    versions = dict.fromkeys(streams, 0)
    projections: dict[str, tuple[int, int]] = {}
    for row in await database.execute_fetchall(f"{_STANDING}{of_streams}", values):
        match row["what"]:
            case "event":
                position, last = int(row["position"]), bytes(row["hash"])
            case "stream":
                versions[row["name"]] = row["version"] or 0
            case _:
                projections[row["name"]] = row["version"], row["position"]
    return _Standing(position, last, versions, projections)


async def _end(database: aiosqlite.Connection) -> tuple[int, bytes]:
    """Return position and hash of the last event."""
    for row in await database.execute_fetchall(_LAST):
        return int(row["position"]), bytes(row["hash"])
    return 0, FIRST


def _page_query(
    after: int, stream: str | None = None, until: int | None = None
) -> tuple[str, list[object]]:
    """Return the query for a page of events, and its values."""
    of = "" if stream is None else " AND stream = ?"
    to = "" if until is None else " AND position <= ?"
    what = f"{', '.join(ROW)} FROM events WHERE position > ?{of}{to}"
    given: list[object] = [after, *(one for one in (stream, until) if one is not None)]
    return f"SELECT {what} ORDER BY position LIMIT {_PAGE}", given


async def _page(database: aiosqlite.Connection, after: int) -> list[sqlite3.Row]:
    return list(await database.execute_fetchall(*_page_query(after)))


async def _verify(database: aiosqlite.Connection) -> int:
    chain = Chain()
    while page := await _page(database, chain.position):
        await _take(database, chain, page[-1]["position"], list(map(dict, page)))
    await _take(database, chain, None, [])
    found = await database.execute_fetchall("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
    ever = next((int(row["seq"]) for row in found), 0)
    if ever != chain.position:
        raise LogTampered(chain.position + 1, "the end of the log", f"events up to {ever}")
    return ever


async def _take(
    database: aiosqlite.Connection,
    chain: Chain,
    until: int | None,
    page: Sequence[Mapping[str, Any]],
) -> None:
    """Let the chain take a page of events, and what was archived in between or behind."""
    query = "SELECT position, hash FROM archived WHERE position > ? AND position <= ?"
    last = 2**62 if until is None else until
    gaps = await database.execute_fetchall(query, (chain.position, last))
    archived = {int(row["position"]): bytes(row["hash"]) for row in gaps}
    kept = {int(row["position"]): row for row in page}
    for position in sorted({*archived, *kept}):
        if position in kept:
            chain.take(kept[position])
        else:
            chain.skip(position, archived[position])
