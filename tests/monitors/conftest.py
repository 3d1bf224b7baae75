"""What the tests of the monitors share."""

from __future__ import annotations

import pytest

from tests.monitors.shown import Scene


@pytest.fixture
async def scene() -> Scene:
    """A place where nothing was found yet."""
    return Scene()
