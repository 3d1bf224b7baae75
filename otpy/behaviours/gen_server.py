"""`GenServer`: a child that keeps a state and serves one message after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from otpy._core.text import shown
from otpy._runtime.current import current
from otpy._runtime.links import LiveMonitor, watchers_of
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.behaviours.results import NoReply
from otpy.behaviours.server import Server
from otpy.behaviours.server_ref import ServerRef
from otpy.behaviours.watched_callbacks import WatchedCallbacks
from otpy.errors import NotRunning, NotSupervised
from otpy.reports import MessageUnhandled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from otpy._core.reason import ExitReason
    from otpy._runtime.handles import AnySupervisor, Monitor, Process
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.mailbox import Caller
    from otpy.behaviours.results import CallResult, Init, Result
    from otpy.behaviours.server_ref import Target

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
StateT = TypeVar("StateT")


class GenServer(Generic[RequestT, ReplyT, StateT]):
    """A server: subclass it, and list the subclass in a spec: `ChildSpec("counter", Counter)`.

    `class Counter(GenServer[Add | Get, int, int])` takes requests `Add | Get`, replies `int` and
    keeps an `int`. The state is handed from callback to callback; the object itself is made anew,
    without arguments, for each life. Callbacks are plain or `async` methods; they run one at a
    time, in the order in which the messages came (GEN-08). Talk to it by
    `Counter.at(process_or_path)`.

    A server has no task until a callback returns an awaitable, and keeps the one that it then
    gets. Until then there is no current task in its plain callbacks, which the loop itself calls.

    An exception in a callback calls `terminate` with the state before that callback and ends the
    server with `Crashed` (GEN-13), or, raised as `Exit`, with that reason. What callbacks must not
    return is a `BadReturn`, and a crash too (GEN-12). When its supervisor stops it, or somebody
    else asks it to end, it serves what came before, then `terminate` is called, all within its
    `shutdown` limit; what overstays is killed, without `terminate` (GEN-19, GEN-20).

    Source:
        OTP `gen_server`. Differs: every server ends as one that traps exits does (AIO-05).
    """

    # --- to be overridden ------------------------------------------------------------------------

    def init(
        self, *args: Any, **kwargs: Any
    ) -> StateT | Init[StateT] | Awaitable[StateT | Init[StateT]]:
        """Return the first state, or `Init`; the server is ready when this has returned.

        It gets the `args` and `kwargs` of the spec. `raise Ignore` declines to run, `raise
        Exit(reason)` and any other exception fail the start; `terminate` is then not called
        (GEN-01, GEN-02). Messages that come meanwhile wait.
        """
        raise NotImplementedError(f"{type(self).__name__}.init")

    def handle_call(
        self, request: RequestT, caller: Caller[ReplyT], state: StateT
    ) -> CallResult[ReplyT, StateT] | Awaitable[CallResult[ReplyT, StateT]]:
        """Serve a `call`: return `Reply`, `Stop`, or `NoReply` and `caller.reply(value)` later.

        Not overridden, a call crashes the server (GEN-24).
        """
        raise NotImplementedError(f"{type(self).__name__}.handle_call: {shown(request)}")

    def handle_cast(
        self, request: RequestT, state: StateT
    ) -> Result[StateT] | Awaitable[Result[StateT]]:
        """Serve a `cast`: return `NoReply` or `Stop`.

        Not overridden, a cast crashes the server (GEN-24).
        """
        raise NotImplementedError(f"{type(self).__name__}.handle_cast: {shown(request)}")

    def handle_info(
        self, message: object, state: StateT
    ) -> Result[StateT] | Awaitable[Result[StateT]]:
        """Take any other message: what was sent by `send`, `TIMEOUT`, `Down` and `ExitSignal`.

        Not overridden, the message is reported as `MessageUnhandled`, which is logged, and
        dropped (GEN-24).
        """
        process = current()
        tree = shell_of(process.parent).tree
        if tree.hooks:
            tree.report(
                MessageUnhandled(
                    path=process.path,
                    time=tree.loop.time(),
                    incarnation=process.incarnation,
                    restarts=process.restarts,
                    message=shown(message),
                )
            )
        return NoReply(state)

    def handle_continue(
        self, value: Any, state: StateT
    ) -> Result[StateT] | Awaitable[Result[StateT]]:
        """Go on with what a callback returned as `continue_with`, before any message (GEN-07)."""
        raise NotImplementedError(f"{type(self).__name__}.handle_continue: {shown(value)}")

    def terminate(self, reason: ExitReason, state: StateT) -> object:  # noqa: ARG002 - an interface
        """Clean up before it ends with `reason`; what this returns is ignored (GEN-19).

        Called after `Stop`, after an exception or a bad return, and when it is asked to end. Not
        called when it is killed, cancelled by a stranger, or did not start. What this raises
        replaces the reason (GEN-21).
        """
        return None

    # --- for the callbacks -----------------------------------------------------------------------

    def trap_exit(self) -> None:
        """Let exit signals come to `handle_info` as `ExitSignal`, from now on (SIG-01, GEN-20).

        What its supervisor tells it still ends it, and is no message. Call it in `init`, before
        linking.

        Raises:
            NotSupervised: If called outside of the server.
        """
        process = current()
        watchers_of(live_of(process)).inbox = self._own().mailbox

    def monitor(self, process: Process) -> Monitor:
        """Let a `Down` come to `handle_info` when `process` has ended; at once if it has (SIG-04).

        `demonitor()` of the result takes it back, from the mailbox too. `await process.monitor()`
        works as well, but keeps the server from serving meanwhile.

        Raises:
            NotSupervised: If called outside of the server.
        """
        return LiveMonitor(live_of(process), self._own().mailbox)

    @staticmethod
    def _own() -> Server:
        process = live_of(current())
        process.parent.tree.check_thread(process)
        if not process.alive:  # it was given up, and this is what it left behind
            raise NotRunning(process.path)
        if not isinstance(process.behaviour, Server):
            msg = f"{process.path}: for the callbacks of a GenServer, in its own process"
            raise RuntimeError(msg)
        return process.behaviour

    # --- from outside ----------------------------------------------------------------------------

    @classmethod
    def at(
        cls, target: Target, root: AnySupervisor | None = None
    ) -> ServerRef[RequestT, ReplyT, StateT]:
        """Return a handle to talk to a server of this class.

        That the process is of this class is the caller's word: only its types depend on it.

        Args:
            target: Its process, to talk to this one life; its path or its name (`Via`), to talk
                to whichever life has it when the message is sent; or a function that returns its
                process, and raises `NotFound`, `NotRegistered` or `NotRunning` if there is none.
            root: The root supervisor that the path begins with; that of the running child if none
                is given.

        Raises:
            NotSupervised: If `target` is a path, no root is given, and no child is running.
        """
        if root is None and isinstance(target, str):
            try:
                root = current().root
            except NotSupervised:
                msg = f"{cls.__name__}.at({target!r}): no child is running; give root="
                raise NotSupervised(msg) from None
        return ServerRef(target, root)

    @classmethod
    def __otpy_life__(cls, process: LiveProcess) -> Callable[..., Coroutine[Any, Any, None]]:
        """Attach a server to `process` and return its life; for the runtime."""
        server = Server(process, cls)
        if getattr(process.spec, "max_step", None) is not None:
            stand_in: Any = partial(WatchedCallbacks, process, cls)
            server.make = stand_in
        process.behaviour = server
        return server.live
