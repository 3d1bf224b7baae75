from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import aiosqlite
import pytest

from otpy_agents.errors import LedgerClosed, LedgerUnwritable
from otpy_agents.store import RunStore, kind
from otpy_agents.store import file as store_file
from otpy_agents.store.runs_schema import RUNS
from tests.agents.store.run_world import create, save

pytestmark = pytest.mark.real_time

COMMANDS = """
CREATE TABLE command (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host INTEGER NOT NULL, run TEXT NOT NULL,
    name TEXT NOT NULL, arguments TEXT NOT NULL, actor TEXT NOT NULL,
    at REAL NOT NULL, answer TEXT
);
CREATE INDEX command_run ON command (run);
"""
"""What versions 1 and 2 had, beside a cooldown that nobody knew when it was told in version 1."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "runs.sqlite3"


async def test_a_full_disk_loses_nothing(path: Path) -> None:
    """The state that did not fit is not there; the old one is."""
    async with RunStore(path) as store:
        lease = await create(store, "r", "old")
        assert store._file._database is not None
        await store._file._database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(LedgerUnwritable, match="No space left on device"):
            await save(store, lease, "new" * 100_000)
        assert (await store.run("r")).state == "old"


async def test_a_file_that_somebody_keeps_locked_is_one_clear_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the lock; readers are not affected."""
    monkeypatch.setattr(store_file, "BUSY", 0.01)
    async with RunStore(path) as store:
        lease = await create(store, "r", "old")
        with closing(sqlite3.connect(path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerUnwritable, match="a lock that another process holds"):
                await save(store, lease, "new")
            assert (await store.run("r")).state == "old"
        await save(store, lease, "new")


async def test_a_file_that_others_are_just_opening_is_waited_for(path: Path) -> None:
    """Switching to write-ahead logging fails at once when another has the file; it is tried again.

    Tables that another program has made in the meantime serve both.
    """
    async with RunStore(path) as first:
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        patient = RunStore(path)
        tried: list[int] = []

        async def prepare(
            database: aiosqlite.Connection, file: Path, its_kind: kind.FileKind
        ) -> None:
            tried.append(1)
            if len(tried) == 2:
                holder.execute("COMMIT")
            await kind.prepare(database, file, its_kind)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_file, "prepare", prepare)
            patch.setattr(store_file, "BUSY", 0.01)
            async with patient:
                assert patient.host == first.host + 1
    assert len(tried) > 1


async def test_a_closed_store_says_so(path: Path) -> None:
    """Its operations are refused before and after the block."""
    store = RunStore(path)
    with pytest.raises(LedgerClosed, match="wanted a store of runs inside its `async with` block"):
        await store.runs()
    async with store:
        lease = await create(store)
    with pytest.raises(LedgerClosed):
        await save(store, lease)


@pytest.mark.parametrize("version", range(1, RUNS.newest))
async def test_a_store_of_an_older_version_is_brought_up_to_date(path: Path, version: int) -> None:
    """Its runs and cooldowns are kept, and the tables that moved elsewhere are gone (G-15)."""
    told = "    told REAL NOT NULL DEFAULT 0,\n"
    tables = RUNS.tables.replace(told, "") if version == 1 else RUNS.tables
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(tables + COMMANDS)
        database.execute(f"PRAGMA application_id = {RUNS.application}")
        database.execute(f"PRAGMA user_version = {version}")
        database.execute("INSERT INTO host (pid, create_time, started) VALUES (1, 1.5, 2.5)")
        database.execute(
            "INSERT INTO run (id, host, version, state, status, agent, prompt, cwd, label,"
            " created, changed) VALUES ('r', 1, 1, 'S', 'new', 'claude', 'p', '/', 'l', 3, 4)"
        )
        database.execute(
            "INSERT INTO cooldown (agent_cli, credential, until, reason)"
            " VALUES ('claude', 'c', 9e9, 'quota')"
        )
    async with RunStore(path) as store:
        stored = await store.run("r")
        cooldowns = await store.cooldowns.at(5.0)
    assert (stored.state, stored.record.label, stored.record.created) == ("S", "l", 3.0)
    assert [(one.agent_cli, one.until) for one in cooldowns] == [("claude", 9e9)]
    with closing(sqlite3.connect(path)) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        assert "command" not in names
        assert database.execute("PRAGMA user_version").fetchone() == (RUNS.newest,)
