"""The same for children that are started one by one and have no order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, final

from benchmarks.floor.supervisor import Ends, Window

if TYPE_CHECKING:
    from benchmarks.subject import Body


@final
class Pool:
    """Children that run the same body; permanent ones are restarted, others dropped."""

    __slots__ = ("_body", "_ends", "_permanent", "_tasks", "_window")

    def __init__(self, body: Body, limit: int, period: int, *, permanent: bool) -> None:
        """Have no child."""
        self._body = body
        self._window = Window(limit, period)
        self._permanent = permanent
        self._ends = Ends()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start one more child."""
        task = asyncio.create_task(self._body())
        self._tasks.add(task)
        task.add_done_callback(self._ends.add if self._permanent else self._drop)

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def run(self) -> None:
        """Be the body of the supervisor's task; cancel it to stop everything."""
        try:
            while True:
                task = await self._ends.next()
                self._drop(task)
                self._window.count()
                await self.start()
        finally:
            stopping, self._permanent = list(self._tasks), False
            for task in stopping:
                task.cancel()
            await asyncio.gather(*stopping, return_exceptions=True)
