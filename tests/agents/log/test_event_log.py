"""Appended events stay for ever, in their order, and once."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from otpy_agents.errors import (
    EventCorrupt,
    EventTooNew,
    InvalidEventType,
    LedgerCorrupt,
    LedgerTooNew,
    LedgerUnwritable,
    UnknownEvent,
    VersionConflict,
)
from otpy_agents.log import Append, EventLog, EventStore, event_type
from tests.agents.host import PATIENCE
from tests.agents.log.log_world import (
    TYPES,
    Noted,
    OldCompleted,
    OtherNoted,
    StepCompleted,
    completed,
    log_at,
    sql,
    started,
    to,
)

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the log."""
    return tmp_path / "events.sqlite3"


async def test_events_have_one_order_over_all_streams(path: Path) -> None:
    """Each event has a version in its own stream, too; both numbers go on in the next program."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), started("2")), to("b", started("3")))
        await log.append(to("a", completed("1")))
    async with log_at(path) as log:
        await log.append(to("b", completed("3")))
        told = [(one.position, one.stream, one.version) async for one in log.read()]
        assert told == [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, "a", 3), (5, "b", 2)]
        assert [one.event async for one in log.read(stream="b")] == [started("3"), completed("3")]
        assert [one.position async for one in log.read(after=2, until=4)] == [3, 4]
        assert (await log.end(), await log.version("a"), await log.version("c")) == (5, 3, 0)


async def test_an_append_that_came_too_late_appends_nothing(path: Path) -> None:
    """A writer that expects an outdated version of a stream gets an error of one line."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), expected=0))
        with pytest.raises(VersionConflict, match="stream 'a': got version 1, wanted 0"):
            await log.append(to("b", started("2")), to("a", started("3"), expected=0))
        await log.append(to("a", completed("1"), expected=1))
        assert await log.end() == 2


async def test_all_of_an_append_is_written_or_nothing(path: Path) -> None:
    """An append that fails halfway leaves the log and the projections as they were."""
    async with log_at(path) as log:
        await log.append(to("a", started("1")))
        with pytest.raises(InvalidEventType, match="what JSON can hold"):
            await log.append(to("a", started("2"), Noted(text="x", number=float("nan"))))
        with pytest.raises(InvalidEventType, match="one of a known type"):
            await log.append(to("a", started("2"), object()))
        assert (await log.end(), set(await log.rows("steps"))) == (1, {"1"})


async def test_a_cancelled_append_is_made_or_not_made(path: Path) -> None:
    """It is never half done: it runs to its end, and only then is its caller cancelled."""
    async with log_at(path) as log:
        for turns in range(12):
            task = asyncio.ensure_future(log.append(to("a", started("1"), completed("1"))))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await log.end() % 2 == 0
        assert await log.verify() == await log.end()
        assert await log.compare() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET payload = '{}' WHERE position = 1",
        "UPDATE events SET hash = x'00'",
        "DELETE FROM events WHERE position = 2",
        "DELETE FROM events",
        (
            "INSERT OR REPLACE INTO events SELECT position, stream, version, event_type, schema,"
            " timestamp, workflow_id, role, step_id, component, status, '{}', actor, hash"
            " FROM events"
        ),
        (
            "REPLACE INTO events SELECT 3, stream, version, event_type, schema, timestamp,"
            " workflow_id, role, step_id, component, status, '{}', actor, hash FROM events LIMIT 1"
        ),
        (
            "INSERT OR IGNORE INTO events SELECT 1, 'z', 1, event_type, schema, timestamp,"
            " workflow_id, role, step_id, component, status, '{}', actor, hash FROM events LIMIT 1"
        ),
        (
            "INSERT INTO events SELECT 9, 'z', 1, event_type, schema, timestamp, workflow_id, role,"
            " step_id, component, status, '{}', actor, hash FROM events LIMIT 1"
        ),
    ],
)
async def test_the_file_itself_refuses_to_be_altered(path: Path, statement: str) -> None:
    """It refuses any program, also one without this library (ENG-06)."""
    async with log_at(path) as log:
        await log.append(to("a", started("1"), completed("1")))
        before = sql(path, "SELECT * FROM events")
        with pytest.raises(sqlite3.IntegrityError, match="events are"):
            sql(path, statement)
        assert sql(path, "SELECT * FROM events") == before


async def test_the_table_of_events_answers_plain_sql(path: Path) -> None:
    """Its columns and values are a public contract, for any program that reads SQLite (ENG-09)."""
    async with log_at(path) as log:
        reviewed = StepCompleted(step_id="2", status="failed", role="reviewer", workflow_id="wf-1")
        await log.append(to("wf-1", started("1"), completed("1"), reviewed))
    executions = (
        "SELECT role, COUNT(*), SUM(CASE WHEN status = 'success' THEN 1 ELSE 0 END) FROM events"
        " WHERE event_type = 'step_completed' GROUP BY role ORDER BY role"
    )
    assert sql(path, executions) == [(None, 1, 1), ("reviewer", 1, 0)]
    of_workflow = "SELECT step_id, component, timestamp FROM events WHERE workflow_id = 'wf-1'"
    assert sql(path, f"{of_workflow} ORDER BY timestamp") == [("2", None, 1000.0)]
    assert sql(path, "SELECT status, events FROM steps WHERE id = '1'") == [("success", 2)]


async def test_events_of_old_forms_are_read_as_new_ones(path: Path) -> None:
    """Each version is upcast to the next; the file stays as it is (G-15)."""
    async with EventLog(path, types=[OldCompleted]) as log:
        await log.append(to("a", OldCompleted(step_id="1", status="success", file="f.py")))
    async with log_at(path) as log:
        (one,) = [one async for one in log.read()]
        assert one.event == StepCompleted(step_id="1", status="success", files=("f.py",))
        assert (one.schema, one.fields["file"]) == (1, "f.py")
        assert await log.verify() == 1


async def test_what_cannot_be_understood_can_still_be_read(path: Path) -> None:
    """An unknown type, a newer version and other fields raise one clear error each."""
    async with log_at(path) as log:
        await log.append(to("a", completed("1"), Noted(text="x")))
    async with EventLog(path, types=[OldCompleted]) as log:
        newer, unknown = [one async for one in log.read()]
        with pytest.raises(EventTooNew, match="got step_completed in version 3, wanted 1 or older"):
            _ = newer.event
        with pytest.raises(UnknownEvent, match="event 2: got the unknown type 'noted'"):
            _ = unknown.event
        assert unknown.fields == {"text": "x", "number": 0.0}
    async with EventLog(path, types=[OtherNoted]) as log:
        (_, other) = [one async for one in log.read()]
        with pytest.raises(EventCorrupt, match=r"event 2: .*wanted a sound noted"):
            _ = other.event


def test_types_that_could_not_be_read_back_are_refused() -> None:
    """Their definition raises the error."""
    with pytest.raises(InvalidEventType, match="got upcasters for \\[\\], wanted one for each"):
        event_type("x", version=2)
    with pytest.raises(InvalidEventType, match="wanted an attrs class"):
        event_type("x")(dict)
    with pytest.raises(InvalidEventType, match="wanted one with @event_type"):
        EventLog(Path("x"), types=[dict])
    with pytest.raises(InvalidEventType, match="got the name twice"):
        EventLog(Path("x"), types=[*TYPES, OtherNoted])


async def test_secrets_are_taken_out_before_anything_is_written(path: Path) -> None:
    """They are taken out of texts at any depth, and of the actor (G-04)."""
    async with log_at(path, clean=lambda text: text.replace("s3cret", "[KEY]")) as log:
        files = StepCompleted(step_id="1", status="success", files=("s3cret.py",))
        await log.append(Append("a", [files, Noted(text="a s3cret")], actor="me s3cret"))
        assert await log.verify() == 2
    assert b"s3cret" not in b"".join(each.read_bytes() for each in path.parent.iterdir())


async def test_a_follower_hears_of_every_event_in_order(path: Path) -> None:
    """Events of its own program and of another one come in order, and none comes twice."""
    heard: list[int] = []
    all_heard = asyncio.Event()

    async def listen(log: EventLog) -> None:
        async for one in log.follow(after=1):
            heard.append(one.position)
            if len(heard) == 30:
                all_heard.set()

    async with log_at(path) as log, log_at(path) as other:
        await log.append(to("a", started("0")))
        listeners = [asyncio.ensure_future(listen(log)) for _ in range(3)]
        for number in range(10):
            await (log if number % 2 else other).append(to("a", started(str(number))))
        async with asyncio.timeout(PATIENCE):
            await all_heard.wait()
        for each in listeners:
            each.cancel()
        await asyncio.wait(listeners)
    assert sorted(heard) == sorted([*range(2, 12)] * 3)


@pytest.mark.slow
async def test_several_programs_append_at_the_same_time(path: Path) -> None:
    """Positions and versions have no gaps, and the chain holds."""
    async with log_at(path):
        pass
    writer = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.agents.log.log_world import *\n"
        "async def main():\n"
        "    async with log_at(Path(sys.argv[1])) as log:\n"
        "        for n in range(40):\n"
        "            await log.append(to('a', started(f'{sys.argv[2]}-{n}')))\n"
        "asyncio.run(main())\n"
    )
    words = [sys.executable, "-c", writer, str(path)]
    programs = [await asyncio.create_subprocess_exec(*words, str(number)) for number in range(3)]
    assert [await one.wait() for one in programs] == [0, 0, 0]
    async with log_at(path) as log:
        assert await log.verify() == await log.version("a") == 120
        assert await log.compare() == []
        assert len(await log.rows("steps")) == 120


def tear(path: Path) -> None:
    """Cut a file to half its size."""
    os.truncate(path, path.stat().st_size // 2)


# --- files that cannot be used --------------------------------------------------------------------


async def test_a_file_that_is_torn_is_one_clear_error(path: Path) -> None:
    """Half of the file is missing."""
    async with log_at(path) as log:
        await log.append(*(to(f"s{n}", Noted(text="x" * 500)) for n in range(100)))
    tear(path)
    with pytest.raises((LedgerCorrupt, LedgerUnwritable), match="wanted"):
        async with log_at(path) as log:
            await log.verify()


async def test_the_log_of_a_newer_program_is_refused(path: Path) -> None:
    """The error names both schema versions."""
    async with log_at(path):
        pass
    sql(path, "PRAGMA user_version = 99")
    with pytest.raises(LedgerTooNew, match="got schema version 99, wanted 1 or older"):
        async with log_at(path):
            pass


async def test_a_full_disk_is_one_clear_error_and_loses_nothing(path: Path) -> None:
    """Acknowledged events stay; a refused event is not there."""
    async with log_at(path) as log:
        await log.append(to("a", started("1")))
        with closing(sqlite3.connect(path)) as other:
            pages = other.execute("PRAGMA page_count").fetchone()[0]
        assert log._file._database is not None
        await log._file._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerUnwritable, match="wanted a file that can be written"):
            await log.append(to("a", Noted(text="x" * 1_000_000)))
        await log._file._database.execute("PRAGMA max_page_count = 1000000")
        await log.append(to("a", completed("1")))
        assert await log.verify() == 2
        assert await log.compare() == []


async def test_a_log_that_another_program_locks_is_one_clear_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes after a bounded wait; later the log can be written again."""
    monkeypatch.setattr("otpy_agents.store.file.BUSY", 0.05)
    async with log_at(path) as log:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerUnwritable, match="a lock that another process holds"):
                await log.append(to("a", started("1")))
            other.execute("ROLLBACK")
        await log.append(to("a", started("1")))


async def test_a_log_that_cannot_be_written_can_be_read(path: Path) -> None:
    """A reader needs no write."""
    async with log_at(path) as log:
        await log.append(to("a", started("1")))
    lines: list[str] = []
    async with EventLog(path, types=TYPES) as log:
        await log.export(lines.append)
    assert json.loads(lines[0])["event_type"] == "step_started"


async def test_a_log_in_sqlite_is_an_event_store(path: Path) -> None:
    """A caller that knows only the protocol can append, read, and ask for the state."""
    async with log_at(path) as log:
        store: EventStore = log
        (first,) = await store.append(to("a", started("1")))
        assert [event async for event in store.read()] == [first]
        followed = store.follow(after=0)
        assert await anext(followed) == first
        assert (await store.end(), await store.version("a")) == (1, 1)
        assert await store.position_at(first.at) == 1
        assert await store.rows("steps") == await store.state("steps", until=1)
