"""Shared fixtures of the runtime's tests."""

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
    """Capture the log, instead of drawing each traceback on the terminal."""
    with capture_logs() as entries:
        yield entries
    structlog.reset_defaults()  # else it stays configured, and later tests print their logs


@pytest.fixture
def reports() -> Recording:
    """Return a report hook that records reports."""
    return Recording()


@pytest.fixture
def journal() -> Journal:
    """Return a journal in which children record their beginnings and ends."""
    return Journal()


@pytest.fixture
def left() -> Left:
    """Return a record of the tasks that children leave behind."""
    return Left()


@pytest.fixture
async def release(clock: MockClock) -> AsyncGenerator[asyncio.Event]:
    """Return an event that releases stubborn children; it is set at the end of each test."""
    event = asyncio.Event()
    yield event
    event.set()
    await clock.advance(0)
