"""What the event log costs beside SQLite by hand: `python -m benchmarks.events`.

By hand is a program that writes the same rows into the same table, whose triggers refuse what is no
append, and keeps versions, the chain of hashes and one table of states; for its one kind of event,
and without types, redaction, errors with names and a look whether the file is still there. "Bare"
is that program with a table of eight columns that refuses nothing. Each line is the median of
interleaved runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import aiosqlite
import click
from attrs import frozen

from otpy_agents.log import Append, EventLog, Projection, event_type
from otpy_agents.log.tables import LOG

TEXT: Final = "x" * 200


@event_type("measured")
@frozen(kw_only=True)
class Measured:
    """An event of about the usual size."""

    step_id: str
    text: str


LAST: Final = Projection(
    name="steps",
    columns={"events": "INTEGER"},
    key=lambda event: event.fields["step_id"],
    fold=lambda row, _: {"events": 1 if row is None else row["events"] + 1},
)

_STEPS: Final = "CREATE TABLE steps (id TEXT PRIMARY KEY, events INTEGER) WITHOUT ROWID"
_BARE: Final = (
    """CREATE TABLE events (
        position INTEGER PRIMARY KEY, stream TEXT NOT NULL, version INTEGER NOT NULL,
        event_type TEXT NOT NULL, timestamp REAL NOT NULL, step_id TEXT, payload TEXT NOT NULL,
        hash BLOB NOT NULL, UNIQUE (stream, version))""",
    "CREATE INDEX by_step ON events (step_id)",
    "CREATE INDEX by_time ON events (timestamp)",
    _STEPS,
)
_SAME: Final = (*LOG.tables.split(";\n"), _STEPS)
_STANDING: Final = (
    "SELECT (SELECT position FROM events ORDER BY position DESC LIMIT 1),"
    " (SELECT hash FROM events ORDER BY position DESC LIMIT 1),"
    " (SELECT max(version) FROM events WHERE stream = ?)"
)
_INTO_BARE: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_INTO_SAME: Final = (
    "INSERT INTO events (position, stream, version, event_type, timestamp, step_id, payload, hash,"
    " schema, actor) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, '')"
)
_COUNT: Final = """
INSERT INTO steps VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET events = events + excluded.events
"""


class ByHand:
    """aiosqlite, a table with a chain of hashes, a table of states, a commit."""

    def __init__(self, database: aiosqlite.Connection, insert: str) -> None:
        """Write into `database`, each event by `insert`."""
        self._database = database
        self._insert = insert

    async def append(self, stream: str, count: int) -> None:
        """Append events in one transaction."""
        await self._database.execute("BEGIN IMMEDIATE")
        (found,) = await self._database.execute_fetchall(_STANDING, (stream,))
        position, last, version = found[0] or 0, found[1] or bytes(32), found[2] or 0
        rows: list[tuple[object, ...]] = []
        for number in range(1, count + 1):
            payload = json.dumps({"text": TEXT})
            row = (position + number, stream, version + number, "measured", time.time(), stream)
            last = hashlib.sha256(last + json.dumps([*row, payload]).encode()).digest()
            rows.append((*row, payload, last))
        await self._database.executemany(self._insert, rows)
        await self._database.execute(_COUNT, (stream, count))
        await self._database.execute("COMMIT")

    async def read(self, after: int) -> int:
        """Read what is behind a position; return the last one."""
        query = "SELECT * FROM events WHERE position > ? ORDER BY position"
        for row in await self._database.execute_fetchall(query, (after,)):
            after = row["position"]
            json.loads(row["payload"])
        return after

    async def of(self, stream: str) -> int:
        """Fold one stream by hand."""
        query = "SELECT * FROM events WHERE stream = ? ORDER BY version"
        steps: dict[str, dict[str, int]] = {}
        for row in await self._database.execute_fetchall(query, (stream,)):
            json.loads(row["payload"])
            before = steps.get(row["step_id"])
            steps[row["step_id"]] = {"events": 1 if before is None else before["events"] + 1}
        return steps[stream]["events"]


@contextlib.asynccontextmanager
async def by_hand(
    path: Path, tables: tuple[str, ...] = _SAME, insert: str = _INTO_SAME
) -> AsyncGenerator[ByHand]:
    """Open a table by hand."""
    database = await aiosqlite.connect(path, isolation_level=None)
    database.row_factory = sqlite3.Row
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *tables):
        await database.execute(statement)
    try:
        yield ByHand(database, insert)
    finally:
        await database.close()


class Logged:
    """The same through the event log."""

    def __init__(self, log: EventLog) -> None:
        """Write into `log`."""
        self.log = log

    async def append(self, stream: str, count: int) -> None:
        """Append events in one transaction."""
        event = Measured(step_id=stream, text=TEXT)
        await self.log.append(Append(stream, [event] * count))

    async def read(self, after: int) -> int:
        """Read what is behind a position; return the last one."""
        async for event in self.log.read(after=after):
            after = event.position
        return after

    async def of(self, stream: str) -> int:
        """Return what one stream has come to."""
        rows = await self.log.state("steps", until=2**62, stream=stream)
        return int(rows[stream]["events"])


@contextlib.asynccontextmanager
async def logged(path: Path, *projections: Projection) -> AsyncGenerator[Logged]:
    """Open an event log."""
    async with EventLog(path, types=[Measured], projections=projections) as log:
        yield Logged(log)


Subject = ByHand | Logged


async def measured(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Return microseconds for each of so many."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) / times * 1e6


async def one_by_one(subject: Subject) -> float:
    """Append 300 events, each on the disk before the next."""

    async def work() -> None:
        for number in range(300):
            await subject.append(f"s{number % 10}", 1)

    return await measured(work, 300)


async def in_batches(subject: Subject) -> float:
    """Append 20,000 events, 1000 in a transaction."""

    async def work() -> None:
        for number in range(20):
            await subject.append(f"s{number % 10}", 1000)

    return await measured(work, 20_000)


async def ten_readers(subject: Subject) -> float:
    """Let ten readers read 5000 events, each all of them."""
    await subject.append("read", 5000)

    async def work() -> None:
        await asyncio.gather(*(subject.read(0) for _ in range(10)))

    return await measured(work, 50_000)


async def one_stream(subject: Subject) -> float:
    """Fold one stream of a hundred events, a hundred times."""
    await subject.append("one", 100)

    async def work() -> None:
        for _ in range(100):
            await subject.of("one")

    return await measured(work, 100)


def bare(path: Path) -> contextlib.AbstractAsyncContextManager[ByHand]:
    """Open a table that refuses nothing, by hand."""
    return by_hand(path, _BARE, _INTO_BARE)


def figures(runs: int) -> Iterator[tuple[str, list[float]]]:
    """Yield what is measured: bare, by hand and by the log."""
    workloads = {
        "append, one by one": one_by_one,
        "append, in batches of 1000": in_batches,
        "read by ten at once, per event": ten_readers,
        "what one stream of 100 has come to": one_stream,
    }
    for title, workload in workloads.items():
        opens = (bare, by_hand, _projected)
        found: list[list[float]] = [[] for _ in opens]
        for run in range(runs):
            for number in range(len(opens)):
                which = (run + number) % len(opens)
                found[which].append(asyncio.run(_measure(opens[which], workload)))
        yield title, list(map(median, found))


def _projected(path: Path) -> contextlib.AbstractAsyncContextManager[Logged]:
    return logged(path, LAST)


async def _measure(
    opened: Callable[[Path], contextlib.AbstractAsyncContextManager[Subject]],
    workload: Callable[[Subject], Awaitable[float]],
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder, "events.sqlite3")) as subject:
            return await workload(subject)


async def growth(sizes: tuple[int, ...]) -> list[tuple[int, float, float, float]]:
    """Return for logs of some sizes: milliseconds to open, of a stream's state, and megabytes."""
    found: list[tuple[int, float, float, float]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "events.sqlite3")
            async with logged(path, LAST) as subject:
                for number in range(size // 1000):
                    await subject.append(f"s{number % 997}", 1000)
                await subject.append("one", 100)

            async def open_and_close(path: Path = path) -> None:
                async with logged(path, LAST):
                    pass

            opening = await measured(open_and_close, 1)
            async with logged(path, LAST) as subject:

                async def state(subject: Logged = subject) -> None:
                    await subject.of("one")

                stream = await measured(state, 1)
            found.append((size, opening / 1000, stream / 1000, _megabytes(path)))
    return found


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--runs", default=5, show_default=True, help="Times that each is measured.")
@click.option("--million", is_flag=True, help="Also open a log of a million events.")
def main(*, runs: int, million: bool) -> None:
    """Measure the event log beside SQLite by hand, and print how many times as much it takes."""
    click.echo(f"{'µs':42}{'bare':>10}{'by hand':>10}{'log':>10}{'ratio':>8}")
    for title, (least, hand, log) in figures(runs):
        click.echo(f"{title:42}{least:10.1f}{hand:10.1f}{log:10.1f}{log / hand:8.2f}")
    sizes = (10_000, 1_000_000) if million else (1_000, 10_000)
    click.echo(f"\n{'events in the log':42}{'open, ms':>10}{'state, ms':>10}{'MB':>8}")
    for size, opening, stream, megabytes in asyncio.run(growth(sizes)):
        click.echo(f"{size:<42,}{opening:10.1f}{stream:10.1f}{megabytes:8.1f}")


if __name__ == "__main__":
    main()
