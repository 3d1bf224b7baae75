"""A stage for whole runs in virtual time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.run.stage import Stage
from tests.agents.tree_world import ThreadlessSqlite


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage whose store is served by the loop's own thread; it outlives its hosts."""
    databases: dict[Path, sqlite3.Connection] = {}

    async def connect(path: Path, **_: object) -> ThreadlessSqlite:
        if path not in databases:
            databases[path] = sqlite3.connect(":memory:", isolation_level=None)
        return ThreadlessSqlite(databases[path])

    monkeypatch.setattr("otpy_agents.store.file.aiosqlite.connect", connect)
    yield Stage(tmp_path)
    for database in databases.values():
        database.close()
