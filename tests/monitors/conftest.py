"""Shared fixtures of the tests of the monitors."""

from __future__ import annotations

import pytest

from tests.monitors.shown import Scene


@pytest.fixture
async def scene() -> Scene:
    """A scene without findings."""
    return Scene()
