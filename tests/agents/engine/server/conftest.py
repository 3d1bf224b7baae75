"""A repository for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.engine.server.engine_site import EngineSite


@pytest.fixture
def site(tmp_path: Path) -> EngineSite:
    """Return a folder in which a test makes its repository."""
    return EngineSite(tmp_path)
