"""What all supervisors of one tree share."""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections import deque
from contextvars import ContextVar, copy_context
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from otpy._core.reason import Shutdown
from otpy._core.text import shown
from otpy._runtime.deadlines import Deadlines
from otpy._runtime.handles import SupervisorHandle
from otpy._runtime.hooks import Hooks
from otpy._runtime.portal import Calls
from otpy._runtime.preemption import SHORTEST, Preemptor, Watched
from otpy._runtime.waiters import HasPath, Waiters, release, wait_among
from otpy.errors import WrongThread
from otpy.reports import ChildAbandoned, HookFailed, Report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from otpy._core.reason import ExitReason
    from otpy._runtime.current import OneLife
    from otpy._runtime.handles import Process
    from otpy.reports import ReportHook

    Body: TypeAlias = Callable[..., Awaitable[Any]]
    MakeSupervisor: TypeAlias = Callable[..., Any]
    """Takes a spec, the tree and the process of the supervisor, which is None for the root."""


class Member(HasPath, Protocol):
    """A process or a supervisor, which ends when a decision of its own broke off."""

    def fail(self, error: BaseException) -> None:
        """End because of `error`."""


class Root(SupervisorHandle):
    """The supervisor at the top, as its tree knows it; every supervisor can be one."""

    @property
    @abstractmethod
    def begins(self) -> bool:
        """Whether it has not started yet, and was not told to end."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """End with `error`: a decision broke off, and its progress is unknown."""

    @abstractmethod
    def shut_down(self, reason: ExitReason) -> None:
        """Begin to stop, soon, to end with `reason`; do not wait."""


class Sweeper(Protocol):
    """Ends the tasks that children of the tree have left behind: `Leftovers`."""

    def ended(self, life: OneLife) -> None:
        """`life` is over: find out whether it left anything."""

    def outlived(self, process: Process) -> None:
        """The task of `process`, which had been given up, has ended at last."""

    def settled(self) -> bool:
        """Whether nothing of the tree runs any more, or what does has been given up."""
        ...

    async def change(self) -> None:
        """Wait until tasks have ended or were given up."""


class Interposer(Protocol):
    """Stands between the supervisors of one tree and their workers: a test kit."""

    def around(self, process: Process, body: Body) -> Body:
        """Return what the life `process` calls in place of `body`, with the same arguments."""
        ...

    def lets_cancel(self, process: Process) -> bool:
        """Whether a cancellation by which its supervisor ends `process` reaches its task."""
        ...


INTERPOSER: Final[ContextVar[Callable[[Tree], Interposer]]] = ContextVar("otpy.interposer")
"""Makes the interposer of a tree that is being started; unset, there is none."""

_PATIENCE: Final = 1.0
"""Seconds after which a supervisor that could not even fail tries again."""


@final
class Tree:
    """The event queue and the report stream of one tree.

    No supervisor ever runs on the stack of a user's code, which may end anywhere: at the recursion
    limit, or where memory does. What such code asks for is an `order`, which is either not given
    or carried out by the loop. The loop's own callbacks `enqueue`. A decision that breaks off even
    there ends its supervisor; see `Shell.fail`.

    Attributes:
        loop: The event loop; its clock is the tree's only one.
        context: The context variables of the host when it started the tree. Every child begins
            with a copy of them, whatever an earlier incarnation set.
        root: The supervisor at the top, as soon as there is one.
        up: Whether the root is ready, or was.
        thread: The thread that the loop runs in.
        calls: The waiting calls of other threads, through a portal.
        make: Makes the supervisors of the tree from their specs.
        hooks: The receivers of the reports, in order of subscription.
        task_class: What a simulated loop makes children's tasks of; None normally.
        deadlines: Of those who wait for an answer of one of its processes, and of its stops.
        abandoned: Children that refused to end, with what was left of each: see `ChildAbandoned`.
        leftovers: Ends the tasks that its children have left behind.
        preemptor: What interrupts steps that take too long; None as long as no child wants it.
        interposer: The test kit's layer between its supervisors and their children; None normally.
        interruption: The `SystemExit` or `KeyboardInterrupt` that came out of a hook or callback,
            and is raised out of the block when the tree has been shut down; None normally.
    """

    __slots__ = (
        "_draining",
        "_orders",
        "_queue",
        "_waiters",
        "abandoned",
        "calls",
        "context",
        "deadlines",
        "hooks",
        "interposer",
        "interruption",
        "leftovers",
        "loop",
        "make",
        "preemptor",
        "random",
        "root",
        "task_class",
        "thread",
        "up",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        hooks: Iterable[ReportHook],
        make: MakeSupervisor,
        sweep: Callable[[Tree], Sweeper],
    ) -> None:
        """Make a tree that holds nothing yet."""
        self.loop = loop
        self.make = make
        self.root: Root | None = None
        self.up = False
        self.task_class: type[asyncio.Task[Any]] | None = getattr(loop, "task_class", None)
        self.context = copy_context()
        self.deadlines = Deadlines(loop, self.context)
        self.hooks = Hooks(hooks)
        self.abandoned: dict[Process, str] = {}
        self.leftovers = sweep(self)
        self.preemptor: Preemptor | None = None
        self.random: Callable[[], float] = random.random  # jitter, not cryptography
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._draining = False
        self._orders: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.thread = get_ident()
        self.calls = Calls(loop, self.thread)
        self.interruption: BaseException | None = None
        self._waiters: Waiters[None] = {}
        interpose = INTERPOSER.get(None)
        self.interposer: Interposer | None = None if interpose is None else interpose(self)

    def order(self, do: Callable[..., None], *args: Any) -> bool:
        """Let the loop carry out `do(*args)`, soon; from any code, in any thread, on any stack.

        Orders of one thread are carried out as they were given. An order that raises here was not
        given: to append it to what the loop has to do is the last step.

        Returns:
            Whether this is the loop's own thread.
        """
        if get_ident() != self.thread:
            self.loop.call_soon_threadsafe(self.enqueue, do, *args, context=self.context)
            return False
        if not self._orders:  # else they are carried out soon, and this one behind them
            self.loop.call_soon(self._carry_out, context=self.context)
        self._orders.append((do, args))
        return True

    def _carry_out(self) -> None:
        """Carry out the orders that were given until now."""
        orders, self._orders = self._orders, deque()
        try:
            while orders:
                do, args = orders.popleft()
                self.enqueue(do, *args)
        finally:
            if orders:  # Ctrl-C strikes anywhere
                orders.extend(self._orders)
                self._orders = orders
                self.loop.call_soon(self._carry_out, context=self.context)

    @property
    def stillborn(self) -> bool:
        """Whether it is ending, and has never been up."""
        return not self.up and self.root is not None and not self.root.begins

    def check_thread(self, of: HasPath) -> None:
        """Refuse what another thread would see, or do, in the middle of a change to the tree.

        Raises:
            WrongThread: If this is another thread than the loop's, and the tree has not ended.
        """
        if get_ident() != self.thread and not (self.root is not None and self.root.ended):
            raise WrongThread(of.path)

    def enqueue(self, hear: Callable[..., None], *news: Any) -> None:
        """Deliver `news` to a supervisor or process, and go on until no news is left.

        For the loop's own callbacks only. One queue for the whole tree and one loop over it: a
        failure that climbs a hundred levels takes a hundred turns of this loop and no recursion.
        """
        try:
            self._queue.append((hear, news))
            if not self._draining:
                self._drain()
        except BaseException:  # disturbed before anybody heard it
            last = self._queue[-1] if self._queue else (None, None)
            if last[0] is not hear or last[1] is not news:
                self._queue.append((hear, news))
            self.loop.call_soon(self._drain, context=self.context)
            raise

    def _drain(self) -> None:
        """Deliver all queued news."""
        hear: Callable[..., None] | None = None
        while self._queue:
            try:
                self._draining = True
                hear, news = self._queue.popleft()
                hear(*news)
                hear = None
            except BaseException as error:  # noqa: BLE001 - whose it is must end, and only that
                self._broken(hear, error)
            finally:
                self._draining = False
        if self._waiters:
            release(self._waiters, None)

    def _broken(self, hear: Callable[..., None] | None, error: BaseException) -> None:
        """Let the supervisor fail that could not finish its part of a decision."""
        if isinstance(error, KeyboardInterrupt | SystemExit):  # Ctrl-C strikes anywhere
            self.interrupt(error)
        owner: Member | None = getattr(hear, "__self__", None)
        if owner is None:
            return
        try:
            owner.fail(error)
        except BaseException:  # noqa: BLE001 - out of memory, say, and still so
            self.call_later(_PATIENCE, self.enqueue, owner.fail, error)

    def interrupt(self, error: BaseException) -> None:
        """Shut the tree down in order; `error` is raised out of the block then."""
        if self.interruption is None:
            self.interruption = error
        if self.root is not None:
            self.root.shut_down(Shutdown(type(error).__name__))

    async def next_change(self) -> None:
        """Wait until something has happened in the tree and all that follows at once is done."""
        assert self.root is not None  # noqa: S101 - it was made before anything could change
        await wait_among(self._waiters, self.loop, self.root)

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """Call `callback` after `seconds`, outside of any child's context."""
        return self.loop.call_later(seconds, callback, *args, context=self.context)

    def call_at(self, when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `callback` at a time of the loop's clock, outside of any child's context."""
        return self.loop.call_at(when, callback, context=self.context)

    def watched(self, process: Process) -> Watched:
        """Return what watches the steps of `process`, whose spec has a `max_step`.

        Raises:
            CannotInterrupt: If none could be interrupted.
        """
        if self.preemptor is None:
            self.preemptor = Preemptor.join(process.path)
        limit = getattr(process.spec, "max_step", None)
        return Watched(process, limit or SHORTEST, self.preemptor)

    def gave_up_on(
        self, process: Process, what: str, stack: tuple[str, ...], name: str = ""
    ) -> None:
        """Note that `process`, or its leftovers, refused to end."""
        self.abandoned.setdefault(process, what)
        self.report(
            ChildAbandoned(
                path=process.path,
                time=self.loop.time(),
                incarnation=process.incarnation,
                restarts=process.restarts,
                what=what,
                stack=stack,
                name=name,
            )
        )

    def report(self, report: Report) -> None:
        """Give `report` to every hook; a hook that raises is taken off the stream.

        That is reported to the other hooks, and to the loop's exception handler if none of them
        takes it. `SystemExit` and `KeyboardInterrupt` are not failures of a hook: see `interrupt`.
        """
        unheard = [report]
        for told in unheard:  # failures after the report itself, so that all hooks get one order
            heard = told is report
            for hook in tuple(self.hooks):
                try:
                    hook(told)
                except (KeyboardInterrupt, SystemExit) as error:
                    self.interrupt(error)
                    heard = True
                except BaseException as error:  # noqa: BLE001 - a hook must not disturb the tree
                    if hook in self.hooks:
                        self.hooks.remove(hook)
                    unheard.append(self._failed(hook, told.path, error))
                else:
                    heard = True
            if not heard and isinstance(told, HookFailed):
                self._complain(told)

    def guarded(self, path: str, callback: Callable[..., object], *args: object) -> bool:
        """Call a user's `callback`; report an exception; return whether there was none."""
        try:
            callback(*args)
        except (KeyboardInterrupt, SystemExit) as error:
            self.interrupt(error)
        except BaseException as error:  # noqa: BLE001 - a callback must not disturb the tree
            self.report(self._failed(callback, path, error))
            return False
        return True

    def _failed(self, hook: object, path: str, error: BaseException) -> HookFailed:
        return HookFailed(path=path, time=self.loop.time(), hook=shown(hook), error=error)

    def _complain(self, failure: HookFailed) -> None:
        self.loop.call_exception_handler(
            {
                "message": f"otpy took the report hook {failure.hook} off the tree: it raised",
                "exception": failure.error,
            }
        )
