"""What every running supervisor offers, static or dynamic."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from otpy._core.checks import is_number
from otpy._core.phase import Phase
from otpy._core.protocol import KillAsked, Query, Refusal, RequestReply, RetryNow
from otpy._core.reason import Crashed, Normal
from otpy._runtime.hooks import checked_hook
from otpy._runtime.portal import Portal
from otpy._runtime.snapshot import ChildInfo, Counts, TreeSnapshot, counts_of, info_of, snapshot_of
from otpy._runtime.stop import KILL_GRACE
from otpy._runtime.waiters import Waiters, check_loop, wait_among
from otpy.errors import (
    AlreadyPresent,
    AlreadyStarted,
    ChildRunning,
    MaxChildren,
    NotFound,
    NotRunning,
    RestartPending,
    StartFailed,
    StartTimeout,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.dynamic import DynamicMachine
    from otpy._core.machine import SupervisorMachine
    from otpy._core.protocol import Request
    from otpy._core.reason import ExitReason
    from otpy._runtime.blame import Blame
    from otpy._runtime.process import Process
    from otpy._runtime.shell import Shell
    from otpy._runtime.snapshot import Row
    from otpy.errors import ChildError
    from otpy.reports import ReportHook


class Asker(Protocol):
    """Who has asked for something, and gets the answer: a future, or what is like one."""

    def done(self) -> bool:
        """Whether no answer is wanted any more."""
        ...

    def set_result(self, answer: Any, /) -> None:
        """Take the answer."""


class SupervisorHandle:
    """The operations that `Supervisor` and `DynamicSupervisor` share.

    Attributes:
        path: Its path; the root's is its id.
        process: Itself as a child; None for the root.
    """

    path: str
    process: Process | None
    _machine: SupervisorMachine | DynamicMachine
    _exit: ExitReason | None
    _blame: Blame | None
    _waiters: dict[str | None, Waiters[None]]  # for a change of a child, by its key
    _end_waiters: Waiters[ExitReason]
    _asked: dict[Asker, None]  # who has no answer yet
    _name: ClassVar[str]

    def __repr__(self) -> str:
        """Return path, phase and number of children."""
        name, phase = self._name, self._machine.phase.value
        return f"<{name} {self.path!r} {phase} children={len(self._machine.children)}>"

    @property
    def _shell(self) -> Shell:
        """Itself, as the runtime knows it."""
        return cast("Shell", self)

    @property
    def running(self) -> bool:
        """Whether it serves: it is started, and neither ending nor ended."""
        return self._machine.phase is Phase.RUNNING

    @property
    def ended(self) -> bool:
        """Whether it has ended, and nothing below it runs."""
        return self._exit is not None

    @property
    def settled(self) -> bool:
        """Whether nothing is in progress and nothing waits to be dealt with."""
        return self._machine.settled

    @property
    def abandoned(self) -> tuple[Process, ...]:
        """Children in this tree that refused to end, or left a task that did; oldest first."""
        return tuple(self._shell.tree.abandoned)

    def child(self, id: str) -> Process:
        """Return the process of the running child `id`.

        Raises:
            NotFound: If there is no such child.
            NotRunning: If it is known but does not run just now.
        """
        child = self._machine.children.get(id)
        process = None if child is None else self._shell.process_of(child)
        if process is not None:
            return process
        path = f"{self.path}/{id}"
        raise NotFound(path) if child is None else NotRunning(path)

    def whereis(self, path: str) -> Process:
        """Return the process at `path`, which begins with this supervisor's own path.

        Raises:
            NotFound: If nothing has this path, or the path is this supervisor's own.
            NotRunning: If it is known but does not run just now.
        """
        if not path.startswith(f"{self.path}/"):
            raise NotFound(path)
        first, *below = path[len(self.path) + 1 :].split("/")
        process = self.child(first)
        for step in below:
            if process.supervisor is None:
                raise NotFound(path)
            process = process.supervisor.child(step)
        return process

    async def wait_for_restart(self, id: str, *, after: int) -> Process:
        """Wait for an incarnation of child `id` later than `after`, and return it when ready.

        Returns at once if it is there already, so that no restart is missed. Cancelling the wait
        disturbs nothing.

        Raises:
            NotFound: If there is no such child, or it is gone for good.
            NotRunning: If the supervisor has ended.
        """
        while True:
            child = self._machine.children.get(id)
            process = None if child is None else self._shell.process_of(child)
            if process and process.ready and process.incarnation > after:
                return process
            if self._exit is not None:
                raise NotRunning(self.path)
            if child is None:
                raise NotFound(f"{self.path}/{id}")
            await self._change_of(id)

    async def _change_of(self, key: str | None) -> None:
        """Wait until something happens to the child `key`; None is the supervisor itself."""
        waiters = self._waiters.setdefault(key, {})
        try:
            await wait_among(waiters, self._shell.tree.loop, self)
        finally:
            if not waiters:
                self._waiters.pop(key, None)

    async def wait(self) -> ExitReason:
        """Wait until this supervisor has ended and return why; cancelling disturbs nothing."""
        if self._exit is not None:
            return self._exit
        return await wait_among(self._end_waiters, self._shell.tree.loop, self)

    async def wait_ready(self) -> None:
        """Wait until all initial children have been started, or it has ended."""
        while self._machine.phase is Phase.STARTING:
            await self._change_of(None)

    async def stop(self, reason: ExitReason | None = None) -> None:
        """Stop everything below in reverse order, then end with `reason`; return when done.

        A supervisor that is somebody's child is restarted by its restart type: a permanent one
        comes back (SUP-720). Cancelling the caller does not take the stop back.

        Args:
            reason: Its exit reason; `Normal()` if none is given.
        """
        if self._exit is None:
            check_loop(self._shell.tree.loop, self)
            self._shell.shut_down(reason or Normal())
        await self.wait()

    @property
    def failed(self) -> bool:
        """Whether it has given up."""
        return self._blame is not None

    def failure(self) -> Exception | None:
        """Return the `SupervisorFailed` that says why it gave up; None if it did not."""
        if self._blame is None:
            return None
        return self._blame.error(process.path for process in self._shell.tree.abandoned)

    def subscribe(self, hook: ReportHook) -> Callable[[], None]:
        """Give every report of the whole tree to `hook` from now on; in any thread.

        Returns:
            A function that takes the hook off the stream; calling it twice does no harm.

        Raises:
            InvalidSpec: If `hook` cannot be called, or is a coroutine function.
        """
        hooks = self._shell.tree.hooks
        hooks.append(checked_hook(f"subscribe {self.path!r}", hook))

        def unsubscribe() -> None:
            with suppress(ValueError):  # it was taken off before, for its failure perhaps
                hooks.remove(hook)

        return unsubscribe

    async def retry_now(self, id: str) -> bool:
        """Do not wait any longer for the restart of child `id` (extension).

        Returns:
            Whether it was waiting for one.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        reply, _ = await self._request(lambda ref: RetryNow(ref, id), id)
        return reply.child is not None

    async def which_children(self) -> list[ChildInfo]:
        """Return all children known, newest first (SUP-810).

        It tells what was so when its turn came, behind a restart in progress for one.

        Raises:
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        return [info_of(row) for row in reversed(await self._table())]

    async def count_children(self) -> Counts:
        """Count the children (SUP-811, DYN-12).

        Raises:
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """
        return counts_of(await self._table())

    def snapshot(self) -> TreeSnapshot:
        """Return what stands here and below, right now, also while a restart is in progress.

        Raises:
            WrongThread: In another thread, which would see the tree in the middle of a change; that
                one calls `root.portal().call(root.snapshot)`.
        """
        self._shell.tree.check_thread(self._shell)
        return snapshot_of(self._shell)

    def portal(self) -> Portal:
        """Return a way into this tree for other threads; see `Portal`."""
        return Portal(self._shell.tree)

    def kill(self, *, grace: float = KILL_GRACE) -> None:
        """Begin to end as `Killed`, soon, with everything below; do not wait for it.

        Everything below is asked to end, all at once, and has `grace` seconds in all: children run
        their clean-up, servers `terminate`, supervisors stop their children in order. When half
        of the time is over they give up the order and ask everybody who is left. When all of it is
        over, everything that is left is killed. A later kill can only make the time shorter.

        Args:
            grace: Seconds; 0 asks nobody.

        Raises:
            ValueError: If `grace` is negative, or no number.

        Source:
            SUP-719: what OTP leaves to links. Differs: there nobody kills what is left.
        """
        if not is_number(grace) or not 0 <= grace < math.inf:
            msg = f"{self.path}: kill: grace is {grace!r}, wanted seconds, at least 0"
            raise ValueError(msg)
        self._shell.order(KillAsked(grace))

    def _refuse_who_is_waited_for(self) -> None:
        """Raise `CallingSelf` if this supervisor waits for whoever asks, who would wait for it."""

    async def _table(self, key: str | None = None) -> list[Row]:
        """Return the child table, as it is when everything asked before has been dealt with.

        With `key`, of that child only.
        """
        answer: list[Row] | tuple[RequestReply, None] = await self._answered(
            lambda ref: Query(ref, key)
        )
        if isinstance(answer, tuple):
            raise self._error(*answer, "")
        return answer

    async def _request(
        self, make: Callable[[object], Request], key: str
    ) -> tuple[RequestReply, Process | None]:
        """Send a request about the child `key` and wait for the reply.

        Cancelling the caller does not take the request back (AIO-22).
        """
        answer: tuple[RequestReply, Process | None] = await self._answered(make)
        reply, process = answer
        if reply.refusal is not None:
            raise self._error(reply, process, key)
        return reply, process

    async def _answered(self, make: Callable[[object], Request]) -> Any:
        """Send a request and wait for what is answered, or for the end of the supervisor."""
        self._refuse_who_is_waited_for()
        if self._exit is not None:
            return RequestReply(None, refusal=Refusal.NOT_RUNNING), None
        check_loop(self._shell.tree.loop, self)
        future: asyncio.Future[Any] = self._shell.tree.loop.create_future()
        self._asked[future] = None
        try:
            self._shell.order(make(future))
            return await future
        finally:
            self._asked.pop(future, None)

    def _error(self, reply: RequestReply, process: Process | None, key: str) -> ChildError:
        """Return what a refused request about the child `key` raises."""
        path = f"{self.path}/{key}"
        match reply.refusal:
            case Refusal.ALREADY_STARTED:
                return AlreadyStarted(path, process)
            case Refusal.ALREADY_PRESENT:
                return AlreadyPresent(path)
            case Refusal.NOT_FOUND:
                return NotFound(path)
            case Refusal.RUNNING:
                return ChildRunning(path)
            case Refusal.RESTARTING:
                return RestartPending(path)
            case Refusal.MAX_CHILDREN:
                return MaxChildren(self.path)
            case Refusal.START_FAILED:
                return _start_failed(path, reply.reason)
            case _:
                return NotRunning(self.path if reply.child is None else path)


def _start_failed(path: str, reason: ExitReason | None) -> StartFailed:
    cause: Any = reason.error if isinstance(reason, Crashed) else None
    if isinstance(cause, StartTimeout):
        return cause
    error = StartFailed(path, str(reason))
    error.__cause__ = cause
    return error
