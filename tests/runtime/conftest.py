"""What the tests of the runtime share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from otpy.testing import MockClock, Recording
from tests.runtime.children import Journal
from tests.runtime.leaving import Left


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged, instead of a drawing of each traceback on the terminal."""
    with capture_logs() as entries:
        yield entries
    structlog.reset_defaults()  # else it stays configured, and later tests print their logs


@pytest.fixture
def reports() -> Recording:
    """A report hook that remembers."""
    return Recording()


@pytest.fixture
def journal() -> Journal:
    """Where children write down when they begin and end."""
    return Journal()


@pytest.fixture
def left() -> Left:
    """The tasks that children leave behind."""
    return Left()


@pytest.fixture
async def release(clock: MockClock) -> AsyncGenerator[asyncio.Event]:
    """Lets stubborn children go; set at the end, so that none is left over."""
    event = asyncio.Event()
    yield event
    event.set()
    await clock.advance(0)
