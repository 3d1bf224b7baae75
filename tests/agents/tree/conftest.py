"""Worlds of agents in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.testing import memory_stores
from tests.agents.tree.agent_world import AgentWorld


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[AgentWorld]:
    """A world whose stores are in memory; they outlive its hosts."""
    with memory_stores():
        yield AgentWorld(tmp_path)
