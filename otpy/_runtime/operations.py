"""What users ask of a supervisor, static or dynamic, and how it is answered."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from otpy._core.checks import is_number
from otpy._core.phase import Phase
from otpy._core.protocol import KILL_GRACE, KillAsked, Query, Refusal, RequestReply, RetryNow
from otpy._core.reason import Crashed, Normal
from otpy._runtime.child_table import counts_of, info_of, snapshot_of
from otpy._runtime.hooks import checked_hook
from otpy._runtime.portal import TreePortal
from otpy._runtime.shell import Shell
from otpy._runtime.waiters import check_loop, wait_among
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
    import asyncio
    from collections.abc import Callable

    from otpy._core.protocol import Request
    from otpy._core.reason import ExitReason
    from otpy._runtime.child_table import Row
    from otpy._runtime.handles import AnySupervisor, ChildInfo, Portal, Process
    from otpy._runtime.snapshot import Counts, TreeSnapshot
    from otpy.errors import ChildError
    from otpy.reports import ReportHook


class ShellOperations(Shell):
    """The operations that `Supervisor` and `DynamicSupervisor` share."""

    def __repr__(self) -> str:
        """Return path, phase and number of children."""
        name, phase = self._name, self._machine.phase.value
        return f"<{name} {self.path!r} {phase} children={len(self._machine.children)}>"

    @property
    def running(self) -> bool:
        return self._machine.phase is Phase.RUNNING

    @property
    def ended(self) -> bool:
        return self._exit is not None

    @property
    def settled(self) -> bool:
        return self._machine.settled

    @property
    def abandoned(self) -> tuple[Process, ...]:
        return tuple(self.tree.abandoned)

    def child(self, id: str) -> Process:
        child = self._machine.children.get(id)
        process = None if child is None else self.process_of(child)
        if process is not None:
            return process
        path = f"{self.path}/{id}"
        raise NotFound(path) if child is None else NotRunning(path)

    def whereis(self, path: str) -> Process:
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
        while True:
            child = self._machine.children.get(id)
            process = None if child is None else self.process_of(child)
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
            await wait_among(waiters, self.tree.loop, self)
        finally:
            if not waiters:
                self._waiters.pop(key, None)

    async def wait(self) -> ExitReason:
        if self._exit is not None:
            return self._exit
        return await wait_among(self._end_waiters, self.tree.loop, self)

    async def wait_ready(self) -> None:
        while self._machine.phase is Phase.STARTING:
            await self._change_of(None)

    async def stop(self, reason: ExitReason | None = None) -> None:
        if self._exit is None:
            check_loop(self.tree.loop, self)
            self.shut_down(reason or Normal())
        await self.wait()

    @property
    def failed(self) -> bool:
        return self._blame is not None

    def failure(self) -> Exception | None:
        if self._blame is None:
            return None
        return self._blame.error(process.path for process in self.tree.abandoned)

    def subscribe(self, hook: ReportHook) -> Callable[[], None]:
        hooks = self.tree.hooks
        hooks.append(checked_hook(f"subscribe {self.path!r}", hook))

        def unsubscribe() -> None:
            with suppress(ValueError):  # it was taken off before, for its failure perhaps
                hooks.remove(hook)

        return unsubscribe

    async def retry_now(self, id: str) -> bool:
        reply, _ = await self._request(lambda ref: RetryNow(ref, id), id)
        return reply.child is not None

    async def which_children(self) -> list[ChildInfo]:
        return [info_of(row) for row in reversed(await self._table())]

    async def count_children(self) -> Counts:
        return counts_of(await self._table())

    def snapshot(self) -> TreeSnapshot:
        self.tree.check_thread(self)
        return snapshot_of(self)

    def portal(self) -> Portal:
        return TreePortal(cast("AnySupervisor", self.tree.root), self.tree.calls)

    def kill(self, *, grace: float = KILL_GRACE) -> None:
        if not is_number(grace) or not 0 <= grace < math.inf:
            msg = f"{self.path}: kill: grace is {grace!r}, wanted seconds, at least 0"
            raise ValueError(msg)
        self.order(KillAsked(grace))

    def _refuse_who_is_waited_for(self) -> None:
        """Raise `CallingSelf` if this supervisor waits for the caller: both would wait forever."""

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
        """Send a request and wait for the answer, or for the end of the supervisor."""
        self._refuse_who_is_waited_for()
        if self._exit is not None:
            return RequestReply(None, refusal=Refusal.NOT_RUNNING), None
        check_loop(self.tree.loop, self)
        future: asyncio.Future[Any] = self.tree.loop.create_future()
        self._asked[future] = None
        try:
            self.order(make(future))
            return await future
        finally:
            self._asked.pop(future, None)

    def _error(self, reply: RequestReply, process: Process | None, key: str) -> ChildError:
        """Return the exception for a refused request about the child `key`."""
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
