"""Where workers can be seen: monitors look here, and never touch what they see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import final

from attrs import frozen


@final
@frozen(kw_only=True)
class Vitals:
    """What is known of one worker at one moment.

    Attributes:
        path: Path of the process of the tree that owns it.
        incarnation: Which of that child's lives it is.
        pid: Its operating system process.
        argv: What it runs.
        cwd: Where it runs.
        seconds: Time it has taken so far, over all its attempts.
        output_bytes: What it has written so far, over all its attempts.
        quiet: Seconds since it last made progress.
        stall: Seconds it may go without progress; None for no limit.
        max_seconds: Budget of `seconds`; None for no limit.
        max_output_bytes: Budget of `output_bytes`; None for no limit.
    """

    path: str
    incarnation: int
    pid: int
    argv: tuple[str, ...]
    cwd: str
    seconds: float
    output_bytes: int
    quiet: float
    stall: float | None = None
    max_seconds: float | None = None
    max_output_bytes: int | None = None

    @property
    def life(self) -> tuple[str, int, int]:
        """What tells this life of the worker from every other."""
        return self.path, self.incarnation, self.pid


@final
class Board:
    """The workers that run right now. It outlives every monitor, which may crash at any time."""

    def __init__(self) -> None:
        """Make an empty board."""
        self._workers: dict[object, Callable[[], Vitals]] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @contextmanager
    def showing(self, look: Callable[[], Vitals]) -> Generator[None]:
        """Show a worker while the block lasts; `look` returns what is known of it at the moment."""
        key = object()
        self._workers[key] = look
        self._changed()
        try:
            yield
        finally:
            del self._workers[key]
            self._changed()

    def vitals(self) -> list[Vitals]:
        """Return what is known of each running worker, in the order in which they appeared."""
        return [look() for look in self._workers.values()]

    async def change(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for a worker to appear or go; return whether one did."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:  # nobody waits any more, and nothing may change for days
                self._waiters.remove(waiter)
        return True

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
