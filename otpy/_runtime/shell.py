"""What static and dynamic supervisors share: performing the effects of their machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, assert_never, cast

from otpy._core.child import Child
from otpy._core.phase import Phase
from otpy._core.protocol import (
    KILL_GRACE,
    Begin,
    CancelTimer,
    ChildReady,
    ChildReconfigured,
    Finish,
    GoOn,
    HasteAsked,
    Hasten,
    Hurry,
    KillAsked,
    KillChild,
    Later,
    Pause,
    Ready,
    Refusal,
    Remember,
    RequestReply,
    SetTimer,
    ShutdownAsked,
    StopChild,
    Tell,
    TimerDue,
)
from otpy._core.reason import Crashed
from otpy._core.spec import BRUTAL_KILL, INFINITY, ChildSpec
from otpy._runtime.blame import Blame
from otpy._runtime.child_table import row_of
from otpy._runtime.child_task import run
from otpy._runtime.crash import let_go
from otpy._runtime.inner import InnerSupervisor
from otpy._runtime.life import body_of
from otpy._runtime.narrate import report_of
from otpy._runtime.process import LiveProcess, SupervisorProcess
from otpy._runtime.waiters import Waiters, release
from otpy._runtime.wreck import Wreck
from otpy.reports import SupervisorGaveUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.dynamic import DynamicMachine
    from otpy._core.machine import SupervisorMachine
    from otpy._core.protocol import Effect, Event
    from otpy._core.reason import ExitReason
    from otpy._core.spec import SupervisorSpec
    from otpy._runtime.tree import Tree


class Asker(Protocol):
    """The recipient of an answer: a future, or a similar object."""

    def done(self) -> bool:
        """Whether no answer is wanted any more."""
        ...

    def set_result(self, answer: Any, /) -> None:
        """Take the answer."""


class Shell(InnerSupervisor):
    """A supervisor at work. It has no task: events are handed to its machine by callbacks.

    Attributes:
        tree: The state shared by all supervisors of its tree.
        on_end: Called when it has ended.
        behaviour: The state of a behaviour that is built on it; None until there is one.
    """

    process: LiveProcess | None
    _name: ClassVar[str]

    def __init__(
        self,
        machine: SupervisorMachine | DynamicMachine,
        tree: Tree,
        process: LiveProcess | None = None,
    ) -> None:
        """Make a supervisor that has started nothing; for `Tree.make`."""
        self._machine = machine
        self.tree = tree
        self.process = process  # pyright: ignore[reportIncompatibleVariableOverride]
        self.path = machine.spec.id if process is None else process.path
        self._began = tree.loop.time()
        self._timers: dict[str, asyncio.Handle] = {}
        self._graces: tuple[asyncio.TimerHandle, ...] = ()  # when time runs short for the killed
        self._exit: ExitReason | None = None
        self._blame: Blame | None = None
        self._blames: dict[str, Blame] = {}  # why supervisors below failed, by key
        self._waiters: dict[str | None, Waiters[None]] = {}  # for a change of a child, by its key
        self._end_waiters: Waiters[ExitReason] = {}
        self._asked: dict[Asker, None] = {}  # who has no answer yet
        self._told: list[BaseException] = []  # crashes that the hooks are just hearing of
        self.on_end: Callable[[], None] | None = None
        self.behaviour: object = None

    @property
    def begins(self) -> bool:
        """Whether it has not started yet, and was not told to end."""
        return self._machine.phase is Phase.STARTING

    # --- events in, effects out ------------------------------------------------------------------

    def begin(self) -> None:
        """Start the initial children; for the loop's callbacks."""
        self.take(Begin())

    def enqueue(self, event: Event) -> None:
        """Hand `event` to the machine, after the queued ones; for the loop's callbacks."""
        self.tree.enqueue(self.take, event)

    def order(self, event: Event) -> None:
        """Let the loop hand `event` to the machine, soon; from any code, in any thread."""
        self.tree.order(self.take, event)

    def fail(self, error: BaseException) -> None:
        """End with `error`: a decision broke off, and its progress is unknown.

        It kills what it has and ends as a crash; the supervisor above hears of that and restarts
        it, or gives up. Safe to be called again, should it be disturbed itself.
        """
        if self._exit is not None:
            self._tell_end()
            return
        if not isinstance(self._machine, Wreck):
            self._machine = cast("SupervisorMachine", Wreck(self._machine, error))
            now, reason = self.tree.loop.time(), Crashed(error)
            self.tree.report(
                SupervisorGaveUp(path=self.path, time=now, child=self.path, reason=reason)
            )
        self.take(KillAsked(KILL_GRACE))

    def take(self, event: Event) -> None:
        """Let the machine decide, and perform its effects."""
        self._follow(self._machine.handle(event, self.tree.loop.time()))
        if self._waiters and isinstance(event, ChildReady):
            self._wake(event.key)

    def child_exited(self, child: Child, incarnation: int, reason: ExitReason) -> None:
        """Take the end of a child that had been ready."""
        self._follow(self._machine.exited(child, incarnation, reason, self.tree.loop.time()))

    def _follow(self, effects: list[Effect]) -> None:
        """Perform the effects of the machine."""
        for effect in effects:
            self._perform(effect)
        if self._told:
            self._let_go()
        if self._machine.forgotten:
            self._forget(self._machine.forgotten)

    def _forget(self, keys: list[str]) -> None:
        """Forget children that have left the table, and answer their waiting callers."""
        if self._blames and self._machine.phase is Phase.RUNNING:
            for key in keys:  # while it is ending, one of them may be to blame for that
                self._blames.pop(key, None)
        if self._waiters:
            for key in keys:
                self._wake(key)
        keys.clear()

    def _wake(self, key: str | None) -> None:
        """Wake callers that wait for a change of the child `key`; None is the supervisor."""
        release(self._waiters.get(key, {}), None)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Child():
                self._start(effect)
            case StopChild():
                process: LiveProcess | None = effect.child.process
                if process is not None:  # else it has ended already; the news is on the way
                    process.stop(effect.kill, effect.reason)
            case Tell():
                self._tell(effect)
            case Finish():
                self._finish(effect)
            case RequestReply():
                self._reply(effect)
            case SetTimer():
                self._set_timer(effect)
            case CancelTimer():
                self._cancel_timer(effect.child)
            case Hurry():
                self._hurry(effect.child)
            case Hasten() | KillChild():
                self._force(effect)
            case Later():
                timer = self.tree.call_later(effect.delay, self.enqueue, effect.event)
                self._graces += (timer,)
            case Pause():
                tree = self.tree
                tree.loop.call_soon(self.enqueue, GoOn(), context=tree.context)
            case Remember():
                self._remember(effect.spec)
            case Ready():
                self._now_ready()
            case _:
                assert_never(effect)

    def _tell(self, fact: Tell) -> None:
        self.tree.report(report_of(fact, self.path, self.tree.loop.time()))
        if isinstance(fact.reason, Crashed):
            error, told = fact.reason.error, self._told
            if not (told and told[-1] is error):  # it is told of twice: that, and what follows
                told.append(error)

    def _let_go(self) -> None:
        """Keep no variables of the crashes that the hooks have heard of."""
        told, self._told = self._told, []
        for error in told:
            let_go(error, shown=True)

    def _start(self, child: Child) -> LiveProcess:
        if self._blames:
            self._blames.pop(child.key, None)  # of an earlier life, or of another of this id
        tree, spec = self.tree, child.spec
        if not isinstance(spec, ChildSpec):
            leader = child.process = SupervisorProcess(self, child)
            made: Shell = tree.make(spec, tree, leader)
            leader.supervisor = made
            tree.enqueue(made.begin)
            return leader
        process = child.process = LiveProcess(self, child)
        if self._waiters:
            self._wake(child.key)
        try:
            if spec.register is not None:
                spec.register.__otpy_hold__(process)
            body = body_of(process, spec)
            if body is not None:
                run(process, body, tree.context.copy())
            elif process.behaviour is not None:
                process.behaviour.begin(spec.args, spec.kwargs)
            if spec.start_timeout is not None and not spec.ready_at_once:
                process.limit_start(spec.start_timeout)
        except Exception as error:  # noqa: BLE001 - a `start` that cannot even be looked at, or no memory
            process.fail_start(error)
        return process

    @staticmethod
    def _force(effect: Hasten | KillChild) -> None:
        process: LiveProcess | None = effect.child.process
        if process is None:
            return
        if process.supervisor is None:
            process.stop(kill=True)
        elif isinstance(effect, Hasten):
            process.supervisor.enqueue(HasteAsked())
        else:
            process.supervisor.enqueue(KillAsked())

    def _set_timer(self, effect: SetTimer) -> None:
        child, tree = effect.child, self.tree
        due = TimerDue(child.key, effect.token)
        timer: asyncio.Handle
        if effect.delay > 0:
            timer = tree.call_later(effect.delay, self._timer_due, due)
        else:  # the end of the loop's queue is the end of OTP's mailbox (SUP-612)
            timer = tree.loop.call_soon(self._timer_due, due, context=tree.context)
        self._timers[child.key] = timer

    def _cancel_timer(self, child: Child) -> None:
        timer = self._timers.pop(child.key, None)
        if timer is not None:
            timer.cancel()

    def _timer_due(self, due: TimerDue) -> None:
        self._timers.pop(due.key, None)
        self.enqueue(due)

    def _hurry(self, child: Child) -> None:
        limit = child.spec.shutdown
        seconds = None if limit is INFINITY else 0.0 if limit is BRUTAL_KILL else float(limit)
        process: LiveProcess | None = child.process
        if process is not None:
            process.limit_remaining_start(seconds)

    def _remember(self, spec: SupervisorSpec) -> None:
        if self.process is not None:
            news = ChildReconfigured(self.process.id, self.process.incarnation, spec)
            self.process.parent.enqueue(news)

    def _now_ready(self) -> None:
        self._wake(None)
        if self.process is not None:
            self.process.mark_ready()
            self.process.parent.enqueue(ChildReady(self.process.id, self.process.incarnation))
        else:
            self.tree.up = True

    def _finish(self, finish: Finish) -> None:
        self._exit = finish.reason
        if finish.failure is not None:
            below = self._blames.get(finish.failure.child_id)
            self._blame = Blame(self.path, finish.failure, self._began, below)
        if self._timers:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
        for timer in self._graces:
            timer.cancel()
        self._tell_end()

    def _tell_end(self) -> None:
        """Tell all listeners that it has ended; again, if that was disturbed."""
        assert self._exit is not None  # noqa: S101 - it has
        while self._asked:
            asker, _ = self._asked.popitem()
            if not asker.done():
                asker.set_result((RequestReply(None, refusal=Refusal.NOT_RUNNING), None))
        if self._end_waiters:
            release(self._end_waiters, self._exit)
        for waiters in self._waiters.values():
            release(waiters, None)
        process = self.process
        if process is not None:
            if process.alive:
                process.parent.note(process.id, self._blame)
            process.end(self._exit)
        else:
            self.tree.deadlines.clear()
            if self.tree.preemptor is not None:
                self.tree.preemptor.leave()
        if self.on_end is not None:
            self.on_end()

    def note(self, key: str, blame: Blame | None) -> None:
        """Remember why the supervisor `key` below this one ended."""
        if blame is None:
            self._blames.pop(key, None)
        else:
            self._blames[key] = blame

    def shut_down(self, reason: ExitReason) -> None:
        """Begin to stop, soon, to end with `reason`; do not wait."""
        self.order(ShutdownAsked(reason))

    def _reply(self, reply: RequestReply) -> None:
        asker: Any = reply.ref  # an `Asker`
        self._asked.pop(asker, None)
        if asker.done():  # the caller was cancelled; the request was executed (AIO-22)
            return
        reply.ref = None  # it leads back to the future that holds the reply
        if reply.rows is not None:  # seen now: later the caller would find a later table
            asker.set_result([row_of(*row) for row in reply.rows])
        else:
            process = reply.child.process if reply.child is not None else None
            asker.set_result((reply, process))

    def seen(self) -> tuple[Phase, tuple[Child, ...]]:
        """Return its phase, and the records of its children in start order; for `snapshot`."""
        return self._machine.phase, tuple(self._machine.children.values())

    def process_of(self, child: Child) -> LiveProcess | None:
        """Return the live process of `child`, if it has one."""
        process: LiveProcess | None = child.process
        return process if process is not None and process.alive else None
