"""What the tests of the tree of agents share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.agent import mortal
from otpy_agents.testing import memory_stores
from otpy_agents.tree import app, consequences, monitors, pool
from tests.agents.host import Site
from tests.agents.tree_world import FakeWorker, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a world; its ledgers last as long as the test."""
    made = World(tmp_path)
    monkeypatch.setattr(mortal, "spawn", made.spawn)
    monkeypatch.setattr(monitors, "chores_of", made.chores_of)
    for module in (app, consequences, pool):
        monkeypatch.setattr(module, "WorkerProcess", FakeWorker)
    with memory_stores():
        yield made


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder for a work list; whatever was started for it is ended."""
    made = Site(tmp_path)
    yield made
    made.close()
