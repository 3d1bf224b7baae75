"""Virtual time for every async test that isn't marked `real_time`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from otpy.testing import MockClock


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give each test a loop of its own kind: one entry only, or each test would run twice."""
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": MockClock().loop_factory}


@pytest.fixture
async def clock() -> MockClock:
    """The clock of the running test; an error in a test that is marked `real_time`."""
    return MockClock.current()
