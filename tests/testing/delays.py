"""Calls and threads that take time, in the loop and outside it, for the tests of the clock."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime

YEAR = 365 * 86_400.0
BRIEF = 0.02  # real seconds that a slow thread takes: long against a jump, short for a test


def slow(answer: int = 7, seconds: float = BRIEF) -> int:
    """Keep a thread busy for some real time."""
    time.sleep(seconds)
    return answer


async def blocked() -> None:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()


async def year_in(seconds: float) -> int:
    """Sleep, then read the calendar."""
    await asyncio.sleep(seconds)
    return datetime.now(UTC).year


def stranger(seconds: float) -> asyncio.Future[int]:
    """Start a thread that the loop does not know; it answers 7 after so many real seconds."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[int] = loop.create_future()
    threading.Timer(seconds, loop.call_soon_threadsafe, (answer.set_result, 7)).start()
    return answer
