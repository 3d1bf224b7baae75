"""Commands in the ledger of a list: written down before, answered after, kept through upgrades."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.store import schema
from otpy_agents.store.ledger import Ledger
from otpy_agents.tree.commands import FOLLOW, QuietLog

pytestmark = pytest.mark.real_time


def ledger(folder: Path) -> Ledger:
    return Ledger(folder / "w.sqlite", clock=lambda: 0.0)


async def test_a_command_is_there_before_its_answer(tmp_path: Path) -> None:
    """With whom it is about, who gave it and when; a long answer is cut."""
    async with ledger(tmp_path) as one:
        given = json.dumps({"arguments": {"agent": "a", "text": "x"}})
        number = await one.commands.begin(name="warn", run="", arguments=given, actor="ann")
        (row,) = await one.commands.all()
        assert (row.agent, row.name, row.actor, row.answer) == ("a", "warn", "ann", None)
        assert (row.host, row.arguments) == (one.host, given)
        await one.commands.end(number, "y" * 5000)
        (row,) = await one.commands.all()
        assert row.answer == "y" * 4000
        await one.forget_all()
        assert len(await one.commands.all()) == 1
        assert await one.purge(-1) >= 1
        assert await one.commands.all() == ()


async def test_looking_is_written_down_without_what_was_seen(tmp_path: Path) -> None:
    """And following once, not for each page."""
    async with ledger(tmp_path) as one:
        log = QuietLog(one.commands)
        for name in ("status", FOLLOW, "logs"):
            number = await log.begin(name=name, run="", arguments='{"arguments": {}}', actor="ann")
            await log.end(number, '{"ok": true, "answer": {"much": "more"}}')
        rows = await one.commands.all()
        assert [(row.name, row.answer) for row in rows] == [
            ("status", '{"ok": true}'),
            ("logs", '{"ok": true}'),
        ]


async def test_a_ledger_without_commands_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it knows stays (G-15)."""
    upgrades = {1: schema.LEDGER.upgrades[1]}
    old = evolve(schema.LEDGER, newest=2, tables=schema._TABLES + schema._AGENTS, upgrades=upgrades)
    with monkeypatch.context() as patch:
        patch.setattr("otpy_agents.store.ledger.LEDGER", old)
        async with ledger(tmp_path) as one:
            await one.declare({"a": "1"})
    async with ledger(tmp_path) as one:
        assert [row.id for row in await one.summary()] == ["a"]
        assert await one.commands.all() == ()
    with sqlite3.connect(tmp_path / "w.sqlite") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (schema.LEDGER.newest,)
    database.close()
