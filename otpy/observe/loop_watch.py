"""Says which child blocks the event loop, and where, while it does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import perf_counter  # real seconds, of virtual time too: a blocked loop takes no other
from typing import Any, Final, TypeAlias, final

from attrs import evolve, frozen

from otpy._core.checks import check_number, refuse
from otpy._runtime.log_program import ProgramLog
from otpy._runtime.stack import running_in
from otpy._runtime.watch_thread import WatchThread

_NOBODY: Final = "no child"


@final
@frozen
class LoopBlocked:
    """The event loop did not turn for too long.

    Attributes:
        path: Path of the child whose code ran, in its own task or in one that it started; empty
            if it was not a child's.
        incarnation: Which of its lives, from 1; 0 if it was not a child's.
        seconds: From a call that the loop should have made to when it did. The block may have
            begun up to one `interval` before.
        stack: Where it was when the limit was over: one line for each frame of what the loop had
            called, outermost call first.
    """

    path: str
    incarnation: int
    seconds: float
    stack: tuple[str, ...]


BlockHook: TypeAlias = Callable[[LoopBlocked], object]
"""Takes one fact; must not block."""


async def watch_loop(
    report: BlockHook | None = None,
    *,
    interval: float = 0.25,
    limit: float = 0.5,
    logger: Any = None,
) -> None:
    """Watch the event loop it runs in, as a child of any tree there; ends when it is cancelled.

    A thread asks the loop for a sign of life again and again. If there is none within `limit`
    seconds, it looks where the loop's thread is, and logs `loop.blocked` at once, at error level,
    with the child, its incarnation and the stack: the loop could not. When the loop turns again,
    `report` hears of it, in this child; if that raises, this child crashes.

    A process that was stopped as a whole, or a machine that had no time for it, is not reported
    if the thread was late by as much itself. What blocks the loop without ever letting another
    thread run, such as a C function that keeps the interpreter's lock, is reported only afterwards,
    with the stack of what the loop does then.

    Args:
        report: Gets one `LoopBlocked` for each block, in this task.
        interval: Seconds between a sign of life and the next question.
        limit: Seconds the loop may be late.
        logger: A structlog logger; the default is that of `otpy.log_reports`.

    Raises:
        InvalidSpec: If `interval` or `limit` is not above 0.

    Source:
        AIO-01.
    """
    for name, seconds in (("interval", interval), ("limit", limit)):
        check_number("watch_loop", name, seconds, "seconds above 0", least=0, above=True)
        if seconds > threading.TIMEOUT_MAX:
            refuse("watch_loop", name, seconds, "seconds that a thread can wait for")
    watch = _LoopWatch(asyncio.get_running_loop(), interval, limit, ProgramLog(logger))
    try:
        while True:
            fact = await watch.facts.get()
            if report is not None:
                report(fact)
    finally:
        watch.thread.close()


@final
class _LoopWatch:
    """The questions of one thread to one loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, interval: float, limit: float, log: ProgramLog
    ) -> None:
        self.facts: asyncio.Queue[LoopBlocked] = asyncio.Queue()
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._interval = interval
        self._limit = limit
        self._log = log
        self._answered = threading.Event()
        self.thread = WatchThread("otpy loop watch", self._look)
        self.thread.start()

    def _look(self) -> None:
        self.thread.rest(self._interval)
        if self.thread.closed:
            return
        self._answered.clear()
        asked = perf_counter()
        if not self._tell(self._answered.set) or self._answered.wait(self._limit):
            return
        if perf_counter() - asked > 2 * self._limit and self._answered.wait(self._limit):
            return  # this thread was late itself: the process was stopped, or had no time
        fact = self._seen(perf_counter() - asked)
        while not self._answered.wait(self._interval):
            if self.thread.closed:
                return
        self._tell(self.facts.put_nowait, evolve(fact, seconds=perf_counter() - asked))

    def _tell(self, do: Callable[..., object], *args: object) -> bool:
        """Have the loop call something; whether it is there to do so."""
        try:
            self._loop.call_soon_threadsafe(do, *args)
        except RuntimeError:  # it is closed
            self.thread.closed = True
            return False
        return True

    def _seen(self, seconds: float) -> LoopBlocked:
        """Look where the loop is, and log it."""
        process, stack = running_in(self._loop_thread, self._loop)
        path = "" if process is None else process.path
        incarnation = 0 if process is None else process.incarnation
        fact = LoopBlocked(path, incarnation, seconds, stack)
        self._log.write(
            "error",
            "loop.blocked",
            child=path or _NOBODY,
            incarnation=incarnation,
            seconds=round(seconds, 3),
            stack="\n".join(stack),
        )
        return fact
