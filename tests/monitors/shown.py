"""Workers to be seen on a board, that do what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, final

from attrs import define

from otpy_monitors import Board, Finding, Vitals


@define(eq=False)
class Worker:
    """A worker whose vitals a test sets."""

    path: str = "app/pool/a"
    incarnation: int = 1
    pid: int = 100
    argv: tuple[str, ...] = ("run",)
    cwd: str = "/tmp"
    seconds: float = 0.0
    output_bytes: int = 0
    heard: float = 0.0
    stall: float | None = None
    max_seconds: float | None = None
    max_output_bytes: int | None = None

    def look(self) -> Vitals:
        return Vitals(
            path=self.path,
            incarnation=self.incarnation,
            pid=self.pid,
            argv=self.argv,
            cwd=self.cwd,
            seconds=self.seconds,
            output_bytes=self.output_bytes,
            quiet=asyncio.get_running_loop().time() - self.heard,
            stall=self.stall,
            max_seconds=self.max_seconds,
            max_output_bytes=self.max_output_bytes,
        )


@final
class Scene:
    """A board, and what monitors found on it, with the time."""

    def __init__(self) -> None:
        self.board = Board()
        self.found: list[Finding] = []
        self.times: list[float] = []

    def report(self, finding: Finding) -> None:
        self.found.append(finding)
        self.times.append(asyncio.get_running_loop().time())

    def showing(self, worker: Worker) -> AbstractContextManager[None]:
        return self.board.showing(worker.look)


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
