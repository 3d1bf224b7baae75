"""A bounded number of tasks over many items: `TaskSupervisor.async_stream`."""

from __future__ import annotations

import asyncio
import os
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, final

from otpy._core.checks import check_member, check_number, refuse
from otpy._core.reason import Crashed, Shutdown, signal_of
from otpy._runtime.current import current_or_none
from otpy._runtime.signals import traps
from otpy.behaviours.task_result import Exited, Ok, TaskFailed
from otpy.errors import TaskTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import Process

    Started: TypeAlias = "tuple[Process, list[_T]]"
    """A task's process, and where it leaves its result."""
    Leave: TypeAlias = Callable[[asyncio.Future[Process | None]], object]
    """Takes a task whose start was cancelled: see `DynamicSupervisor.start_claimed`."""

_T = TypeVar("_T")
_I = TypeVar("_I")


class OnTimeout(Enum):
    """What happens when a task of a stream takes longer than its `timeout` (TSK-11)."""

    EXIT = "exit"
    """The stream raises `TaskTimeout`, and its other tasks are shut down."""
    KILL_TASK = "kill_task"
    """Only that task is killed, and its result is `Exited(Crashed(TaskTimeout))`."""


def stream(
    start: Callable[[_I, Leave], Awaitable[Started[_T]]],
    items: Iterable[_I],
    *,
    max_concurrency: int | None,
    ordered: bool,
    timeout: float | None,
    on_timeout: OnTimeout,
    linked: bool,
) -> AsyncGenerator[Ok[_T] | Exited, None]:
    """Return the stream of results; see `TaskSupervisor.async_stream`.

    Raises:
        InvalidSpec: If an option can never work.
    """
    who, n = "async_stream", max_concurrency
    if n is None:
        n = os.cpu_count() or 1
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse(who, "max_concurrency", n, "a whole number of at least 1, or None")
    if timeout is not None:
        check_number(who, "timeout", timeout, "seconds of at least 0, or None", least=0)
    check_member(who, "on_timeout", on_timeout, OnTimeout)
    crew: _Crew[_T] = _Crew(n, timeout, on_timeout, ordered=ordered, linked=linked)
    return _results(crew, start, items)


async def _results(
    crew: _Crew[_T], start: Callable[[_I, Leave], Awaitable[Started[_T]]], items: Iterable[_I]
) -> AsyncGenerator[Ok[_T] | Exited, None]:
    """Start tasks and yield results, in turns, until the items are used up or something fails."""
    waiting = iter(items)
    more = True
    crew.serve(current_or_none())
    try:
        while True:
            crew.check()
            while more and crew.has_room:
                try:
                    item = next(waiting)
                except StopIteration:
                    more = False
                else:
                    crew.add(*await start(item, crew.leave))
            if crew.has_result:
                yield crew.next_result()
            elif crew.busy:
                await crew.news()
            else:
                return
    finally:
        await crew.dismiss()


@final
class _Crew(Generic[_T]):
    """The tasks of one stream. Their ends are pushed, so nothing waits for a task by itself."""

    def __init__(
        self,
        size: int,
        timeout: float | None,
        on_timeout: OnTimeout,
        *,
        ordered: bool,
        linked: bool,
    ) -> None:
        self._size = size
        self._timeout = timeout
        self._on_timeout = on_timeout
        self._ordered = ordered
        self._linked = linked
        self._owner: Process | None = None
        self._forget_owner: Callable[[], object] = lambda: None
        self._added = 0
        self._yielded = 0
        self._running: dict[int, Process] = {}
        self._results: dict[int, Ok[_T] | Exited] = {}  # not yet yielded, by number, as they ended
        self._left: asyncio.Future[Process | None] | None = None  # its start was cancelled
        self._late: dict[int, TaskTimeout] = {}  # killed for their slowness
        self._failure: TaskFailed | TaskTimeout | None = None
        self._news: asyncio.Future[None] | None = None

    def serve(self, owner: Process | None) -> None:
        """End with `owner`, however it ends; None is code outside of processes."""
        self._owner = owner
        if owner is not None:
            self._forget_owner = owner.on_exit(lambda _, reason: self._shut_down(reason))

    @property
    def _binds(self) -> bool:
        """Whether a task's failure is its owner's; one that traps exits gets it as a result."""
        return self._linked and not (self._owner is not None and traps(self._owner))

    @property
    def busy(self) -> bool:
        """Whether any task runs."""
        return bool(self._running)

    @property
    def has_result(self) -> bool:
        """Whether the next result is there."""
        return self._yielded in self._results if self._ordered else bool(self._results)

    @property
    def has_room(self) -> bool:
        """Whether one more task may be started.

        While results wait to be yielded they count as well, or a slow reader of the stream would
        let them pile up. Only behind a slow task that holds up the order they must not count.
        """
        kept = len(self._results) if self.has_result else 0
        return len(self._running) + kept < self._size

    def add(self, process: Process, done: list[_T]) -> None:
        """Take one more task."""
        number = self._added
        self._added += 1
        self._running[number] = process
        timer: asyncio.TimerHandle | None = None
        if self._timeout is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._timeout, self._expired, number, self._timeout)

        def ended(_: Process, reason: ExitReason) -> None:
            if timer is not None:
                timer.cancel()
            self._ended(number, Ok(done[0]) if done else Exited(reason))

        process.on_exit(ended)

    def _ended(self, number: int, result: Ok[_T] | Exited) -> None:
        process = self._running.pop(number)
        late = self._late.pop(number, None)
        if late is not None:
            result = Exited(Crashed(late))
        elif isinstance(result, Exited) and self._binds:
            signal = signal_of(result.reason)
            if signal is not None:
                self._fail(TaskFailed(process.path, result.reason))
                if self._owner is not None:
                    self._owner.order_stop(reason=signal)
        self._results[number] = result
        self._wake()

    def _expired(self, number: int, seconds: float) -> None:
        process = self._running[number]
        if not process.runs:
            return  # it ended in this very turn of the loop, and the news is on the way
        error = TaskTimeout(f"{process.path}: took longer than timeout={seconds:g} s")
        if self._on_timeout is OnTimeout.KILL_TASK:
            self._late[number] = error
            process.kill()
        else:
            self._fail(error)
            self._wake()

    def _fail(self, error: TaskFailed | TaskTimeout) -> None:
        if self._failure is None:
            self._failure = error

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def news(self) -> None:
        """Wait until a task has ended, or its time is over."""
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def next_result(self) -> Ok[_T] | Exited:
        """Take the result that is next."""
        number = self._yielded if self._ordered else next(iter(self._results))
        self._yielded += 1
        return self._results.pop(number)

    def check(self) -> None:
        """Raise what has made the stream fail, if anything has."""
        if self._failure is not None:
            raise self._failure

    def _shut_down(self, reason: ExitReason) -> None:
        """Begin to end all tasks, and link them to nobody any more."""
        self._linked = False
        for process in self._running.values():
            process.order_stop(reason=signal_of(reason) or Shutdown())

    def leave(self, process: asyncio.Future[Process | None]) -> None:
        """Take a task whose start was cancelled: it is being ended."""
        self._left = process

    async def dismiss(self) -> None:
        """End all tasks and return when they are gone; cancelled, they end all the same."""
        self._forget_owner()
        self._shut_down(Shutdown())
        ending = [*self._running.values()]
        if self._left is not None and (left := await self._left) is not None:
            ending.append(left)
        for process in ending:
            await process.wait()
