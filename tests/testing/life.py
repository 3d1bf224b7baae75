"""Children for the tests of the assertions."""

from __future__ import annotations

import asyncio

from anyio.abc import TaskStatus


async def forever() -> None:
    """Run until cancelled."""
    await asyncio.get_running_loop().create_future()


async def slow(seconds: float, *, task_status: TaskStatus[None]) -> None:
    """Take `seconds` to be ready, and again to end."""
    await asyncio.sleep(seconds)
    task_status.started()
    try:
        await forever()
    finally:
        await asyncio.sleep(seconds)


async def fail_when(told: asyncio.Event) -> None:
    """Crash as soon as `told` is set."""
    await told.wait()
    told.clear()
    raise OSError("no contact")
