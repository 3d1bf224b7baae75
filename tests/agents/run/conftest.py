"""A stage for whole runs in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otpy_agents.testing import memory_stores
from tests.agents.run.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage whose store is served by the loop's own thread; it outlives its hosts."""
    with memory_stores():
        yield Stage(tmp_path)
