"""Exports of an event log, and archives: streams that are over, moved into compressed files.

An export is lines of JSON, one for each event, each with its hash and the one before it, so that
`verified` can check it without the log. An archive is such a file, compressed. An event leaves the
log only when it stands in an archive that was read back and checked; its hash stays, so that the
chain of the rest still holds, and so does the name of the file, so that what events come to can
still be folded from all of them.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, final

import aiosqlite
from anyio import to_thread
from attrs import frozen

from otpy_agents.errors import ArchiveMissing, LedgerUnwritable, LogTampered
from otpy_agents.log.chain import FIRST, line_of, verified

__all__ = [
    "OVER",
    "Archived",
    "archived_rows",
    "archives",
    "check_archives",
    "drop",
    "lines",
    "merged",
    "write",
]

_PAGE: Final = 1000

_LINES: Final = """
SELECT events.*, coalesce(
    (SELECT hash FROM events AS earlier WHERE earlier.position = events.position - 1),
    (SELECT hash FROM archived WHERE archived.position = events.position - 1)
) AS previous FROM events WHERE position > :after {of} ORDER BY position LIMIT :page
"""
OVER: Final = "SELECT stream FROM events GROUP BY stream HAVING max(timestamp) < :before"


@final
@frozen(kw_only=True)
class Archived:
    """The events moved into an archive, or to be moved.

    Attributes:
        file: The archive; None if nothing was moved.
        streams: How many.
        events: How many.
        size: Bytes of their lines.
    """

    file: Path | None
    streams: int
    events: int
    size: int


async def lines(database: aiosqlite.Connection, *, stream: str | None = None) -> AsyncIterator[str]:
    """Yield events as lines, oldest first.

    Args:
        database: Of the log, in a transaction.
        stream: Of this stream alone; None for all.
    """
    async for page in _pages(database, stream=stream):
        for line in page:
            yield line


async def _pages(
    database: aiosqlite.Connection, *, stream: str | None = None, before: float | None = None
) -> AsyncIterator[list[str]]:
    of = "" if stream is None else "AND stream = :stream"
    of += "" if before is None else f" AND stream IN ({OVER})"
    values = {"after": 0, "stream": stream, "before": before, "page": _PAGE}
    while page := list(await database.execute_fetchall(_LINES.format(of=of), values)):
        yield [line_of(bytes(row["previous"] or FIRST), dict(row)) for row in page]
        values["after"] = page[-1]["position"]


async def write(
    database: aiosqlite.Connection, folder: Path, *, before: float
) -> tuple[Path | None, dict[int, bytes]]:
    """Write streams that are over into an archive, read it back and check it.

    Args:
        database: Of the log, in a transaction.
        folder: Of archives; made if it is not there.
        before: Unix seconds; streams with an event since stay.

    Returns:
        The file, and the hash of each event in it by its position; no file without events.

    Raises:
        LedgerUnwritable: It cannot be written, or not be read back.
    """
    draft = folder / f"draft-{os.getpid()}.jsonl.gz"
    try:
        with await to_thread.run_sync(_begun, draft) as file:
            with gzip.open(file, "wb") as out:
                async for page in _pages(database, before=before):
                    text = "".join(f"{line}\n" for line in page)
                    await to_thread.run_sync(out.write, text.encode())
            file.flush()
            await to_thread.run_sync(os.fsync, file.fileno())
        hashes = await to_thread.run_sync(_hashes, draft)
        if not hashes:
            return None, {}
        path = folder / f"events-{min(hashes)}-{max(hashes)}.jsonl.gz"
        await to_thread.run_sync(draft.replace, path)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LedgerUnwritable(folder, reason) from error
    finally:
        with contextlib.suppress(OSError):
            await to_thread.run_sync(partial(draft.unlink, missing_ok=True))
    return path, hashes


def _begun(draft: Path) -> BinaryIO:
    draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _hashes(file: Path) -> dict[int, bytes]:
    return {int(row["position"]): bytes(row["hash"]) for row in archived_rows(file)}


async def drop(
    database: aiosqlite.Connection, file: Path, hashes: Mapping[int, bytes], *, before: float
) -> tuple[int, int]:
    """Let events leave the log that stand in an archive; return how many streams and events.

    A stream to which somebody has appended since stays; what the archive has of it is a copy.
    """
    over = [row["stream"] for row in await database.execute_fetchall(OVER, {"before": before})]
    gone = 0
    for stream in over:
        query = "SELECT position, version, hash FROM events WHERE stream = ?"
        rows = list(await database.execute_fetchall(query, (stream,)))
        if any(hashes.get(row["position"]) != bytes(row["hash"]) for row in rows):
            continue
        await database.executemany(
            "INSERT INTO archived VALUES (?, ?, ?, ?, ?)",
            [(row["position"], stream, row["version"], row["hash"], file.name) for row in rows],
        )
        await database.execute("DELETE FROM events WHERE stream = ?", (stream,))
        gone += len(rows)
    return len(over), gone


def archived_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of an archive, each checked.

    Raises:
        ArchiveMissing: It is not there, or cannot be read.
        LogTampered: It was changed.
    """
    try:
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as found:
            yield from verified(found)
    except (OSError, EOFError, UnicodeError) as error:
        raise ArchiveMissing(file, str(error)) from error
    except ValueError as error:
        if isinstance(error, LogTampered):
            raise
        raise ArchiveMissing(file, str(error)) from error


def merged(files: Iterable[Path], events: Mapping[str, frozenset[int]]) -> Iterator[dict[str, Any]]:
    """Yield the events that left the log, in their order.

    Args:
        files: The archives.
        events: Which positions of each file left it, by its name: an archive may have copies too.
    """

    def of(file: Path) -> Iterator[dict[str, Any]]:
        return (row for row in archived_rows(file) if row["position"] in events[file.name])

    return heapq.merge(*map(of, files), key=lambda row: row["position"])


async def archives(
    database: aiosqlite.Connection, folder: Path
) -> tuple[list[Path], dict[str, dict[int, bytes]]]:
    """Return the archives that events of a log have left for, and their hashes by position."""
    found: dict[str, dict[int, bytes]] = {}
    query = "SELECT position, hash, file FROM archived ORDER BY position"
    for row in await database.execute_fetchall(query):
        found.setdefault(row["file"], {})[int(row["position"])] = bytes(row["hash"])
    return [folder / name for name in found], found


def check_archives(files: Iterable[Path], hashes: Mapping[str, Mapping[int, bytes]]) -> None:
    """Check that archives hold all events removed from the log.

    Raises:
        ArchiveMissing: One is not there, or cannot be read.
        LogTampered: One was changed.
    """
    for file in files:
        kept = _hashes(file)
        for position, wanted in hashes[file.name].items():
            if kept.get(position) != wanted:
                raise LogTampered(position, f"another event in {file}", "the one that was archived")
