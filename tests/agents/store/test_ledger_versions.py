"""Ledgers that an earlier version wrote are brought up to date, and lose nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.store import schema
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import AgentRow, MoveRow, State

pytestmark = pytest.mark.real_time

MOVE = MoveRow(assignment="a", source="working", happening="crash", target="failed", why="no")
TEN = 1795428000.0  # 2026-11-23, ten o'clock


def write(path: Path, version: int, *rows: tuple[str, Iterable[tuple[Any, ...]]]) -> None:
    """Make the file that this version would have made, with these rows."""
    steps = [schema.LEDGER.upgrades[older] for older in range(1, version)]
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("".join([schema._TABLES, *steps]))
        database.execute(f"PRAGMA application_id = {schema.LEDGER.application}")
        database.execute(f"PRAGMA user_version = {version}")
        for statement, values in rows:
            database.executemany(statement, values)


def at(seconds: float) -> str:
    """Return a moment as versions before 8 wrote it."""
    return f"2026-11-23T10:00:{seconds:06.3f}+00:00"


def read(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on the file."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


@pytest.mark.parametrize("version", range(1, 8))
async def test_moments_that_were_text_are_the_same_in_unix_seconds(
    tmp_path: Path, version: int
) -> None:
    """This holds for any version and every table; a missing moment stays missing (G-15)."""
    path = tmp_path / "w.sqlite"
    assignment = "INSERT INTO assignment (position, id, digest, state, first_started, finished)"
    attempt = "INSERT INTO attempt (host, assignment, incarnation, started, ended)"
    move = "INSERT INTO agent_move (host, assignment, at, source, happening, target)"
    moves = [(f"{move} VALUES (1, 'a', ?, 'x', 'y', 'z')", [(at(4),)])] if version > 1 else []
    write(
        path,
        version,
        ("INSERT INTO host (pid, create_time, started) VALUES (1, 1.5, ?)", [(at(0.25),)]),
        (
            f"{assignment} VALUES (?, ?, '1', ?, ?, ?)",
            [(0, "a", "done", at(1), at(2.125)), (1, "b", "working", at(3), None)],
        ),
        (f"{attempt} VALUES (1, ?, 1, ?, ?)", [("a", at(1), at(2.125)), ("b", at(3.5), None)]),
        *moves,
    )
    async with Ledger(path) as ledger:
        done, working = await ledger.summary()
        assert (done.first_started, done.finished) == (TEN + 1, TEN + 2.125)
        assert (working.first_started, working.finished) == (TEN + 3, None)
        (live,) = await ledger.live_attempts()
        assert (live.assignment, live.started) == ("b", TEN + 3.5)
        assert [move.at for move in await ledger.agents.moves("a")] == [TEN + 4] * len(moves)
        assert await ledger.close_interrupted() == 1
    assert read(path, "SELECT started FROM host WHERE id = 1") == [(TEN + 0.25,)]
    assert read(path, "SELECT typeof(created) FROM identity") == [("real",)]
    assert read(path, "PRAGMA user_version") == [(schema.LEDGER.newest,)]
    plan = "EXPLAIN QUERY PLAN SELECT 1 FROM attempt WHERE assignment = 'b' AND ended IS NULL"
    assert "attempt_live" in str(read(path, plan))


async def test_a_ledger_of_the_first_version_knows_what_it_knew(tmp_path: Path) -> None:
    """It can keep the newer records from now on (G-15)."""
    path = tmp_path / "w.sqlite"
    add = "INSERT INTO assignment (position, id, digest) VALUES (0, 'a', '1')"
    write(path, 1, (add, [()]))
    ((identity,),) = read(path, "SELECT list_id FROM identity")
    for _ in range(2):
        async with Ledger(path) as ledger:
            assert ledger.list_id == identity
            assert [row.id for row in await ledger.summary()] == ["a"]
            await ledger.agents.record(ledger.host, [MOVE])
    async with Ledger(path) as ledger:
        assert len(await ledger.agents.moves("a")) == 2


async def test_a_ledger_of_the_third_version_gives_its_commands_away(tmp_path: Path) -> None:
    """The log of the user has them; the other records stay (G-15)."""
    path = tmp_path / "w.sqlite"
    write(path, 3, ("INSERT INTO agent VALUES ('a', 'failed', 'no')", [()]))
    async with Ledger(path) as ledger:
        agents = await ledger.agents.all()
    assert agents == (AgentRow(assignment="a", state="failed", why="no"),)
    assert read(path, "SELECT name FROM sqlite_master WHERE name = 'command'") == []


async def test_failures_that_were_not_counted_begin_at_none(tmp_path: Path) -> None:
    """The states of the agents stay (G-15)."""
    path = tmp_path / "w.sqlite"
    write(path, 3, ("INSERT INTO agent VALUES ('a', 'failed', 'no')", [()]))
    async with Ledger(path) as ledger:
        await ledger.agents.put_failures("a", "failed", {"crash": 2})
    async with Ledger(path) as ledger:
        (row,) = await ledger.agents.all()
        assert (row.state, row.failures) == ("failed", {"crash": 2})


async def test_runs_that_were_not_known_are_none(tmp_path: Path) -> None:
    """A run can be recorded from now on, beside the older records (G-15)."""
    path = tmp_path / "w.sqlite"
    add = "INSERT INTO agent (assignment, state, failures) VALUES ('a', 'failed', '{\"crash\": 2}')"
    write(path, 4, (add, [()]))
    async with Ledger(path) as ledger:
        assert [row.run for row in await ledger.agents.all()] == [""]
        await ledger.agents.put_run("a", "working", "r1")
    async with Ledger(path) as ledger:
        (row,) = await ledger.agents.all()
        assert (row.state, row.failures, row.run) == ("failed", {"crash": 2}, "r1")


async def test_pauses_that_were_not_kept_are_none(tmp_path: Path) -> None:
    """They can be kept from now on, beside the older records (G-15)."""
    path = tmp_path / "w.sqlite"
    add = "INSERT INTO agent (assignment, state, run) VALUES ('a', 'waiting_for_wakeup', 'r1')"
    write(path, 8, (add, [()]))
    pause = {"by": "operator", "why": "lunch", "account": "", "kind": "tokens"}
    async with Ledger(path) as ledger:
        assert [(row.pauses, row.reply) for row in await ledger.agents.all()] == [((), "")]
        await ledger.agents.put_rest("a", "working", [pause], "8080")
    async with Ledger(path) as ledger:
        (row,) = await ledger.agents.all()
        assert (row.state, row.run) == ("waiting_for_wakeup", "r1")
        assert (row.pauses, row.reply) == ((pause,), "8080")


async def test_what_had_come_out_by_then_counts_as_told(tmp_path: Path) -> None:
    """A later outcome does not (G-15)."""
    path = tmp_path / "w.sqlite"
    add = "INSERT INTO assignment (position, id, digest, state) VALUES (?, ?, '1', 'done')"
    write(path, 5, (add, enumerate("ab")))
    async with Ledger(path) as ledger:
        assert await ledger.untold() == ()
        await ledger.finish("b", State.REAPED, "why")
        assert [record.id for record in await ledger.untold()] == ["b"]
        await ledger.record_told(["b"])
        assert await ledger.untold() == ()
