"""One incarnation of one child, and how it is brought to an end."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, cast, final

from otpy._core.protocol import ChildIgnored, ChildReady, StartFailure
from otpy._core.reason import (
    KILLED,
    NORMAL,
    SHUTDOWN,
    Abandoned,
    Crashed,
    Normal,
    Shutdown,
    declines,
)
from otpy._runtime import links
from otpy._runtime.child_task import life_in
from otpy._runtime.crash import call_failed, let_go, part, reason_for
from otpy._runtime.current import current, current_or_none
from otpy._runtime.inner import InnerProcess, Watchers
from otpy._runtime.stack import threads_exist
from otpy._runtime.stop import StopSequence
from otpy._runtime.waiters import Waiters, check_loop, release, wait_among
from otpy.errors import CallFailed, ChildNotReady, StartTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.child import Child
    from otpy._core.reason import ExitReason
    from otpy._core.spec import AnySpec
    from otpy._runtime.behaviour import Behaviour
    from otpy._runtime.current import OneLife
    from otpy._runtime.handles import AnySupervisor, Monitor, Process
    from otpy._runtime.inner import InnerSupervisor
    from otpy.errors import ChildError


@final
class _ColdState:
    """What few processes have, in an object of its own, made on first use."""

    __slots__ = ("asked", "on_exit", "watchers", "start_timers", "told", "value", "waiters")

    def __init__(self) -> None:
        self.value: object = None
        self.watchers: Watchers | None = None
        self.asked: asyncio.Future[None] | None = None
        self.start_timers: tuple[asyncio.TimerHandle, ...] = ()
        self.told: ExitReason | None = None
        self.waiters: Waiters[ExitReason] = {}
        self.on_exit: dict[object, Callable[[Process, ExitReason], object]] = {}


class LiveProcess(InnerProcess):
    """A `Process` as the runtime sees it: the same object, with the operations of the engine.

    Users hold it as a `Process`, whose operations are all that type checkers let them use.
    """

    __slots__ = (
        "__weakref__",
        "_child",
        "_cold",
        "_ending",
        "_exit",
        "_ready",
        "incarnation",
        "last_exit",
        "parent",
        "restarts",
    )

    supervisor: InnerSupervisor | None = None  # of the class: most processes are workers
    _child: Child
    _ready: bool
    _exit: ExitReason | None
    _ending: StopSequence | ExitReason | None  # afterwards only its reason is kept
    _cold: _ColdState | None

    def __init__(self, parent: InnerSupervisor, child: Child) -> None:
        """Make the process of the incarnation that `child` is about to begin."""
        self.parent = parent  # pyright: ignore[reportIncompatibleVariableOverride]
        self.incarnation = child.incarnation
        self.restarts = child.restarts
        self.last_exit = child.last_exit
        self.behaviour = None
        self.task = None
        self._child = child
        self._ready = child.spec.ready_at_once
        self._exit = None
        self._ending = None
        self._cold = None

    def __repr__(self) -> str:
        """Return path, incarnation and state."""
        state = "alive" if self._exit is None else str(self._exit)
        return f"<Process {self.path!r} incarnation={self.incarnation} {state}>"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Travel to another program as its path, by which it can be found."""
        return str, (self.path,)

    def __copy__(self, memo: object = None) -> Process:
        """Return itself: there is one handle for each life."""
        return self

    __deepcopy__ = __copy__

    @property
    def id(self) -> str:
        return self._child.key

    @property
    def path(self) -> str:
        return f"{self.parent.path}/{self._child.key}"

    @property
    def spec(self) -> AnySpec:
        return self._child.spec

    @property
    def value(self) -> Any:
        return None if self._cold is None else self._cold.value

    def _ensure_cold(self) -> _ColdState:
        if self._cold is None:
            self._cold = _ColdState()
        return self._cold

    @property
    def root(self) -> AnySupervisor:
        return cast("AnySupervisor", self.parent.tree.root)  # made before any process

    @property
    def alive(self) -> bool:
        return self._exit is None

    @property
    def exit_reason(self) -> ExitReason | None:
        return self._exit

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def requested(self) -> ExitReason:
        return self.ending or SHUTDOWN

    async def wait(self) -> ExitReason:
        if self._exit is not None:
            return self._exit
        loop = self.parent.tree.loop
        check_loop(loop, self)  # before anything is made
        return await wait_among(self._ensure_cold().waiters, loop, self)

    def on_exit(self, callback: Callable[[Process, ExitReason], object]) -> Callable[[], object]:
        tree = self.parent.tree
        tree.check_thread(self)
        if self._exit is not None:
            tree.guarded(self.path, callback, self, self._exit)
            return lambda: None
        callbacks, token = self._ensure_cold().on_exit, object()
        callbacks[token] = callback
        return partial(callbacks.pop, token, None)

    async def stop_requested(self) -> None:
        loop = self.parent.tree.loop
        check_loop(loop, self)
        cold = self._ensure_cold()
        if cold.asked is None:
            cold.asked = loop.create_future()
            if self._ending is not None or self._exit is not None:
                cold.asked.set_result(None)
        await asyncio.shield(cold.asked)

    def exit(self, reason: ExitReason | None = None) -> None:
        tree, sender = self.parent.tree, current_or_none()
        if get_ident() != tree.thread:
            tree.order(self.exit_by, sender, reason or SHUTDOWN)
        elif links.ends(self, sender, reason or Shutdown()):
            self.order_stop(reason=reason or SHUTDOWN)

    def kill(self) -> None:
        self.order_stop(kill=True)

    async def suspend(self, timeout: float | None = 5.0) -> None:
        await self._looked_into().suspend(timeout)

    async def resume(self, timeout: float | None = 5.0) -> None:
        await self._looked_into().resume(timeout)

    async def get_state(self, timeout: float | None = 5.0) -> Any:
        return await self._looked_into().get_state(timeout)

    def _looked_into(self) -> Behaviour:
        behaviour = self.behaviour
        if behaviour is not None:
            return behaviour
        if self._exit is None:
            raise CallFailed(self.path, None, "is not a GenServer")
        raise call_failed(self.path, self._exit)

    def monitor(self) -> Monitor:
        return links.LiveMonitor(self)

    def link(self, other: Process | None = None) -> None:
        links.link(self, live_of(other or current()))

    def unlink(self, other: Process | None = None) -> None:
        links.unlink(self, live_of(other or current()))

    @property
    def watchers(self) -> Watchers | None:
        """Its monitors and links; None if it never had any."""
        return None if self._cold is None else self._cold.watchers

    def ensure_watchers(self) -> Watchers:
        """Return its monitors and links, made on first use; for the runtime."""
        cold = self._ensure_cold()
        if cold.watchers is None:
            cold.watchers = Watchers()
        return cold.watchers

    @property
    def runs(self) -> bool:
        """Whether it is alive and its task is not done, even if that was not told yet."""
        return self._exit is None and (self.task is None or not self.task.done())

    def exit_by(self, sender: Process | None, reason: ExitReason) -> None:
        """Ask it to end with `reason`, as code of `sender` has asked in another thread."""
        if links.ends(self, sender, reason):
            self.stop(reason=reason)

    def order_stop(self, *, kill: bool = False, reason: ExitReason = KILLED) -> None:
        """Let the loop begin to end it, soon; from any code, in any thread.

        Should it return before that, by its own code or not, then because of this; unless another
        thread asked for it, which cannot tell what comes first.
        """
        if self._exit is not None:
            return
        here = self.parent.tree.order(self.stop, kill, reason)
        if here and self._ending is None and self.runs:
            cold = self._ensure_cold()
            if cold.told is None or kill:
                cold.told = reason
            if self.behaviour is not None:
                self.behaviour.expect_stop(kill=kill)

    def fail(self, error: BaseException) -> None:
        """Let its supervisor fail: an operation on this process broke off."""
        try:
            task = self.task
            over = self.supervisor is None and (task is None or task.done())
            if over or self._exit is not None:  # the task does not tell its end a second time
                self.end(Crashed(error))
        finally:
            self.parent.fail(error)

    def fail_start(self, error: BaseException) -> None:
        """Record a crash: its start broke off."""
        task, self.task = self.task, None
        self.end(Crashed(error))
        if task is not None:
            task.cancel()

    def stop(  # the arguments of an order have no names
        self,
        kill: bool = False,  # noqa: FBT001, FBT002
        reason: ExitReason | None = None,
        asks: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Begin to end it: ask, cancel, cancel again, give up; see `StopSequence`.

        For the loop's callbacks; all others `order_stop`. A kill overtakes a stop that was begun
        before. Without `asks` it begins by the cancellation.
        """
        if self._exit is not None:
            return
        if self.task is None and self.supervisor is None:  # its start broke off
            self.end(KILLED)
            return
        before: Any = self._ending  # a `StopSequence` or None, because it is alive
        if before is not None:
            if not kill or before.kills:
                return
            before.over()
        task = self.task
        done = task is not None and task.done()
        if done:  # it had a reason of its own, or ended as it was told before
            reason = self.ending
        else:
            reason = KILLED if kill else reason or SHUTDOWN
            if self._cold is not None:
                self._cold.told = None  # from now on it is up to the process how it ends
        # Before its first step, which may end this process at once:
        ending = self._ending = StopSequence(self, reason)
        ending.begin(kill=kill, done=done, asks=asks)
        if before is not None and before.lingers:
            ending.linger()

    def limit_remaining_start(self, seconds: float | None) -> None:
        """End it if it is not ready within `seconds`, or now if its tree will never be up."""
        if self.supervisor is not None:
            self.stop(kill=False)  # with its own deadline, as a supervisor that is ready
        elif self.parent.tree.stillborn:
            if not self._ready:
                self.stop(kill=False, asks=False)
        elif seconds is not None and not self._ready:
            self._add_start_timer(seconds, self.stop, True)

    def limit_start(self, seconds: float) -> None:
        """End it, with `StartTimeout`, if it is not ready within `seconds`."""
        self._add_start_timer(seconds, self._late, seconds)

    def _late(self, seconds: float) -> None:
        self.cut(StartTimeout(self.path, f"start_timeout={seconds:g} s"))

    def cut(self, error: ChildError) -> None:
        """End it as a kill does, because of a limit: with `error` where a kill has no reason.

        For the loop's callbacks.
        """
        if self._ending is not None or self._exit is not None:
            return  # it is being ended already, by its own deadlines
        ending = self._ending = StopSequence(self, Crashed(error))
        ending.begin(kill=True, done=self.task is not None and self.task.done())

    def _add_start_timer(self, seconds: float, late: Callable[..., None], *args: Any) -> None:
        tree = self.parent.tree
        self._ensure_cold().start_timers += (tree.call_later(seconds, tree.enqueue, late, *args),)

    @property
    def ending(self) -> ExitReason | None:
        """The reason it is being ended with, or was; None if it was not told to end."""
        ending = self._ending
        if ending is None:
            return None if self._cold is None else self._cold.told
        return ending.reason if isinstance(ending, StopSequence) else ending

    @property
    def asked(self) -> asyncio.Future[None] | None:
        """Resolved when it is asked to stop; None until a task first waits for that."""
        return None if self._cold is None else self._cold.asked

    def report_ready(self, value: object = None) -> None:
        """Note that the child is ready, and tell its supervisor."""
        if self._ready:
            msg = f"{self.path}: task_status.started() was called twice"
            raise RuntimeError(msg)
        self.mark_ready()
        if value is not None:
            self._ensure_cold().value = value
        # Not at once: the supervisor would start the next sibling inside this child's own step.
        tree = self.parent.tree
        tree.loop.call_soon(self._tell_ready, context=tree.context)

    def _tell_ready(self) -> None:
        if self._exit is None:  # else it was given up in this very turn, and its id may be reused
            self.parent.enqueue(ChildReady(self._child.key, self.incarnation))

    def mark_ready(self) -> None:
        """Note that the child is ready; its time limits for starting are over."""
        self._ready = True
        self._cancel_start_timers()

    def _cancel_start_timers(self) -> None:
        if self._cold is not None and self._cold.start_timers:
            for timer in self._cold.start_timers:
                timer.cancel()
            self._cold.start_timers = ()

    def record_end(self, error: BaseException | None, cancelled: bool = False) -> None:  # noqa: FBT001, FBT002 - it is news
        """Its life is over; wait for threads it has left behind if it was told to end."""
        if self._exit is not None:  # it was abandoned, and has ended at last
            self.parent.tree.leftovers.outlived(self)
            return
        ending: Any = self._ending  # a `StopSequence` or None, because it was alive until now
        if error is not None:
            reason = reason_for(error)
        elif cancelled:  # AIO-08: a stranger's cancellation has no reason
            reason = KILLED if ending is None else ending.reason or KILLED
        elif self._cold is not None and self._cold.told is not None:
            reason = self._cold.told
        else:
            complied = self.asked is not None and self.asked.done()
            reason = (self.ending if complied else None) or NORMAL
        if ending is None or not threads_exist() or not ending.waits_for_threads(reason):
            self.end(reason)

    def end(self, reason: ExitReason) -> None:
        """Mark it as ended or given up: tell its supervisor and all waiting callers.

        May be called again if the first call broke off: recipients ignore the second notice.
        """
        if self._exit is None:
            ending = self._ending
            if isinstance(ending, StopSequence):
                self._ending = ending.reason  # not itself: it leads back here
                ending.over()
            if self._cold is not None:
                self._cancel_start_timers()
            self._exit = reason if self._ready else self._failed_start(reason)
        life: OneLife | None = self.behaviour
        if life is None and self.task is not None:
            life = life_in(self.task, self)
        self.task = None  # it leads back here: nothing for the collector to find
        if isinstance(self.last_exit, Crashed) and isinstance(self._exit, Crashed):
            part(self._exit.error, self.last_exit.error, self._child)
        if not self._ready and self._child.process is self:
            self._child.process = None  # else it is listed until its supervisor has dealt with it
        parent, reason = self.parent, self._exit
        try:
            if self._cold is not None:
                release(self._cold.waiters, reason)
            if self.behaviour is not None:
                self.behaviour.ended(reason)
            if self._cold is not None:  # a behaviour may have made it just now
                self._tell_watchers(self._cold, reason)
        finally:  # its supervisor last, and also if telling the others broke off
            key, incarnation = self._child.key, self.incarnation
            if self._ready:
                parent.tree.enqueue(parent.child_exited, self._child, incarnation, reason)
            elif isinstance(reason, Normal):
                parent.enqueue(ChildIgnored(key, incarnation))
            else:
                parent.enqueue(StartFailure(key, incarnation, reason))
            if life is not None:  # asked when all have let go of it who were told
                parent.tree.leftovers.ended(life)
        if isinstance(reason, Crashed) and not parent.tree.hooks:
            let_go(reason.error)  # else when they have been told

    def _failed_start(self, reason: ExitReason) -> ExitReason:
        """Return why it was never ready, having ended with `reason`; `Normal` if it declined."""
        if declines(reason):
            return NORMAL
        return Crashed(ChildNotReady(self.path)) if isinstance(reason, Normal) else reason

    def _tell_watchers(self, cold: _ColdState, reason: ExitReason) -> None:
        links.ended(self, reason)
        for token in tuple(cold.on_exit):
            callback = cold.on_exit.pop(token, None)  # one before it may have taken it back
            if callback is not None:
                self.parent.tree.guarded(self.path, callback, self, reason)

    def hear_of(self, partner: InnerProcess, reason: ExitReason) -> None:
        """Hear that `partner` had ended before it was linked."""
        links.send(self, partner, reason)

    def abandon(self, what: str, stack: tuple[str, ...]) -> None:
        """Give it up: it refused to end."""
        self.parent.tree.gave_up_on(self, what, stack)
        self.end(Abandoned(stack))


@final
class SupervisorProcess(LiveProcess):
    """The process of a supervisor: it has one attribute more, which workers need not keep."""

    __slots__ = ("supervisor",)

    def __init__(self, parent: InnerSupervisor, child: Child) -> None:
        """Make the process of a supervisor, which is yet to be made."""
        super().__init__(parent, child)
        self.supervisor = None


def live_of(process: Process[Any]) -> LiveProcess:
    """Return `process` as the runtime knows it: no process was ever made as anything else."""
    return cast("LiveProcess", process)
