"""What the children of the workloads do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from benchmarks.subject import Boom

if TYPE_CHECKING:
    from collections.abc import Callable


async def idle() -> None:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()


async def settle() -> None:
    """Let everything that is due be done: ends be noticed, ends of ends too."""
    for _ in range(5):
        await asyncio.sleep(0)


@final
class Fragile:
    """Children that wait for their end, which comes for all at the same time.

    Attributes:
        body: What they run.
    """

    def __init__(self, count: int, *, crash: bool = True) -> None:
        """Know that there will be `count` of them; they end by themselves if they do not crash."""
        self._count = count
        self._crash = crash
        self._loop = asyncio.get_running_loop()
        self._gates: list[asyncio.Future[None]] = []
        self._complete = self._loop.create_future()

    async def body(self) -> None:
        """Wait, then crash or end."""
        gate = self._loop.create_future()
        self._gates.append(gate)
        if len(self._gates) == self._count:
            self._complete.set_result(None)
        await gate
        if self._crash:
            raise Boom

    async def running(self) -> None:
        """Wait until all of them run."""
        await self._complete

    def end(self) -> None:
        """End all of them."""
        gates, self._gates = self._gates, []
        self._complete = self._loop.create_future()
        for gate in gates:
            gate.set_result(None)


@final
class Crasher:
    """One child that crashes on demand and says when it did, and when its next life began."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Read the time from `now`."""
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._gate = self._loop.create_future()
        self._began: asyncio.Future[float] = self._loop.create_future()
        self.crashed_at = 0.0

    async def body(self) -> None:
        """Say that it runs; wait; crash."""
        self._began.set_result(self._now())
        await self._gate
        self.crashed_at = self._now()
        raise Boom

    async def running(self) -> float:
        """Wait until it runs; return since when."""
        return await self._began

    async def crash(self) -> float:
        """Crash it; return how long it took until the next life ran."""
        gate, self._gate = self._gate, self._loop.create_future()
        self._began = self._loop.create_future()
        gate.set_result(None)
        return await self._began - self.crashed_at
