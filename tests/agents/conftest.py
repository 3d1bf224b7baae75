"""What the tests of the tree of agents share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.tree import acting, app, mortal, pool
from tests.agents.host import Site
from tests.agents.tree_world import FakeWorker, ThreadlessSqlite, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a world; its ledgers last as long as the test."""
    databases: dict[Path, sqlite3.Connection] = {}

    async def connect(path: Path, **_: object) -> ThreadlessSqlite:
        if path not in databases:
            databases[path] = sqlite3.connect(":memory:", isolation_level=None)
        return ThreadlessSqlite(databases[path])

    made = World(tmp_path)
    monkeypatch.setattr("otpy_agents.store.file.aiosqlite.connect", connect)
    monkeypatch.setattr(mortal, "spawn", made.spawn)
    monkeypatch.setattr(app, "chores_of", made.chores_of)
    for module in (acting, app, pool):
        monkeypatch.setattr(module, "WorkerProcess", FakeWorker)
    yield made
    for database in databases.values():
        database.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder for a work list; whatever was started for it is ended."""
    made = Site(tmp_path)
    yield made
    made.close()
