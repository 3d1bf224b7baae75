"""What the ledger keeps of agents, and ledgers that were made before it kept any of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.store import schema
from otpy_agents.store.agent_rows import AgentRow, MoveRow
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import State

pytestmark = pytest.mark.real_time

FAILED = MoveRow(assignment="a", source="working", happening="failed", target="failed", why="no")
AGAIN = MoveRow(assignment="a", source="failed", happening="restarted", target="working")


def ledger(folder: Path) -> Ledger:
    return Ledger(folder / "w.sqlite", clock=lambda: 0.0)


async def test_moves_are_kept_in_order_and_the_last_says_where_an_agent_stands(
    tmp_path: Path,
) -> None:
    """The next host reads both."""
    async with ledger(tmp_path) as one:
        await one.agents.record(one.host, [FAILED])
        await one.agents.record(one.host, [AGAIN])
        await one.agents.record(one.host, [])
    async with ledger(tmp_path) as one:
        assert await one.agents.all() == (AgentRow(assignment="a", state="working"),)
        moves = await one.agents.moves("a")
        assert [evolve(move, at="") for move in moves] == [FAILED, AGAIN]
        assert all(move.at.endswith("+00:00") for move in moves)


async def test_documents_are_kept_by_name(tmp_path: Path) -> None:
    """The newest text under a name is the one that is read."""
    async with ledger(tmp_path) as one:
        assert await one.agents.get("budget") is None
        await one.agents.put("budget", "{}")
        await one.agents.put("budget", "{1}")
        assert await one.agents.get("budget") == "{1}"


async def test_an_agent_is_forgotten_with_its_assignment(tmp_path: Path) -> None:
    """When its definition changes, and when all is begun anew."""
    async with ledger(tmp_path) as one:
        await one.declare({"a": "1", "b": "1"})
        await one.agents.record(one.host, [FAILED, evolve(FAILED, assignment="b")])
        await one.declare({"a": "2", "b": "1"})
        assert [row.assignment for row in await one.agents.all()] == ["b"]
        await one.agents.put("budget", "{}")
        await one.forget_all()
        assert (await one.agents.all(), await one.agents.get("budget")) == ((), None)


async def test_failures_are_kept_whatever_else_becomes_of_an_agent(tmp_path: Path) -> None:
    """Their numbers go with the definition only; a move does not touch them (C-16)."""
    async with ledger(tmp_path) as one:
        await one.declare({"a": "1"})
        await one.agents.put_failures("a", "working", {"tests_failed": 1})
        await one.agents.record(one.host, [FAILED])
        await one.agents.put_failures("a", "unknown", {"tests_failed": 2, "crash": 1})
    async with ledger(tmp_path) as one:
        await one.declare({"a": "1"})
        (row,) = await one.agents.all()
        assert (row.state, row.why) == ("failed", "no")
        assert row.failures == {"tests_failed": 2, "crash": 1}
        await one.add("a", "1")
        assert len(await one.agents.all()) == 1
        await one.add("a", "2")
        assert await one.agents.all() == ()


async def test_a_ledger_that_did_not_count_failures_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its agents stand stays; their failures begin at none (G-15)."""
    upgrades = {older: schema.LEDGER.upgrades[older] for older in (1, 2)}
    tables = schema._TABLES + schema._AGENTS + schema._COMMANDS
    old = evolve(schema.LEDGER, newest=3, tables=tables, upgrades=upgrades)
    with monkeypatch.context() as patch:
        patch.setattr("otpy_agents.store.ledger.LEDGER", old)
        async with ledger(tmp_path):
            pass
    with sqlite3.connect(tmp_path / "w.sqlite") as database:
        database.execute("INSERT INTO agent VALUES ('a', 'failed', 'no')")
    database.close()
    async with ledger(tmp_path) as one:
        assert await one.agents.all() == (AgentRow(assignment="a", state="failed", why="no"),)
        await one.agents.put_failures("a", "failed", {"crash": 2})
    async with ledger(tmp_path) as one:
        assert (await one.agents.all())[0].failures == {"crash": 2}


async def test_a_ledger_that_did_not_know_of_runs_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run is known of its agents; one can be kept from now on, beside what was kept (G-15)."""
    upgrades = {older: schema.LEDGER.upgrades[older] for older in (1, 2, 3)}
    tables = schema._TABLES + schema._AGENTS + schema._COMMANDS + schema._FAILURES
    old = evolve(schema.LEDGER, newest=4, tables=tables, upgrades=upgrades)
    with monkeypatch.context() as patch:
        patch.setattr("otpy_agents.store.ledger.LEDGER", old)
        async with ledger(tmp_path) as one:
            await one.agents.put_failures("a", "failed", {"crash": 2})
    async with ledger(tmp_path) as one:
        assert [row.run for row in await one.agents.all()] == [""]
        await one.agents.put_run("a", "working", "r1")
    async with ledger(tmp_path) as one:
        (row,) = await one.agents.all()
        assert (row.state, row.failures, row.run) == ("failed", {"crash": 2}, "r1")


async def test_a_ledger_that_did_not_know_what_was_told_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had come out by then counts as told, and what comes out later does not (G-15)."""
    upgrades = {older: schema.LEDGER.upgrades[older] for older in (1, 2, 3, 4)}
    tables = schema.LEDGER.tables.removesuffix(schema._TOLD)
    old = evolve(schema.LEDGER, newest=5, tables=tables, upgrades=upgrades)
    with monkeypatch.context() as patch:
        patch.setattr("otpy_agents.store.ledger.LEDGER", old)
        async with ledger(tmp_path):
            pass
    with sqlite3.connect(tmp_path / "w.sqlite") as database:
        insert = "INSERT INTO assignment (position, id, digest, state) VALUES (?, ?, '1', 'done')"
        database.executemany(insert, enumerate("ab"))
    database.close()
    async with ledger(tmp_path) as one:
        assert await one.untold() == ()
        await one.finish("b", State.REAPED, "why")
        assert [record.id for record in await one.untold()] == ["b"]
        await one.record_told(["b"])
        assert await one.untold() == ()


async def test_a_ledger_of_the_first_version_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it knows stays; what it did not keep can be kept from now on (G-15)."""
    old = evolve(schema.LEDGER, newest=1, tables=schema._TABLES, upgrades={})
    with monkeypatch.context() as patch:
        patch.setattr("otpy_agents.store.ledger.LEDGER", old)
        async with ledger(tmp_path) as one:
            identity = one.list_id
    with sqlite3.connect(tmp_path / "w.sqlite") as database:
        database.execute("INSERT INTO assignment (position, id, digest) VALUES (0, 'a', '1')")
    database.close()
    for _ in range(2):
        async with ledger(tmp_path) as one:
            assert one.list_id == identity
            assert [row.id for row in await one.summary()] == ["a"]
            await one.agents.record(one.host, [FAILED])
    async with ledger(tmp_path) as one:
        assert len(await one.agents.moves("a")) == 2
