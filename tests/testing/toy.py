"""Small children, and a careless supervisor, for the tests of the simulation."""

from __future__ import annotations

import asyncio


async def steady() -> None:
    """Live for ever, with a step now and then."""
    while True:  # noqa: ASYNC110 - it is to take steps
        await asyncio.sleep(0.7)


class _Careless:
    """Restarts its child after a check of `stopping` that is outdated by then."""

    def __init__(self) -> None:
        self.crashed = asyncio.Event()
        self.alive = 1
        self.stopping = False

    async def supervise(self) -> None:
        await self.crashed.wait()
        if not self.stopping:
            await asyncio.sleep(0)  # a stop at this moment is overlooked
            self.alive += 1

    async def stop(self) -> None:
        await self.crashed.wait()
        self.stopping = True
        self.alive = 0


async def unsafe_stop() -> None:
    """Stop the careless supervisor at the very moment its child crashes."""
    supervisor = _Careless()
    async with asyncio.TaskGroup() as group:
        group.create_task(supervisor.stop(), name="stop")
        group.create_task(supervisor.supervise(), name="supervise")
        await asyncio.sleep(0.001)
        supervisor.crashed.set()
    assert supervisor.alive == 0, "a child was started after the stop"
