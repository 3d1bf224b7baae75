"""`Task`: a function that runs beside its caller, which may wait for its result."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, final

from otpy._core.checks import check_timeout
from otpy._core.reason import Killed, Shutdown
from otpy._core.spec import BRUTAL_KILL, INFINITY
from otpy._runtime.current import current_or_none
from otpy._runtime.process import live_of
from otpy._runtime.waiters import check_loop
from otpy.behaviours.mailbox import Info
from otpy.behaviours.task_result import Exited, Ok, TaskFailed
from otpy.errors import NotOwner, TaskTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from otpy._core.spec import ShutdownLimit
    from otpy._runtime.handles import Notice, Process
    from otpy.behaviours.mailbox import Mailbox

_T = TypeVar("_T")

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds, as in OTP."""

Chain: TypeAlias = "tuple[Process, Chain] | None"
"""Who asked for a task, and the chain of that one; tasks share what their chains have in common."""

_CALLERS: Final[ContextVar[Chain]] = ContextVar("otpy.callers", default=None)


def callers() -> tuple[Process, ...]:
    """Return the processes that asked for the task that is running, newest first (TSK-12).

    The one that started it, the one that started that, and so on; empty outside of tasks. Those
    above it in the tree are another matter: `process.parent`.

    A task keeps its callers, those that have ended too, and with them what they were started with.
    Work that goes on for ever is a permanent child rather than a task that starts its successor.
    """
    found: list[Process] = []
    rest = _CALLERS.get()
    while rest is not None:
        caller, rest = rest
        found.append(caller)
    return tuple(found)


def chain() -> Chain:
    """Return what `callers()` will be made of in a task that is started here."""
    caller, asked_by = current_or_none(), _CALLERS.get()
    return asked_by if caller is None else (caller, asked_by)


def name_of(fn: object) -> str:
    """Return the id of the tasks that run `fn`."""
    return str(getattr(fn, "__name__", "task"))


def set_callers(asked_by: Chain) -> None:
    """Let `callers()` be made of `asked_by` in the task that is running."""
    _CALLERS.set(asked_by)


async def work(
    asked_by: Chain, fn: Callable[..., Awaitable[_T]], args: tuple[Any, ...], done: list[_T] | None
) -> None:
    """Run a task: leave the result in `done`, if a caller may ask for it."""
    set_callers(asked_by)
    result = await fn(*args)
    if done is not None:
        done.append(result)


@final
class Task(Generic[_T]):
    """A function at work, and a claim to its result; made by a `TaskSupervisor`.

    Only its owner may wait for it, which is the process that started it, or any code outside of
    processes if such code did. `await task` is `await task.result()`.

    Attributes:
        process: The process it runs in.
        owner: The process that started it; None for code outside of processes.
    """

    __slots__ = ("_done", "owner", "process")

    def __init__(
        self, process: Process, owner: Process | None, done: list[_T], *, linked: bool
    ) -> None:
        """Claim what `process` leaves in `done`; for `TaskSupervisor`."""
        self.process = process
        self.owner = owner
        self._done = done
        if linked and owner is not None:
            process.link(owner)

    def __repr__(self) -> str:
        """Return path and state."""
        return f"<Task {self.process!r}>"

    def __await__(self) -> Generator[Any, None, _T]:
        """Wait for the result with the default timeout."""
        return self.result().__await__()

    async def result(self, timeout: float | None = DEFAULT_TIMEOUT) -> _T:
        """Wait for the task to end and return its result (TSK-06, TSK-07).

        Cancelling the caller does not disturb the task, unless that ends a process linked to it.

        Args:
            timeout: Seconds to wait; None waits for ever. The task is not stopped when they are
                over: a linked one ends with its owner, if that does not catch the error.

        Raises:
            TaskFailed: If it ended without a result. Left alone, it ends the calling process with
                the same reason.
            TaskTimeout: If it takes longer.
            NotOwner: If the caller did not start the task.
            ValueError: If `timeout` is not a number of seconds.

        Source:
            Elixir `Task.await/2`. Differs: the caller gets an exception instead of an exit.
        """
        result = await self.poll(timeout)
        if result is None:
            raise TaskTimeout(f"{self.process.path}: no result within timeout={timeout} s")
        if isinstance(result, Exited):
            raise TaskFailed(self.process.path, result.reason)
        return result.value

    async def poll(self, timeout: float | None = DEFAULT_TIMEOUT) -> Ok[_T] | Exited | None:
        """Wait for the task to end and return how it did (TSK-07).

        It can be called again after a timeout, and after the end always returns the same.

        Args:
            timeout: Seconds to wait; 0 does not wait, None waits for ever.

        Returns:
            `Ok(value)`, or `Exited(reason)`, or None if it still runs when the time is over.

        Raises:
            NotOwner: If the caller did not start the task.
            ValueError: If `timeout` is not a number of seconds.
            WrongThread: In another thread or event loop, while the task runs.

        Source:
            Elixir `Task.yield/2`. Differs: a timeout is given in seconds.
        """
        self._check_owner()
        check_timeout(self.process.path, timeout)
        if self.process.alive:
            try:
                async with asyncio.timeout(timeout):
                    await self.process.wait()
            except TimeoutError:
                if self.process.alive:  # else it ended in the very turn in which time was over
                    return None
        return await self._result()

    async def _result(self) -> Ok[_T] | Exited:
        reason = await self.process.wait()
        return Ok(self._done[0]) if self._done else Exited(reason)

    async def shutdown(self, timeout: ShutdownLimit = DEFAULT_TIMEOUT) -> Ok[_T] | Exited | None:
        """End the task, kill it if it takes too long, and return when it is gone (TSK-07).

        It is unlinked first, so its end does not disturb the caller. Cancelling the caller does
        not take the request back, but nobody then kills a task that takes too long; its own
        limit does (`shutdown` when it was started).

        Args:
            timeout: Seconds until it is killed; `INFINITY` does not kill, `BRUTAL_KILL` kills at
                once. Its own limit holds too: the shorter one counts.

        Returns:
            None if it ended because of this. `Ok(value)` if it had returned, or did when it was
            asked to stop, `Exited(reason)` if it ended in another way, such as `Killed` because
            it took too long.

        Raises:
            NotOwner: If the caller did not start the task.
            ValueError: If `timeout` is not a number of seconds; the task goes on.
            WrongThread: In another thread or event loop; the task goes on.
        """
        check_loop(live_of(self.process).parent.tree.loop, self.process)
        self._check_owner()
        brutal = timeout is BRUTAL_KILL
        limit: Any = None if brutal or timeout is INFINITY else timeout
        check_timeout(self.process.path, limit)
        if self.owner is not None:
            self.process.unlink(self.owner)
        if brutal:
            self.process.kill()
        else:
            self.process.exit(Shutdown())
            if await self.poll(limit) is None:
                self.process.kill()
        result = await self._result()
        return None if result == Exited(Killed() if brutal else Shutdown()) else result

    def _check_owner(self) -> None:
        caller = current_or_none()
        if caller is not self.owner:
            raise NotOwner(f"{self.process.path}: owner is {self.owner!r}, caller is {caller!r}")


@final
class Delivery:
    """Hands a task's result, and then its end, to the server that started it (TSK-06)."""

    __slots__ = ("_done", "_mailbox", "_task")

    def __init__(self, task: Task[_T], done: list[_T], mailbox: Mailbox) -> None:
        """Hand what `task` leaves in `done` to `mailbox`, which takes nothing after its life."""
        self._task = task
        self._done = done
        self._mailbox = mailbox

    def deliver(self, notice: Notice) -> None:
        """Take the notice that the task has ended."""
        if self._done:
            self._mailbox.put(Info((self._task, Ok(self._done[0]))))
        self._mailbox.deliver(notice)

    def discard(self, unwanted: Callable[[object], bool]) -> None:
        """Take back the notice, if it lies unread and is `unwanted`."""
        self._mailbox.discard(unwanted)
