"""The records of agents in the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.clock import CLOCK
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import AgentRow, MoveRow

pytestmark = pytest.mark.real_time

FAILED = MoveRow(assignment="a", source="working", happening="failed", target="failed", why="no")
AGAIN = MoveRow(assignment="a", source="failed", happening="restarted", target="working")


def ledger(folder: Path) -> Ledger:
    return Ledger(folder / "w.sqlite")


async def test_moves_are_kept_in_order_and_the_last_says_where_an_agent_stands(
    tmp_path: Path,
) -> None:
    """The next host reads both."""
    before = CLOCK()
    async with ledger(tmp_path) as one:
        await one.agents.record(one.host, [FAILED])
        await one.agents.record(one.host, [AGAIN])
        await one.agents.record(one.host, [])
    async with ledger(tmp_path) as one:
        assert await one.agents.all() == (AgentRow(assignment="a", state="working"),)
        moves = await one.agents.moves("a")
        assert [evolve(move, at=None) for move in moves] == [FAILED, AGAIN]
        assert all(move.at is not None and before <= move.at <= CLOCK() for move in moves)


async def test_documents_are_kept_by_name(tmp_path: Path) -> None:
    """The newest text under a name is the one that is read."""
    async with ledger(tmp_path) as one:
        assert await one.agents.get("budget") is None
        await one.agents.put("budget", "{}")
        await one.agents.put("budget", "{1}")
        assert await one.agents.get("budget") == "{1}"


async def test_an_agent_is_forgotten_with_its_assignment(tmp_path: Path) -> None:
    """This happens when its definition changes, and when everything is forgotten."""
    async with ledger(tmp_path) as one:
        await one.declare({"a": "1", "b": "1"})
        await one.agents.record(one.host, [FAILED, evolve(FAILED, assignment="b")])
        await one.declare({"a": "2", "b": "1"})
        assert [row.assignment for row in await one.agents.all()] == ["b"]
        await one.agents.put("budget", "{}")
        await one.forget_all()
        assert (await one.agents.all(), await one.agents.get("budget")) == ((), None)


async def test_failures_are_kept_whatever_else_becomes_of_an_agent(tmp_path: Path) -> None:
    """Their numbers go only with the definition; a move does not touch them (C-16)."""
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
