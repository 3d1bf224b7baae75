"""A bounded number of tasks over many items: `TaskSupervisor.stream`."""

from __future__ import annotations

import asyncio
import os
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar, final

from otpy._core.checks import check_member, check_number, refuse
from otpy._core.reason import Crashed, Restart, Shutdown, signal_of
from otpy._core.spec import ChildSpec
from otpy._runtime.current import current, current_or_none
from otpy._runtime.links import traps
from otpy._runtime.process import live_of
from otpy.behaviours.task import chain, name_of, set_callers
from otpy.behaviours.task_result import Exited, Ok, TaskFailed
from otpy.errors import ChildError, TaskTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

    from otpy._core.protocol import RequestReply
    from otpy._core.reason import ExitReason
    from otpy._core.spec import ShutdownLimit
    from otpy._runtime.deadlines import Line
    from otpy._runtime.dynamic import DynamicShell
    from otpy._runtime.handles import Process
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.task import Chain

_T = TypeVar("_T")
_I = TypeVar("_I")


class OnTimeout(Enum):
    """What happens when a task of a stream takes longer than its `timeout` (TSK-11)."""

    EXIT = "exit"
    """The stream raises `TaskTimeout`, and its other tasks are shut down."""
    KILL_TASK = "kill_task"
    """Only that task is killed, and its result is `Exited(Crashed(TaskTimeout))`."""


def stream(
    supervisor: DynamicShell,
    fn: Callable[[_I], Awaitable[_T]],
    items: Iterable[_I],
    *,
    max_concurrency: int | None,
    ordered: bool,
    timeout: float | None,
    on_timeout: OnTimeout,
    linked: bool,
    shutdown: ShutdownLimit,
) -> AsyncGenerator[Ok[_T] | Exited, None]:
    """Return the stream of results; see `TaskSupervisor.stream`.

    Raises:
        InvalidSpec: If an option can never work.
    """
    who, n = "stream", max_concurrency
    if n is None:
        n = os.cpu_count() or 1
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse(who, "max_concurrency", n, "a whole number of at least 1, or None")
    if timeout is not None:
        check_number(who, "timeout", timeout, "seconds of at least 0, or None", least=0)
    check_member(who, "on_timeout", on_timeout, OnTimeout)
    crew: _Crew[_I, _T] = _Crew(
        supervisor, fn, n, timeout, on_timeout, ordered=ordered, linked=linked, shutdown=shutdown
    )
    return _results(crew, items)


async def _results(
    crew: _Crew[_I, _T], items: Iterable[_I]
) -> AsyncGenerator[Ok[_T] | Exited, None]:
    """Order tasks and yield results, in turns, until the items are used up or something fails."""
    waiting = iter(items)
    more = True
    owner = current_or_none()
    crew.serve(None if owner is None else live_of(owner))
    try:
        while True:
            crew.check()
            if more:
                more = crew.fill(waiting)
            if crew.has_result:
                yield crew.next_result()
            elif crew.busy:
                await crew.news()
            else:
                return
    finally:
        await crew.dismiss()


@final
class _Job(Generic[_I, _T]):
    """A task of a stream, from its order to its end. What becomes of it is pushed.

    Attributes:
        crew: The stream's.
        number: Of its item, from 0.
        item: Its item.
        value: Where it leaves its result.
        process: The process it runs in; None until it has been started.
        late: Why it was killed, if that was for its slowness.
    """

    __slots__ = ("_line", "crew", "item", "late", "number", "process", "value")

    def __init__(self, crew: _Crew[_I, _T], number: int, item: _I) -> None:
        self.crew = crew
        self.number = number
        self.item = item
        self.value: list[_T] = []
        self.process: LiveProcess | None = None
        self.late: TaskTimeout | None = None
        self._line: Line | None = None

    def done(self) -> bool:
        """No: it is to be started, or ended, whatever has become of its stream."""
        return False

    def set_result(self, answer: tuple[RequestReply, LiveProcess | None], /) -> None:
        """Hear that it has been started, or why not."""
        reply, self.process = answer
        self.crew.answered(self, reply)

    def limit(self, seconds: float, process: LiveProcess) -> None:
        """Let it take so long."""
        self._line = process.parent.tree.deadlines.set(seconds, self)

    def overdue(self) -> None:
        """It has taken too long."""
        self.crew.expired(self)

    def ended(self, process: Process, reason: ExitReason) -> None:
        """It has ended."""
        if self._line is not None:
            self._line.meet(self)
        self.crew.ended(self, process, reason)


@final
class _Crew(Generic[_I, _T]):
    """The tasks of one stream. Nothing waits for one of them by itself."""

    def __init__(
        self,
        supervisor: DynamicShell,
        fn: Callable[[_I], Awaitable[_T]],
        size: int,
        timeout: float | None,
        on_timeout: OnTimeout,
        *,
        ordered: bool,
        linked: bool,
        shutdown: ShutdownLimit,
    ) -> None:
        self._supervisor = supervisor
        self._fn = fn
        self._spec = ChildSpec(
            name_of(fn), self._work, restart=Restart.TEMPORARY, shutdown=shutdown
        )
        self._size = size
        self._timeout = timeout
        self._on_timeout = on_timeout
        self._ordered = ordered
        self._linked = linked
        self._owner: LiveProcess | None = None
        self._asked_by: Chain = None
        self._forget_owner: Callable[[], object] = lambda: None
        self._added = 0
        self._yielded = 0
        self._jobs: dict[int, _Job[_I, _T]] = {}  # ordered, and not ended yet
        self._started: dict[Process, _Job[_I, _T]] = {}  # of these, who has a process
        self._results: dict[int, Ok[_T] | Exited] = {}  # not yet yielded, by number, as they ended
        self._end: ExitReason | None = None  # with which all tasks are to end
        self._failure: TaskFailed | TaskTimeout | ChildError | None = None
        self._news: asyncio.Future[None] | None = None

    def serve(self, owner: LiveProcess | None) -> None:
        """End with `owner`, however it ends; None is code outside of processes."""
        self._owner = owner
        self._asked_by = chain()
        if owner is not None:
            self._forget_owner = owner.on_exit(lambda _, reason: self._shut_down(reason))

    @property
    def _binds(self) -> bool:
        """Whether a task's failure ends its owner; an owner that traps exits gets it as result."""
        free = self._end is not None or (self._owner is not None and traps(self._owner))
        return self._linked and not free

    @property
    def busy(self) -> bool:
        """Whether any task was ordered and has not ended."""
        return bool(self._jobs)

    @property
    def has_result(self) -> bool:
        """Whether the next result is there."""
        return self._yielded in self._results if self._ordered else bool(self._results)

    @property
    def _has_room(self) -> bool:
        """Whether one more task may be started.

        While results wait to be yielded they count as well, or a slow reader of the stream would
        let them pile up. Only behind a slow task that holds up the order they must not count.
        """
        kept = len(self._results) if self.has_result else 0
        return len(self._jobs) + kept < self._size

    def fill(self, items: Iterator[_I]) -> bool:
        """Order tasks while there is room, and return whether there may be more items."""
        while self._has_room:
            try:
                item = next(items)
            except StopIteration:
                return False
            job: _Job[_I, _T] = _Job(self, self._added, item)
            self._supervisor.order_child(self._spec, job)  # one for all of them
            self._jobs[job.number] = job
            self._added += 1
        return True

    async def _work(self) -> None:
        process = live_of(current())
        job = self._started[process]
        set_callers(self._asked_by)
        if self._timeout is not None:  # not before: no task is late that has not had its turn
            job.limit(self._timeout, process)
        job.value.append(await self._fn(job.item))

    def answered(self, job: _Job[_I, _T], reply: RequestReply) -> None:
        """A task has been started, or was refused."""
        process = job.process
        if process is None or reply.refusal is not None:
            del self._jobs[job.number]
            self._fail(self._supervisor.error_of(reply))
            self._wake()
            return
        self._started[process] = job
        if self._end is not None:  # it is not wanted any more
            process.stop(reason=self._end)
        process.on_exit(job.ended)

    def ended(self, job: _Job[_I, _T], process: Process, reason: ExitReason) -> None:
        """A task has ended, with a result or for `reason`."""
        del self._jobs[job.number], self._started[process]
        result: Ok[_T] | Exited = Ok(job.value[0]) if job.value else Exited(reason)
        if job.late is not None:
            result = Exited(Crashed(job.late))
        elif isinstance(result, Exited) and self._binds:
            signal = signal_of(reason)
            if signal is not None:
                self._fail(TaskFailed(process.path, reason))
                if self._owner is not None:
                    self._owner.order_stop(reason=signal)
        self._results[job.number] = result
        self._wake()

    def expired(self, job: _Job[_I, _T]) -> None:
        """The time of a task is over."""
        process = job.process
        if process is None or not process.runs:
            return  # it ended in this very turn of the loop, and the news is on the way
        error = TaskTimeout(f"{process.path}: took longer than timeout={self._timeout:g} s")
        if self._on_timeout is OnTimeout.KILL_TASK:
            job.late = error
            process.kill()
        else:
            self._fail(error)
            self._wake()

    def _fail(self, error: TaskFailed | TaskTimeout | ChildError | None) -> None:
        if self._failure is None:
            self._failure = error

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def news(self) -> None:
        """Wait until a task has ended, or its time is over, or it was refused."""
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def next_result(self) -> Ok[_T] | Exited:
        """Take the result that is next."""
        number = self._yielded if self._ordered else next(iter(self._results))
        self._yielded += 1
        return self._results.pop(number)

    def check(self) -> None:
        """Raise the failure of the stream, if any."""
        if self._failure is not None:
            raise self._failure

    def _shut_down(self, reason: ExitReason) -> None:
        """Begin to end all tasks, which are unlinked by now."""
        self._end = signal_of(reason) or Shutdown()
        for job in self._jobs.values():
            if job.process is not None:  # else when it has been started
                job.process.order_stop(reason=self._end)

    async def dismiss(self) -> None:
        """End all tasks and return when they are gone; cancelled, they end all the same."""
        self._forget_owner()
        self._shut_down(Shutdown())
        while self._jobs:
            await self.news()
