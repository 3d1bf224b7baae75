"""What the tests of the clock share."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def busy() -> AsyncIterator[threading.Event]:  # async: set before the loop joins its threads
    """Hand out an event for threads to wait for; set at the end, so that none is left over."""
    event = threading.Event()
    yield event
    event.set()
