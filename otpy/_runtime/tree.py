"""What all supervisors of one tree share."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeAlias, final

from otpy._runtime.deadlines import Deadlines
from otpy._runtime.interpose import INTERPOSER
from otpy._runtime.waiters import release, wait_among
from otpy.reports import ChildAbandoned, HookFailed, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextvars import Context

    from otpy._core.spec import DynamicSpec, SupervisorSpec
    from otpy._runtime.dynamic import DynamicSupervisor
    from otpy._runtime.interpose import Interposer
    from otpy._runtime.life import Life
    from otpy._runtime.preemption import Preemptor
    from otpy._runtime.process import Process
    from otpy._runtime.supervisor import Supervisor
    from otpy.reports import ReportHook

    AnySupervisor: TypeAlias = Supervisor | DynamicSupervisor
    MakeSupervisor: TypeAlias = Callable[
        [SupervisorSpec | DynamicSpec, "Tree", Process | None], AnySupervisor
    ]


@final
class Tree:
    """The event queue and the report stream of one tree.

    Attributes:
        loop: The event loop; its clock is the tree's only one.
        context: The context variables of the host when it started the tree. Every child begins
            with a copy of them, whatever an earlier incarnation set.
        root: The supervisor at the top, as soon as there is one.
        make: Makes the supervisors of the tree from their specs.
        hooks: Who gets the reports, in order of subscription.
        task_class: What children's tasks are: `asyncio.Task`, or what a simulated loop puts in its
            place.
        deadlines: Of those who wait for an answer of one of its processes.
        abandoned: Children that refused to end, with what was left of each: "task" or "thread".
        preemptor: What interrupts steps that take too long; None as long as no child wants it.
        interposer: What a test kit put between its supervisors and their children; None normally.
    """

    __slots__ = (
        "_draining",
        "_hear",
        "_queue",
        "_waiters",
        "abandoned",
        "context",
        "deadlines",
        "hooks",
        "interposer",
        "loop",
        "make",
        "preemptor",
        "random",
        "root",
        "task_class",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hooks: Iterable[ReportHook], make: MakeSupervisor
    ) -> None:
        """Make a tree that holds nothing yet."""
        self.loop = loop
        self.make = make
        self.root: AnySupervisor | None = None
        self.task_class: type[asyncio.Task[Any]] = getattr(loop, "task_class", asyncio.Task)
        self.context = copy_context()
        self.deadlines = Deadlines(loop, self.context)
        self.hooks = list(hooks)
        self.abandoned: dict[Process, str] = {}
        self.preemptor: Preemptor | None = None
        self.random: Callable[[], float] = random.random  # jitter, not cryptography
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._draining = False
        self._hear = self._task_done  # one callback for all tasks, found once
        self._waiters: list[asyncio.Future[None]] = []
        interpose = INTERPOSER.get(None)
        self.interposer: Interposer | None = None if interpose is None else interpose(self)

    def post(self, hear: Callable[..., None], *news: Any) -> None:
        """Let a supervisor hear `news`, and go on until nobody has any left.

        One queue for the whole tree and one loop over it: a failure that climbs a hundred levels
        takes a hundred turns of this loop and no recursion.
        """
        if self._draining:
            self._queue.append((hear, news))
            return
        self._draining = True
        try:
            hear(*news)
            while self._queue:
                hear, news = self._queue.popleft()
                hear(*news)
        finally:
            self._draining = False
        if self._waiters:
            release(self._waiters, None)

    @property
    def quiet(self) -> bool:
        """Whether no event is being dealt with, and nobody waits for one."""
        return not (self._draining or self._waiters)

    async def next_change(self) -> None:
        """Wait until something has happened in the tree and all that follows at once is done."""
        await wait_among(self._waiters, self.loop)

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """Call `callback` after `seconds`, outside of any child's context."""
        return self.loop.call_later(seconds, callback, *args, context=self.context)

    def call_at(self, when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `callback` at a time of the loop's clock, outside of any child's context."""
        return self.loop.call_at(when, callback, context=self.context)

    def run(self, life: Life, context: Context) -> None:
        """Let the process of `life` live in a task of its own, which runs it in `context`.

        Not by the loop's task factory: an eager one would run the child inside its supervisor.
        """
        process = life.process
        coro: Any = life  # which passes for one
        task = process.task = self.task_class(
            coro, loop=self.loop, name=process.path, context=context
        )
        task.add_done_callback(self._hear, context=self.context)

    @staticmethod
    def _task_done(task: asyncio.Task[Any]) -> None:
        life: Any = task.get_coro()
        process: Process = life.process
        if task.cancelled():
            process.lived(None, cancelled=True)
            return
        error = task.exception()
        if error is not None and error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # without the step of `Life` itself
        process.lived(error)

    def gave_up_on(self, process: Process, what: str, stack: tuple[str, ...]) -> None:
        """Note that `process` refused to end."""
        self.abandoned[process] = what
        self.report(
            ChildAbandoned(
                path=process.path,
                time=self.loop.time(),
                incarnation=process.incarnation,
                restarts=process.restarts,
                what=what,
                stack=stack,
            )
        )

    def report(self, report: Report) -> None:
        """Give `report` to every hook; one that raises is taken off the stream."""
        failed: list[Report] = []
        for hook in tuple(self.hooks):
            try:
                hook(report)
            except Exception as error:  # noqa: BLE001 - a hook must not disturb the tree
                if hook in self.hooks:
                    self.hooks.remove(hook)
                failed.append(
                    HookFailed(path=report.path, time=report.time, hook=repr(hook), error=error)
                )
        for failure in failed:  # after the report itself, so that all hooks get one order
            self.report(failure)
