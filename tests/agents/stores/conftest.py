"""What the tests of sessions and changesets share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.agents.stores.git_world import GitWorld
from tests.agents.stores.session_world import FILES, SQLITE, SessionWorld


@pytest.fixture(params=[SQLITE, FILES])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SessionWorld]:
    """A store of each kind."""
    async with AsyncExitStack() as stack:
        yield await SessionWorld(request.param, tmp_path / "sessions", stack).opened()


@pytest.fixture
def git(tmp_path: Path) -> GitWorld:
    """A real repository."""
    return GitWorld(tmp_path)
