"""The findings of monitors, and monitors that run for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, final

from otpy_monitors import Finding


@final
class Scene:
    """The findings of monitors, each with its time."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.times: list[float] = []

    def report(self, finding: Finding) -> None:
        self.found.append(finding)
        self.times.append(asyncio.get_running_loop().time())


@asynccontextmanager
async def running(monitor: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run a monitor in a task while the block lasts."""
    task = asyncio.create_task(monitor)
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})
