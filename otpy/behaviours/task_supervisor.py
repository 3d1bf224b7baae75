"""`TaskSupervisor`: functions that run once, beside their caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, final

from attrs import field, frozen

from otpy._core.checks import refuse
from otpy._core.reason import Restart
from otpy._core.spec import ChildSpec
from otpy._runtime.current import current_or_none
from otpy._runtime.handles import DynamicSupervisor, Process
from otpy._runtime.links import LiveMonitor
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.behaviours.served import own_server
from otpy.behaviours.target import Whereabouts, whereabouts
from otpy.behaviours.task import DEFAULT_TIMEOUT, Delivery, Task, chain, name_of, work
from otpy.behaviours.task_stream import OnTimeout, stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from otpy._core.spec import RestartWord, ShutdownLimit
    from otpy._runtime.handles import AnySupervisor
    from otpy.behaviours.target import Target
    from otpy.behaviours.task_result import Exited, Ok

_T = TypeVar("_T")
_I = TypeVar("_I")
_Ts = TypeVarTuple("_Ts")


def _checked(supervisor: Process | AnySupervisor | Whereabouts) -> DynamicSupervisor | Whereabouts:
    return supervisor if isinstance(supervisor, Whereabouts) else _dynamic(supervisor)


def _dynamic(supervisor: Process | AnySupervisor) -> DynamicSupervisor:
    found = supervisor.supervisor if isinstance(supervisor, Process) else supervisor
    if not isinstance(found, DynamicSupervisor):
        raise TypeError(f"TaskSupervisor: {supervisor!r} was not made by TaskSupervisor.spec()")
    return found


@final
@frozen
class TaskSupervisor:
    """Runs functions as supervised processes; Elixir's `Task.Supervisor` (TSK-01).

    A thin handle around a `DynamicSupervisor`, whose `spec` is `TaskSupervisor.spec` too. It costs
    nothing to make. `TaskSupervisor(process)` stands for one life of that supervisor, and
    `TaskSupervisor.at("app/tasks")` for whichever has that path at the moment of use.

    Functions are coroutine functions; use `functools.partial` for keyword arguments. A task is a
    child like any other: `otpy.current()` is its process, its path is made of the function's
    name, and it begins with the tree's context variables, not with its caller's.

    Args:
        supervisor: The supervisor it stands for; it may be given as its process.

    Raises:
        TypeError: If that is not a dynamic supervisor.
    """

    _supervisor: DynamicSupervisor | Whereabouts = field(converter=_checked)

    spec = staticmethod(DynamicSupervisor.spec)

    @classmethod
    def at(cls, target: Target, root: AnySupervisor | None = None) -> TaskSupervisor:
        """Return a handle that follows the supervisor through restarts.

        Args:
            target: Its path or its name (`Via`), to mean whichever life has it at the moment of
                use; a function that returns its process; or its process, to mean this one life.
            root: The root supervisor that the path begins with; that of the running child if none
                is given.

        Returns:
            The handle, of which each use raises `NotFound`, `NotRegistered` or `NotRunning` if
            there is none then, and `TypeError` if what is there is of another kind.

        Raises:
            NotSupervised: If `target` is a path, no root is given, and no child is running.
        """
        return cls(whereabouts("TaskSupervisor", target, root))

    @property
    def supervisor(self) -> DynamicSupervisor:
        """The supervisor it stands for now.

        Raises:
            NotFound, NotRegistered, NotRunning: If there is none.
            TypeError: If the process in its place is not a dynamic supervisor.
        """
        it = self._supervisor
        return _dynamic(it.whereis()) if isinstance(it, Whereabouts) else it

    async def spawn_linked(
        self,
        fn: Callable[[*_Ts], Awaitable[_T]],
        *args: *_Ts,
        deliver: bool = False,
        shutdown: ShutdownLimit = 5.0,
    ) -> Task[_T]:
        """Start `fn(*args)` as a task linked to the calling process (TSK-03).

        If the task crashes, the caller's process is ended with the same reason, whether it waits
        for the task or not; if that process ends abnormally, so does the task. It is the link of
        `Process.link`: a caller that traps exits gets an `ExitSignal` of the task, also of its
        normal end. Code outside of processes cannot be linked to: it only hears of a crash when
        it awaits.

        Args:
            fn: A coroutine function.
            args: Its arguments.
            deliver: Whether the calling server hears of it by messages, instead of waiting.
                `(task, Ok(value))` when it has returned, then `Down(process, Normal())`; only
                `Down(process, reason)` when it ended without a result. They come to `handle_info`
                of the life that started the task, and to no later one; asking the task for its
                result does not take them back.
            shutdown: Seconds the task has to end once asked.

        Returns:
            The task; it has not run yet.

        Raises:
            InvalidSpec: If `fn` cannot be called.
            NotSupervised: If `deliver`, and no child is running. Nothing is started.
            RuntimeError: If `deliver`, and the running child is not a server. Nothing is started.
            MaxChildren: If the supervisor holds as many tasks as it may (TSK-08).
            NotRunning: If the supervisor is ending.

        Source:
            Elixir `Task.Supervisor.async/3`.
        """
        return await self._spawn(fn, args, shutdown, linked=True, deliver=deliver)

    async def spawn(
        self,
        fn: Callable[[*_Ts], Awaitable[_T]],
        *args: *_Ts,
        deliver: bool = False,
        shutdown: ShutdownLimit = 5.0,
    ) -> Task[_T]:
        """Start `fn(*args)` as a task that outlives its caller and whose crash spares it (TSK-04).

        Arguments, result and errors are those of `spawn_linked`.

        Source:
            Elixir `Task.Supervisor.async_nolink/3`.
        """
        return await self._spawn(fn, args, shutdown, linked=False, deliver=deliver)

    async def _spawn(
        self,
        fn: Callable[..., Awaitable[_T]],
        args: tuple[Any, ...],
        shutdown: ShutdownLimit,
        *,
        linked: bool,
        deliver: bool,
    ) -> Task[_T]:
        mailbox = own_server().mailbox if deliver else None
        done: list[_T] = []
        spec = self._spec(fn, args, done, Restart.TEMPORARY, shutdown)
        process = await shell_of(self.supervisor).start_claimed(spec)
        assert process is not None  # noqa: S101 - a coroutine function cannot decline to start
        task = Task(process, current_or_none(), done, linked=linked)
        if mailbox is not None:
            _ = LiveMonitor(live_of(process), Delivery(task, done, mailbox))  # the process keeps it
        return task

    async def start_child(
        self,
        fn: Callable[[*_Ts], Awaitable[object]],
        *args: *_Ts,
        restart: Restart | RestartWord = Restart.TEMPORARY,
        shutdown: ShutdownLimit = 5.0,
    ) -> Process:
        """Start `fn(*args)` for its effect only, linked to the supervisor alone (TSK-02).

        Args:
            fn: A coroutine function.
            args: Its arguments.
            restart: When it is run again; `PERMANENT` does so even after it returned, until the
                supervisor's intensity is exceeded.
            shutdown: Seconds it has to end once asked.

        Raises:
            InvalidSpec: If `fn` cannot be called.
            MaxChildren: If the supervisor holds as many tasks as it may.
            NotRunning: If the supervisor is ending.
        """
        spec = self._spec(fn, args, None, restart, shutdown)
        process = await self.supervisor.start_child(spec)
        assert process is not None  # noqa: S101 - as above
        return process

    def _spec(
        self,
        fn: Callable[..., Awaitable[_T]],
        args: tuple[Any, ...],
        done: list[_T] | None,
        restart: Restart | RestartWord,
        shutdown: ShutdownLimit,
    ) -> ChildSpec:
        self._check(fn)
        job = (chain(), fn, args, done)
        return ChildSpec(name_of(fn), work, job, restart=restart, shutdown=shutdown)

    def _check(self, fn: object) -> None:
        if not callable(fn):
            who = "TaskSupervisor"
            if not isinstance(self._supervisor, Whereabouts):
                who += f" {self._supervisor.path!r}"
            refuse(who, "fn", fn, "a coroutine function, not its result")

    def stream(
        self,
        fn: Callable[[_I], Awaitable[_T]],
        items: Iterable[_I],
        *,
        linked: bool = True,
        max_concurrency: int | None = None,
        ordered: bool = True,
        timeout: float | None = DEFAULT_TIMEOUT,
        on_timeout: OnTimeout = OnTimeout.EXIT,
        shutdown: ShutdownLimit = 5.0,
    ) -> AsyncGenerator[Ok[_T] | Exited, None]:
        """Run `fn(item)` as a task for each item, a few at a time; yield the results (TSK-11).

        Items are taken, and tasks started, only while a caller waits for a result. When the
        stream is closed early, by `aclose()` or `contextlib.aclosing`, by an error or by the end
        of its owner, its tasks are shut down and waited for, and nothing is left. A mere `break`
        closes it too, as soon as Python has collected it.

        A task that crashes ends the caller's process with the same reason, as with `spawn_linked`;
        for code outside of processes, or that outlasts the request to end, `TaskFailed` is raised.
        A caller that traps exits gets `Exited(reason)` as a result instead, and no signal.

        Args:
            fn: A coroutine function of one argument.
            items: What to run it for; taken one by one, and may be endless.
            linked: Whether a crash is the caller's too, as with `spawn_linked`. If not, it is only
                a result, as with `spawn`; the tasks still end with their caller.
            max_concurrency: Tasks that run at the same time; None is the number of cores.
            ordered: Whether results come in the order of the items. If so, results that arrive
                before their turn are kept, however many they are.
            timeout: Seconds that each task may take; None is no limit.
            on_timeout: What happens to one that takes longer.
            shutdown: Seconds that each task has to end once asked.

        Yields:
            `Ok(value)` for each item, or `Exited(reason)` for a task that ended otherwise and did
            not take its caller along: it was not linked, was killed for its slowness, or ended
            with `Normal` without a result.

        Raises:
            InvalidSpec: At the call, if an option can never work.
            TaskTimeout: If a task takes longer than `timeout`, with `OnTimeout.EXIT`.
            TaskFailed: See above.
            MaxChildren: If the supervisor holds as many tasks as it may (TSK-08).
            NotRunning: If the supervisor is ending.

        Source:
            Elixir `Task.Supervisor.async_stream/4` and `async_stream_nolink/4`.
        """
        self._check(fn)
        return stream(
            shell_of(self.supervisor),
            fn,
            items,
            max_concurrency=max_concurrency,
            ordered=ordered,
            timeout=timeout,
            on_timeout=on_timeout,
            linked=linked,
            shutdown=shutdown,
        )

    async def children(self) -> list[Process]:
        """Return the tasks that run, newest first, without those that wait for a restart (TSK-10).

        Raises:
            NotRunning: If the supervisor is ending.
        """
        found = await self.supervisor.which_children()
        return [info.process for info in found if isinstance(info.process, Process)]

    async def terminate_child(self, child: Process) -> None:
        """Stop a task and return when it is gone; see `DynamicSupervisor.terminate_child`.

        A linked owner is ended too, with `Shutdown`; `Task.shutdown` spares it.
        """
        await self.supervisor.terminate_child(child)
