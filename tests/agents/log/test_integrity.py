"""A changed, removed or moved event is found; events that left the log can be checked, too."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otpy_agents.errors import ArchiveMissing, LedgerUnwritable, LogTampered
from otpy_agents.log import EventLog, verified
from otpy_agents.log.chain import FIRST, HASHED, Chain, hash_of, line_of
from tests.agents.log.log_world import Noted, completed, log_at, sql, started, to

pytestmark = pytest.mark.real_time

TRIGGERS = ("events_never_change", "events_stay", "events_come_last", "versions_come_last")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the log."""
    return tmp_path / "events.sqlite3"


async def fill(path: Path) -> None:
    """Write five events in two streams."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), started("2")), to("b", started("3")))
        await log.append(to("a", completed("1")), to("b", completed("3")))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        (["UPDATE events SET payload = '{}' WHERE position = 2"], 2),
        (["UPDATE events SET actor = 'nobody' WHERE position = 3"], 3),
        (["UPDATE events SET timestamp = timestamp - 1 WHERE position = 1"], 1),
        (["UPDATE events SET step_id = NULL WHERE position = 5"], 5),
        (["UPDATE events SET hash = x'00' WHERE position = 5"], 5),
        (["DELETE FROM events WHERE position = 3"], 4),
        (["DELETE FROM events WHERE position = 1"], 2),
        (["DELETE FROM events WHERE position = 5"], 5),
        (["DELETE FROM events"], 1),
        (
            [
                "UPDATE events SET position = 99 WHERE position = 2",
                "UPDATE events SET position = 2 WHERE position = 4",
                "UPDATE events SET position = 4 WHERE position = 99",
            ],
            2,
        ),
        (
            [
                "UPDATE events SET stream = 'x' WHERE position = 1",
                "UPDATE events SET position = 6 WHERE position = 5",
            ],
            1,
        ),
    ],
)
async def test_verify_names_the_first_event_that_does_not_fit(
    path: Path, changes: list[str], where: int
) -> None:
    """The forger drops the triggers first (G-14)."""
    await fill(path)
    sql(path, *(f"DROP TRIGGER {name}" for name in TRIGGERS), *changes)
    async with EventLog(path) as log:
        with pytest.raises(LogTampered, match=f"^event {where}: ") as told:
            await log.verify()
    assert told.value.position == where


async def test_a_log_that_nobody_touched_is_whole(path: Path) -> None:
    """So is an empty log, and one that goes on after it was closed."""
    async with log_at(path) as log:
        assert await log.verify() == 0
    await fill(path)
    await fill(path)
    async with log_at(path) as log:
        assert await log.verify() == 10


async def test_an_export_can_be_checked_without_the_log(path: Path) -> None:
    """A line that was changed, or moved, is found; lines of one stream alone are checked too."""
    await fill(path)
    lines: list[str] = []
    of_a: list[str] = []
    async with log_at(path) as log:
        assert await log.export(lines.append) == 5
        assert await log.export(of_a.append, stream="a") == 3
    assert [row["position"] for row in verified(lines)] == [1, 2, 3, 4, 5]
    assert [row["position"] for row in verified(of_a)] == [1, 2, 4]
    assert json.loads(lines[1])["payload"] == {"role": None, "task": "work"}
    with pytest.raises(LogTampered, match="event 2"):
        list(verified([lines[0], lines[1].replace('"work"', '"play"'), *lines[2:]]))
    with pytest.raises(LogTampered, match="events in their order"):
        list(verified([lines[1], lines[0]]))
    with pytest.raises(LogTampered, match="the one it was written after"):
        forged = {**dict(next(verified(lines[:1]))), "actor": "x"}
        forged["hash"] = hash_of(FIRST, [forged[name] for name in HASHED])
        list(verified([line_of(FIRST, forged), *lines[1:]]))
    with pytest.raises(ValueError, match="wanted an event with its chain"):
        list(verified(['{"position": 1}']))


# --- archives -------------------------------------------------------------------------------------


async def test_streams_that_are_over_move_into_an_archive(path: Path) -> None:
    """The chain holds, and the tables stay; a stream with newer events stays in the log."""
    now = 100.0
    async with log_at(path, clock=lambda: now) as log:
        await log.append(to("old", started("1")), to("b", started("2")), to("old", completed("1")))
        now = 200.0
        await log.append(to("b", completed("2")))
        rows = await log.rows("steps")
        told = await log.move(before=150.0, dry_run=True)
        assert (told.file, told.streams, told.events) == (None, 1, 2)
        moved = await log.move(before=150.0)
        assert moved.file == path.with_suffix(".archive") / "events-1-3.jsonl.gz"
        assert (moved.streams, moved.events) == (1, 2)
        assert [one.position async for one in log.read()] == [2, 4]
        assert await log.verify() == 4
        assert await log.compare() == []
        assert await log.rows("steps") == rows
        assert (await log.end(), await log.version("old")) == (4, 2)
        assert (await log.move(before=150.0)).file is None
        await log.append(to("old", started("3")))
        assert await log.version("old") == 3
        assert await log.verify() == 5
        assert await log.rebuild() == []
    assert moved.file is not None
    with gzip.open(moved.file, "rt", encoding="utf-8") as lines:
        assert [row["position"] for row in verified(lines)] == [1, 3]


async def test_an_archive_that_is_gone_or_changed_is_found(path: Path) -> None:
    """The error names the event or the file; the log itself stays whole."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), completed("1")))
        moved = await log.move(before=2000.0)
        assert moved.file is not None
        text = gzip.decompress(moved.file.read_bytes()).decode()
        moved.file.write_bytes(gzip.compress(text.replace("success", "failure").encode()))
        with pytest.raises(LogTampered, match="event 2"):
            await log.verify()
        moved.file.write_bytes(gzip.compress(text.encode())[:-20])
        with pytest.raises(ArchiveMissing, match="wanted the events that left the log"):
            await log.verify()
        moved.file.unlink()
        with pytest.raises(ArchiveMissing, match="No such file"):
            await log.rebuild()
        moved.file.write_bytes(gzip.compress(text.encode()))
        assert await log.verify() == 2


async def test_an_archive_that_cannot_be_written_takes_nothing_away(path: Path) -> None:
    """Its folder may be a file, or the disk may be full."""
    async with log_at(path) as log:
        await log.append(to("a", started("1")))
        path.with_suffix(".archive").touch()
        with pytest.raises(LedgerUnwritable, match=r"events\.archive"):
            await log.move(before=2000.0)
        assert [one.position async for one in log.read()] == [1]


async def test_a_stream_that_is_written_to_meanwhile_stays(path: Path) -> None:
    """An append between archive and drop keeps the stream in the log."""
    async with log_at(path) as log:
        await log.append(to("a", started("1")), to("b", started("2")))
        change = log._file.change

        async def late(work: object) -> object:
            log._file.change = change  # type: ignore[method-assign]
            async with log_at(path) as other:
                await other.append(to("a", completed("1")))
            return await change(work)  # type: ignore[arg-type]

        log._file.change = late  # type: ignore[method-assign, assignment]
        await log.move(before=2000.0)
        assert [one.position async for one in log.read()] == [1, 3]
        assert await log.verify() == 3
        assert await log.compare() == []


async def test_events_that_are_archived_cannot_come_back(path: Path) -> None:
    """The record of them cannot be changed, either."""
    async with log_at(path) as log:
        await log.append(to("a", started("1")))
        await log.move(before=2000.0)
    with closing(sqlite3.connect(path)) as database:
        for statement in (
            "DELETE FROM archived",
            "UPDATE archived SET hash = x'00'",
            (
                "INSERT INTO events VALUES (1, 'a', 1, 'x', 1, 1, NULL, NULL, NULL, NULL, NULL,"
                " '{}', '', x'00')"
            ),
        ):
            with pytest.raises(sqlite3.IntegrityError):
                database.execute(statement)


# --- the chain itself -----------------------------------------------------------------------------

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "stream": st.text(max_size=3),
            "payload": st.sampled_from(['{"a":1}', '{"a":2}', "{}"]),
            "actor": st.text(max_size=3),
        }
    ),
    min_size=1,
    max_size=8,
)


@given(ROWS, st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_single_change_breaks_a_chain(rows: list[dict[str, str]], data: st.DataObject) -> None:
    """Any value of any event may change, or an event may be missing."""
    last = FIRST
    chained: list[dict[str, Any]] = []
    lines: list[str] = []
    for position, row in enumerate(rows, 1):
        whole = dict[str, Any](dict.fromkeys(HASHED)) | row
        whole |= {"position": position, "timestamp": 0.5}
        chained.append(whole | {"hash": hash_of(last, [whole[name] for name in HASHED])})
        lines.append(line_of(last, chained[-1]))
        last = chained[-1]["hash"]
    assert follow(chained) == len(rows)
    assert [row["position"] for row in verified(lines)] == list(range(1, len(rows) + 1))
    at = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(HASHED))
    changed = [*chained[:at], chained[at] | {name: 99}, *chained[at + 1 :]]
    with pytest.raises(LogTampered):
        follow(changed)
    if at + 1 < len(rows):
        with pytest.raises(LogTampered):
            follow([*chained[:at], *chained[at + 1 :]])


def follow(rows: list[dict[str, Any]]) -> int:
    """Follow a chain to its end; return the last position."""
    chain = Chain()
    for row in rows:
        chain.take(row)
    return chain.position


async def test_a_note_of_any_text_is_whole(path: Path) -> None:
    """Its text may need escapes in JSON; text that is not UTF-8 is shown as U+FFFD."""
    texts = ["\ud800x", "\u2028", '"\\', "\x00", "é𝄞", ""]
    async with log_at(path) as log:
        for text in texts:
            await log.append(to("a", Noted(text=text)))
        assert await log.verify() == len(texts)
        assert [one.fields["text"] async for one in log.read()] == ["\ufffdx", *texts[1:]]


_VALUE = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.lists(_VALUE | st.characters(categories=["Cs", "Cc"]), max_size=13), st.binary())
def test_what_is_hashed_is_the_json_list_of_what_an_event_says(
    values: list[object], previous: bytes
) -> None:
    """Any program can thus compute the hash, without this library."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    said = previous + text.encode("utf-8", "surrogatepass")
    assert hash_of(previous, values) == sha256(said).digest()
