"""Told events are in the log soon; no caller waits for that, and no caller fails because of it."""

from __future__ import annotations

import asyncio
import math
import sys
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from otpy_agents.log import EventLog, Stored, Teller, users_log
from otpy_agents.log import teller as teller_module
from tests.agents.log.log_world import sql

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the log; its folder does not exist yet."""
    return tmp_path / "state" / "otpy" / "events.sqlite3"


async def told(path: Path) -> list[Stored]:
    """Return the events of the log."""
    async with EventLog(path) as log:
        return [event async for event in log.read()]


async def test_what_is_told_is_in_the_log_in_order(path: Path) -> None:
    """The first is there while the teller runs, all of them are at its end, and the chain holds."""
    async with Teller(path, clean=lambda text: text.replace("hunter2", "[X]")) as teller:
        teller.tell("run/a", "run.began", {"workflow_id": "a", "text": "hunter2"})
        await asyncio.sleep(0.2)
        assert len(await told(path)) == 1
        for number in range(3000):
            teller.tell("list/b", "counted", {"number": number})
    first, *rest = await told(path)
    assert (first.stream, first.name, first.fields) == (
        "run/a",
        "run.began",
        {"workflow_id": "a", "text": "[X]"},
    )
    assert [event.fields["number"] for event in rest] == list(range(3000))
    async with users_log(path) as log:
        assert await log.verify() == 3001


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (math.inf, "inf"),
        (math.nan, "nan"),
        (Path("/tmp"), "/tmp"),
        ("x" * 9999, "x" * 4000),
        ({1: (True, None)}, {"1": [True, None]}),
        ("half \ud83d", "half \ufffd"),
    ],
)
async def test_whatever_is_told_can_be_written(path: Path, value: object, kept: object) -> None:
    """One strange event would otherwise keep back all others."""
    async with Teller(path) as teller:
        teller.tell("s", "strange", {"value": value, "status": 7})
    (event,) = await told(path)
    assert event.fields == {"value": kept, "status": "7"}


async def test_a_log_that_cannot_be_written_is_one_line_and_the_rest_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are in the log once it can be written."""
    monkeypatch.setattr(teller_module, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(teller_module, "_LAST_DELAY", 0.01)
    lines: list[str] = []
    path.parent.parent.mkdir()
    path.parent.write_text("a file where the folder is to be")
    async with Teller(path, complain=lines.append) as teller:
        for number in range(10):
            teller.tell("s", "counted", {"number": number})
            await asyncio.sleep(0.02)
        (line,) = lines
        assert str(path) in line
        path.parent.unlink()
    assert [event.fields["number"] for event in await told(path)] == list(range(10))
    assert len(lines) == 1


async def test_what_cannot_be_written_when_the_block_is_left_is_tried_once_more(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of an earlier write says nothing about now."""
    begun = asyncio.Event()
    really = Teller._write

    async def cut(teller: Teller) -> bool:
        if begun.is_set():
            return await really(teller)
        begun.set()
        await teller._leaving.wait()
        return False

    monkeypatch.setattr(Teller, "_write", cut)
    async with Teller(path) as teller:
        teller.tell("s", "counted", {"number": 1})
        await begun.wait()
    assert [event.fields["number"] for event in await told(path)] == [1]


@pytest.mark.parametrize("spoil", ["PRAGMA user_version = 99", "PRAGMA application_id = 7"])
async def test_leaving_ends_though_the_log_is_not_ours(path: Path, spoil: str) -> None:
    """The block raises nothing, and the file is left as it is."""
    async with users_log(path):
        pass
    sql(path, spoil)
    lines: list[str] = []
    async with Teller(path, complain=lines.append) as teller:
        teller.tell("s", "lost", {})
    assert len(lines) == 1
    assert sql(path, "SELECT count(*) FROM events") == [(0,)]


async def test_the_oldest_are_let_go_when_nothing_can_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk thus does not fill the memory, too."""
    monkeypatch.setattr(teller_module, "_OWED", 5)
    path.parent.parent.mkdir()
    path.parent.write_text("")
    async with Teller(path) as teller:
        for number in range(8):
            teller.tell("s", "counted", {"number": number})
        await asyncio.sleep(0.1)
        for number in range(8, 12):
            teller.tell("s", "counted", {"number": number})
        path.parent.unlink()
    assert [event.fields["number"] for event in await told(path)] == [7, 8, 9, 10, 11]


async def test_two_programs_tell_at_the_same_time(path: Path) -> None:
    """All events are in one order, and those of each program in their own."""

    async def work(name: str) -> None:
        async with Teller(path) as teller:
            for number in range(50):
                teller.tell(name, "counted", {"number": number})
                await asyncio.sleep(0.001)

    await asyncio.gather(work("a"), work("b"))
    events: dict[str, list[Any]] = {"a": [], "b": []}
    for event in await told(path):
        events[event.stream].append(event.fields["number"])
    assert events == {"a": list(range(50)), "b": list(range(50))}


_HOLD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


async def test_a_lock_holds_up_whoever_leaves_for_one_wait_only(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program with an endless write must not keep a host from its end."""
    async with Teller(path) as teller:
        teller.tell("list/b", "counted", {"number": 0})
    waits = list[float]()
    monkeypatch.setattr("otpy_agents.store.file.BUSY", 0.05)
    connect = aiosqlite.connect

    def counted(*args: Any, **options: Any) -> Any:
        waits.append(options.get("timeout", 0.0))
        return connect(*args, **options)

    monkeypatch.setattr("aiosqlite.connect", counted)
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _HOLD, str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    lines = list[str]()
    try:
        assert holder.stdout is not None
        await holder.stdout.readline()
        async with Teller(path, complain=lines.append) as teller:
            teller.tell("list/b", "counted", {"number": 1})
        assert waits == [0.05]
    finally:
        holder.kill()
        await holder.communicate()
    assert len(lines) == 1
    assert "a lock that another process holds" in lines[0]
    assert [event.fields["number"] for event in await told(path)] == [0]
