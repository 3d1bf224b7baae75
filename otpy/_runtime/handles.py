"""What users hold of a running tree: processes, supervisors, monitors and portals.

These classes say what may be called, and hold no code: `process.py`, `operations.py`, `links.py`
and `portal.py` do. They stand in one module because they name each other: a process has a
supervisor, which has processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    final,
    overload,
)

from attrs import frozen

from otpy._core.protocol import KILL_GRACE
from otpy._core.reason import Restart
from otpy._core.spec import INFINITY, AutoShutdown, DynamicSpec, ValueT_co

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from concurrent.futures import Future

    from otpy._core.backoff import Backoff
    from otpy._core.reason import ExitReason
    from otpy._core.request import Request
    from otpy._core.spec import (
        AnySpec,
        AutoShutdownWord,
        ChildSpec,
        ChildType,
        Count,
        RestartWord,
        ShutdownLimit,
        SupervisorSpec,
    )
    from otpy._runtime.snapshot import Counts, TreeSnapshot
    from otpy.reports import ReportHook

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Process(ABC, Generic[ValueT_co]):
    """One life of one child: a handle to watch it and to end it. What OTP calls a pid.

    A restarted child has a new process; this one stays dead. Inside a child `otpy.current()` is
    its own. A copy is the process itself; pickled, also inside an error or a `Down`, it comes back
    as its path, as text.

    Attributes:
        id: Id of the child among its siblings.
        path: Ids from the root down to the child, joined by "/".
        spec: The spec it was started by, or the one that has replaced it since (`reconfigure`).
        incarnation: Number of this life, from 1.
        restarts: How often the child was restarted before this life.
        last_exit: Why the life before this one ended, or did not start; None in the first. A
            child reads here that, and why, it was restarted. What is raised from its error leads
            back to this life and the one before: the crash before that is cut off its causes.
        value: What the child handed to `task_status.started(value)`, or what its context manager
            returned on entry; None before, and for other children. Typed by the spec it was started
            by: `start_child` of a `ChildSpec[Pool]` returns a `Process[Pool]`.
        parent: The supervisor it stands under (a `Supervisor` or `DynamicSupervisor`).
        supervisor: The supervisor that this process *is*; None if it is a worker.
    """

    __slots__ = ()

    parent: AnySupervisor
    incarnation: int
    restarts: int
    last_exit: ExitReason | None
    supervisor: AnySupervisor | None

    @property
    @abstractmethod
    def id(self) -> str:
        """Id of the child among its siblings."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Ids from the root down to the child, joined by "/"."""

    @property
    @abstractmethod
    def spec(self) -> AnySpec:
        """The spec it was started with, or its replacement (`reconfigure`)."""

    @property
    @abstractmethod
    def value(self) -> ValueT_co:
        """The value it handed over when it became ready; None if it did not."""

    @property
    @abstractmethod
    def root(self) -> AnySupervisor:
        """The supervisor at the top of its tree."""

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether it has been started and has not ended; an abandoned process is not alive."""

    @property
    @abstractmethod
    def exit_reason(self) -> ExitReason | None:
        """Why it has ended; None while it is alive."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether it is, or was, ready."""

    @property
    @abstractmethod
    def requested(self) -> ExitReason:
        """The reason it was told to end with."""

    @abstractmethod
    async def wait(self) -> ExitReason:
        """Wait until it has ended and return why.

        Returns at once, and always the same reason, if it has ended already. Cancelling the wait
        does not disturb the process.
        """

    @abstractmethod
    def on_exit(self, callback: Callable[[Process, ExitReason], object]) -> Callable[[], object]:
        """Call `callback(process, reason)` once, in the very moment it ends.

        Before its supervisor hears of it, so that what others keep about this process is gone
        when its replacement begins. Called at once if it has ended already. The callback must not
        block; one that raises does no harm, and is reported as `HookFailed`.

        Returns:
            A function that takes the callback back; calling it twice does no harm.

        Raises:
            WrongThread: In another thread than the event loop's.
        """

    @abstractmethod
    async def stop_requested(self) -> None:
        """Wait until this child is asked to stop, so that it can end in its own time.

        For the child itself. A child that has called this is asked before it is cancelled: it
        then has `shutdown` seconds to return, and its exit reason is the one requested. A child
        that never calls it is cancelled at once and has `shutdown` seconds for its clean-up.
        """

    @abstractmethod
    def exit(self, reason: ExitReason | None = None) -> None:
        """Ask it to end with `reason`, `Shutdown()` if none is given; do not wait for it.

        Its supervisor sees an exit by itself with exactly that reason, and restarts it or not by
        its restart type. A process that ignores the request is cancelled again after its shutdown
        limit, then given up. Without effect on a process that has ended or is ending.

        A process that traps exits (`otpy.signals.trap_exit`) is not ended: it gets the reason as an
        `ExitSignal`. With `Normal()` only its own code ends a process: from others it has no effect
        on one that does not trap. May be called in any thread.

        Source:
            OTP `exit/2`, SIG-02.
        """

    @abstractmethod
    def kill(self) -> None:
        """End it without asking; its supervisor sees `Killed`. Does not wait for it.

        Cannot be trapped (SIG-02). May be called in any thread. What stands below a supervisor is
        asked, and has one second in all; `Supervisor.kill` says more.
        """

    @abstractmethod
    async def suspend(self, timeout: float | None = 5.0) -> None:
        """Let it serve no message until `resume()`, if it is a `GenServer`; for debugging.

        `ServerRef.suspend` does the same and says more; so do its `resume` and `get_state`.

        Args:
            timeout: Seconds to wait until it has done with the message in hand.

        Raises:
            CallFailed: If it is not a `GenServer`, has ended or is ending.
            CallTimeout: If it is busy for longer; it is suspended all the same when it is not.
            CallingSelf: If the server itself asks.
            ValueError: If `timeout` is not a number of seconds.
            WrongThread: In another thread or event loop.
        """

    @abstractmethod
    async def resume(self, timeout: float | None = 5.0) -> None:
        """Let it go on after `suspend()`; arguments and errors are the same."""

    @abstractmethod
    async def get_state(self, timeout: float | None = 5.0) -> Any:
        """Return the state of a `GenServer`, not to be changed; errors are those of `suspend`."""

    @abstractmethod
    def monitor(self) -> Monitor:
        """Watch it: awaiting the result gives a `Down` when it has ended (SIG-04).

        Delivers exactly once; at once if it has ended already. Unlike `wait()` it watches from now
        on, whenever it is awaited, and can be taken back with `demonitor()`; one that is dropped
        before anybody awaits it is taken back too.

        Raises:
            WrongThread: In another thread than the event loop's.
        """

    @abstractmethod
    def link(self, other: Process | None = None) -> None:
        """Tie its end to that of `other`, both ways (SIG-01).

        When one of them ends, the other is asked to end with the same reason, as by `exit`; unless
        the reason is `Normal()`, or the other traps exits and gets an `ExitSignal`, or the other is
        a supervisor, which ignores it. Of a process that has ended already, the other hears at
        once. A stop by their own supervisor is not a signal: it cannot be trapped, and reaches the
        partner only by the end it leads to. A link holds for these two lives, and is gone when
        either has ended.

        Args:
            other: The other side; the process of the running child if none is given.

        Raises:
            NotSupervised: If none is given and the code that is running belongs to no child.
            WrongThread: In another thread than the event loop's.

        Source:
            OTP `link/1`, SIG-01, SIG-03. Differs: a partner is not dead at once but asked, and has
            its shutdown limit for its clean-up (AIO-05); what is linked late sees the real reason
            instead of `noproc`.
        """

    @abstractmethod
    def unlink(self, other: Process | None = None) -> None:
        """Take a link back; nothing of the other side's end is delivered any more (SIG-07).

        A stop that the other side's end has begun already is not taken back.

        Args:
            other: The other side; the process of the running child if none is given.

        Raises:
            NotSupervised: If none is given and the code that is running belongs to no child.
            WrongThread: In another thread than the event loop's.
        """


@final
@frozen
class Down:
    """A monitored process has ended.

    Attributes:
        process: Which.
        reason: Why. The real reason also if it was dead before it was monitored, where OTP can
            only say `noproc` (SIG-04).
    """

    process: Process
    reason: ExitReason


@final
@frozen
class ExitSignal:
    """The message to a process that traps exits, in place of its end.

    Attributes:
        process: Who sent it: the linked process that ended, or the one whose code called
            `Process.exit`; None if that was code outside of any tree.
        reason: Why the linked process ended, or the reason it was asked to end with.
    """

    process: Process | None
    reason: ExitReason


Notice: TypeAlias = Down | ExitSignal


class Monitor(ABC):
    """A one-way watch over one process: `down = await process.monitor()`.

    Awaiting it gives the `Down` as soon as the process has ended; it may be awaited by many and
    again, and always gives the same one. Cancelling the wait leaves the monitor as it is. It
    belongs to the child whose code made it, and is taken back when that ends, or when nobody holds
    it and nobody awaits it any more; but for one of a `GenServer`, which is told all the same.

    Attributes:
        process: The process it watches.
    """

    __slots__ = ()

    process: Process

    @abstractmethod
    def __await__(self) -> Generator[object, None, Down]:
        """Wait for the end of the process.

        Raises:
            Demonitored: If the monitor was removed, before or meanwhile.
        """

    @abstractmethod
    def demonitor(self) -> None:
        """Take the watch back: from now on nothing is delivered (SIG-07).

        An unread notice in the mailbox of a behaviour is taken back too, and a task that awaits
        this monitor gets `Demonitored`. Calling it again does no harm.

        Raises:
            WrongThread: In another thread than the event loop's.
        """


class _Restarting(Enum):
    RESTARTING = "restarting"

    def __repr__(self) -> str:
        """Return the public name."""
        return self.name


RESTARTING: Final = _Restarting.RESTARTING
"""As `ChildInfo.process`: the child waits for its restart."""


@final
@frozen
class ChildInfo:
    """One entry of `which_children()` (SUP-810).

    Attributes:
        id: Id of the child.
        process: Its process; None if it is known and does not run; `RESTARTING` if it waits for
            a restart.
        type: Worker or supervisor.
    """

    id: str
    process: Process | _Restarting | None
    type: ChildType


class SupervisorHandle(ABC):
    """The operations that `Supervisor` and `DynamicSupervisor` share.

    Attributes:
        path: Its path; the root's is its id.
        process: Itself as a child; None for the root.
    """

    path: str
    process: Process | None

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it serves: it is started, and neither ending nor ended."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether it has ended, and nothing below it runs."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether nothing is in progress and nothing waits to be dealt with."""

    @property
    @abstractmethod
    def abandoned(self) -> tuple[Process, ...]:
        """Children in this tree that refused to end, or left a task that did; oldest first."""

    @abstractmethod
    def child(self, id: str) -> Process:
        """Return the process of the running child `id`.

        Raises:
            NotFound: If there is no such child.
            NotRunning: If it is known but does not run just now.
        """

    @abstractmethod
    def whereis(self, path: str) -> Process:
        """Return the process at `path`, which begins with this supervisor's own path.

        Raises:
            NotFound: If nothing has this path, or the path is this supervisor's own.
            NotRunning: If it is known but does not run just now.
        """

    @abstractmethod
    async def wait_for_restart(self, id: str, *, after: int) -> Process:
        """Wait for an incarnation of child `id` later than `after`, and return it when ready.

        Returns at once if it is there already, so that no restart is missed. Cancelling the wait
        disturbs nothing.

        Raises:
            NotFound: If there is no such child, or it is gone for good.
            NotRunning: If the supervisor has ended.
        """

    @abstractmethod
    async def wait(self) -> ExitReason:
        """Wait until this supervisor has ended and return why; cancelling disturbs nothing."""

    @abstractmethod
    async def wait_ready(self) -> None:
        """Wait until all initial children have been started, or it has ended."""

    @abstractmethod
    async def stop(self, reason: ExitReason | None = None) -> None:
        """Stop everything below in reverse order, then end with `reason`; return when done.

        A supervisor that is a child is restarted by its restart type: a permanent one
        comes back (SUP-720). Cancelling the caller does not take the stop back.

        Args:
            reason: Its exit reason; `Normal()` if none is given.
        """

    @property
    @abstractmethod
    def failed(self) -> bool:
        """Whether it has given up."""

    @abstractmethod
    def failure(self) -> Exception | None:
        """Return the `SupervisorFailed` that says why it gave up; None if it did not."""

    @abstractmethod
    def subscribe(self, hook: ReportHook) -> Callable[[], None]:
        """Give every report of the whole tree to `hook` from now on; in any thread.

        Returns:
            A function that takes the hook off the stream; calling it twice does no harm.

        Raises:
            InvalidSpec: If `hook` cannot be called, or is a coroutine function.
        """

    @abstractmethod
    async def retry_now(self, id: str) -> bool:
        """Do not wait any longer for the restart of child `id` (extension).

        Returns:
            Whether it was waiting for one.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def which_children(self) -> list[ChildInfo]:
        """Return all children known, newest first (SUP-810).

        It tells what was so when its turn came, behind a restart in progress for one.

        Raises:
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def count_children(self) -> Counts:
        """Count the children (SUP-811, DYN-12).

        Raises:
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    def snapshot(self) -> TreeSnapshot:
        """Return what stands here and below, right now, also while a restart is in progress.

        Raises:
            WrongThread: In another thread, which would see the tree in the middle of a change; that
                one calls `root.portal().call(root.snapshot)`.
        """

    @abstractmethod
    def portal(self) -> Portal:
        """Return a way into this tree for other threads; see `Portal`."""

    @abstractmethod
    def kill(self, *, grace: float = KILL_GRACE) -> None:
        """Begin to end as `Killed`, soon, with everything below; do not wait for it.

        Everything below is asked to end, all at once, and has `grace` seconds in all: children run
        their clean-up, servers `terminate`, supervisors stop their children in order. When half
        of the time is over they give up the order and ask everybody who is left. When all of it is
        over, everything that is left is killed. A later kill can only make the time shorter.

        Args:
            grace: Seconds; with 0 no child is asked.

        Raises:
            ValueError: If `grace` is negative, or no number.

        Source:
            SUP-719: what OTP leaves to links. Differs: there nobody kills what is left.
        """


class Supervisor(SupervisorHandle):
    """Starts, watches and restarts the children of a `SupervisorSpec`.

    It is made by `otpy.start`, or by the supervisor above it, which is where you get it:
    `process.supervisor`. Every operation waits its turn, behind a restart in progress for one, as
    in an Erlang mailbox; only `snapshot`, `child` and `whereis` answer at once.
    """

    @overload
    @abstractmethod
    async def start_child(self, spec: ChildSpec[_T]) -> Process[_T] | None: ...
    @overload
    @abstractmethod
    async def start_child(self, spec: AnySpec) -> Process | None: ...
    @abstractmethod
    async def start_child(self, spec: AnySpec) -> Process | None:
        """Add a child at the end of the start order and start it (SUP-802).

        A supervisor that is told to end meanwhile finishes a start that has begun, and answers; it
        refuses those that wait their turn.

        Returns:
            Its process, when it is ready; None if it declined to run (`Ignore`).

        Raises:
            InvalidSpec: If `spec` cannot stand under this supervisor.
            AlreadyStarted: If its id is taken by a running child.
            AlreadyPresent: If its id is taken by a child that does not run.
            StartFailed: If it did not start; nothing is kept of it, nothing is counted (SUP-803).
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def terminate_child(self, id: str) -> None:
        """Stop child `id` and return when it is gone; it stays down (SUP-806 to SUP-809).

        A permanent or transient child is kept in the table, to be started by `restart_child` or by
        a group restart; a temporary one is forgotten. A child that waits for a restart waits no
        longer; one that does not run is left as it is.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def restart_child(self, id: str) -> Process | None:
        """Start child `id`, which is known and does not run (SUP-805).

        Returns:
            Its process, when it is ready; None if it declined to run.

        Raises:
            NotFound: If there is no such child.
            ChildRunning: If it runs.
            RestartPending: If it waits for a restart; see `retry_now`.
            StartFailed: If it did not start; it stays down, nothing is counted.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def delete_child(self, id: str) -> None:
        """Forget child `id`, which is known and does not run.

        Raises:
            NotFound: If there is no such child.
            ChildRunning: If it runs.
            RestartPending: If it waits for a restart.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def get_childspec(self, id: str) -> AnySpec:
        """Return the spec of child `id`, in whatever state it is.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def reconfigure(self, spec: SupervisorSpec) -> None:
        """Go by `spec` from now on, without stopping or starting anything (SUP-122).

        Strategy, limits and `auto_shutdown` are replaced; restarts of the past count against the
        new limit. A known id gets its new spec: its running process goes on, is stopped by the new
        `shutdown` limit and restarted by the new `start`. An unknown id is added and not started:
        `restart_child` does that, or a restart of its group. An id that vanished from the list is
        kept, as it is. The start order is that of the new list, then the vanished ones.

        Its role as a child (`restart`, `shutdown`, `significant`, `backoff`) is not part of this.
        After a restart by the supervisor above, it begins with `spec` again. But if a function made
        its children, that is called again, unless the new spec has one as well.

        A function that makes the children of `spec` is called at once, by the caller. It may raise
        `Ignore`, and nothing is changed; any other exception of its is raised here.

        Raises:
            InvalidSpec: If `spec` is not a `SupervisorSpec`, or has another id, or if its function
                makes something other than a list of children; nothing is changed.
            CallingSelf: If the caller is a child that this supervisor waits for (SUP-318).
            NotRunning: If the supervisor is ending.

        Cancellation:
            The change is made all the same.

        Source:
            OTP `supervisor:code_change/3`. Differs: there the callback module is asked again, here
            the spec is handed over.
        """


class DynamicSupervisor(SupervisorHandle):
    """Starts, watches and restarts children that are handed to it one by one.

    Elixir's `DynamicSupervisor`. Its children have no order and do not know of each other: each
    is restarted for itself, and all are stopped at the same time. It differs in that a slow start
    delays no sibling (there, starts queue), and in that children are named: by the id of their
    spec, with `#2`, `#3` … added where a sibling has the same.
    """

    @staticmethod
    def spec(
        id: str,
        *,
        max_children: int | None = None,
        intensity: Count = 3,
        period: float = 5.0,
        auto_shutdown: AutoShutdown | AutoShutdownWord = AutoShutdown.NEVER,
        restart: Restart | RestartWord = Restart.PERMANENT,
        shutdown: ShutdownLimit = INFINITY,
        significant: bool = False,
        backoff: Backoff | None = None,
    ) -> DynamicSpec:
        """Return a spec, to be listed as a child or started as the root.

        Args:
            id: Its name.
            max_children: How many children it may hold; None is no limit.
            intensity: Restarts allowed within `period` over all children without a window of
                their own.
            period: Length of the restart window, in whole seconds.
            auto_shutdown: Whether it ends with its significant children, by themselves and for
                good: with the first of them, or with the last of those that it holds.
            restart: As a child: when it is started again. Its children are not.
            shutdown: As a child: seconds it has to stop its children.
            significant: As a child: whether its end can end its supervisor.
            backoff: As a child: delay before each restart.

        Raises:
            InvalidSpec: If it can never work.

        Source:
            Elixir's `DynamicSupervisor`; `auto_shutdown` is that of OTP's `simple_one_for_one`,
            SUP-901 to SUP-904.
        """
        return DynamicSpec(
            id,
            max_children=INFINITY if max_children is None else max_children,
            intensity=intensity,
            period=period,
            auto_shutdown=auto_shutdown,
            restart=restart,
            shutdown=shutdown,
            significant=significant,
            backoff=backoff,
        )

    @overload
    @abstractmethod
    async def start_child(self, spec: ChildSpec[_T]) -> Process[_T] | None: ...
    @overload
    @abstractmethod
    async def start_child(self, spec: AnySpec) -> Process | None: ...
    @abstractmethod
    async def start_child(self, spec: AnySpec) -> Process | None:
        """Start one more child (DYN-03, DYN-08).

        A supervisor that is told to end meanwhile finishes the start, within the child's `shutdown`
        limit, and answers; then it stops the child. Cancelling the caller does not stop the child.

        Returns:
            Its process, when it is ready; None if it declined to run (`Ignore`).

        Raises:
            InvalidSpec: If `spec` is none, or is significant and `auto_shutdown` is `NEVER`.
            MaxChildren: If there are as many children as there may be.
            StartFailed: If it did not start; nothing is kept of it, nothing is counted.
            NotRunning: If the supervisor is ending.
        """

    @abstractmethod
    async def terminate_child(self, child: str | Process) -> None:
        """Stop a child and return when it is gone; nothing is kept of it (DYN-13).

        One that is just starting has its `shutdown` limit to become ready, and is stopped then.

        Args:
            child: Its id, or its process. A process that has ended names no child.

        Raises:
            NotFound: If there is no such child.
            CallingSelf: If the caller is that child, or stands below it, and it is just starting.
            NotRunning: If the supervisor is ending.
        """


class Callee(Protocol[RequestT_contra, ReplyT_co]):
    """What takes requests: a `ServerRef`."""

    def __otpy_reply__(self, request: RequestT_contra, /) -> ReplyT_co:
        """Tell type checkers what the reply is; there is no such method."""
        ...

    def cast(self, request: RequestT_contra, /) -> None:
        """Send a request that gets no reply."""
        ...


class Portal(ABC):
    """A way into a tree for other threads; made by `root.portal()`, and never used up.

    Sync views of a web framework, callbacks of a library that has threads of its own,
    `asyncio.to_thread`: what they wait for is done by the event loop of the tree, while they wait.
    One portal serves any number of threads. It does not need to be closed.

    `call` and `start_task_soon` are those of `anyio.from_thread.BlockingPortal`, and work the same
    way. It is not a subclass: anyio's portal keeps a task group open in a task of its own, which a
    tree does not have, and the methods that a subclass would have to replace are private there and
    differ from release to release. Code that needs its other methods opens one in the loop.

    Operations raise `NotRunning` as soon as the tree has ended, and when the block around the tree
    is left, what is still going on is cancelled. In the event loop's own thread, which would wait
    for itself, they raise `CallingSelf`; only `cast` works there.
    """

    __slots__ = ()

    @overload
    @abstractmethod
    def call(
        self, target: Callee[Any, Any], request: Request[_T], /, timeout: float | None = 5.0
    ) -> _T: ...
    @overload
    @abstractmethod
    def call(
        self,
        target: Callee[RequestT_contra, ReplyT_co],
        request: RequestT_contra,
        /,
        timeout: float | None = 5.0,
    ) -> ReplyT_co: ...
    @overload
    @abstractmethod
    def call(self, target: Callable[[*_Ts], Awaitable[_T]], /, *args: *_Ts) -> _T: ...
    @overload
    @abstractmethod
    def call(self, target: Callable[[*_Ts], _T], /, *args: *_Ts) -> _T: ...
    @abstractmethod  # type: ignore[misc] # as below
    def call(self, target: Any, /, *args: Any, **options: Any) -> Any:
        """Call a server, or a function in the event loop, and wait for the result.

        `portal.call(ref, request)` is `await ref.call(request)`, and `portal.call(fn, *args)` is
        `fn(*args)`, awaited if it must be: `portal.call(root.terminate_child, "db")`,
        `portal.call(root.snapshot)`. Context variables of this thread hold there too.

        Args:
            target: A `ServerRef`, or a function.
            args: The request and, if it is to be another than 5 seconds, the `timeout` of
                `ServerRef.call`; or the arguments of the function.
            options: `timeout=`, of `ServerRef.call`.

        Raises:
            NotRunning: If the tree has ended, or has been left before there was a result.
            CallingSelf: In the thread of the event loop: await it there.
            CancelledError: That of `concurrent.futures`: what was called has been cancelled.
            Exception: What `ServerRef.call` or the function raises.
        """

    @abstractmethod
    def cast(self, target: Callee[RequestT_contra, Any], request: RequestT_contra) -> None:
        """Send a request that gets no reply; as `ServerRef.cast`, but not into a tree that is over.

        Raises:
            NotRunning: If the tree has ended.
        """

    @overload
    @abstractmethod
    def start_child(
        self, supervisor: AnySupervisor | Process, spec: ChildSpec[_T]
    ) -> Process[_T] | None: ...
    @overload
    @abstractmethod
    def start_child(self, supervisor: AnySupervisor | Process, spec: AnySpec) -> Process | None: ...
    @abstractmethod
    def start_child(self, supervisor: AnySupervisor | Process, spec: AnySpec) -> Process | None:
        """Start a child and wait until it is ready; as `start_child` of the supervisor.

        Args:
            supervisor: Where; it may be given as its process.
            spec: What.

        Raises:
            NotRunning: If the supervisor, or the tree, has ended or is ending.
            CallingSelf: In the thread of the event loop: await it there.
            TypeError: If `supervisor` is none.
            Exception: What `start_child` raises.
        """

    @overload
    @abstractmethod
    def start_task_soon(
        self, func: Callable[[*_Ts], Awaitable[_T]], /, *args: *_Ts, name: object = None
    ) -> Future[_T]: ...
    @overload
    @abstractmethod
    def start_task_soon(
        self, func: Callable[[*_Ts], _T], /, *args: *_Ts, name: object = None
    ) -> Future[_T]: ...
    @abstractmethod  # type: ignore[misc] # mypy: *args: Any takes less than *_Ts
    def start_task_soon(
        self, func: Callable[..., Any], /, *args: Any, name: object = None
    ) -> Future[Any]:
        """Let the event loop call `func(*args)` soon, in a task, and do not wait for the result.

        Args:
            func: What to call; what it returns is awaited if it must be.
            args: Its arguments.
            name: Name of the task; that of the function by default.

        Returns:
            What has the result some time; to cancel it cancels the task.

        Raises:
            NotRunning: If the tree has ended.
            CallingSelf: In the thread of the event loop.
        """


AnySupervisor: TypeAlias = Supervisor | DynamicSupervisor
