"""`GenServer`: a child that keeps a state and serves one message after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from otpy._core.text import shown
from otpy._runtime.current import current
from otpy._runtime.shells import shell_of
from otpy.behaviours.results import NoReply
from otpy.behaviours.served import Served
from otpy.reports import MessageUnhandled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.callbacks import Callbacks
    from otpy.behaviours.mailbox import Caller
    from otpy.behaviours.results import CallResult, Init, Result

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
StateT = TypeVar("StateT")


class GenServer(Served[RequestT, ReplyT, StateT]):
    """A server: subclass it, and list the subclass in a spec: `ChildSpec("counter", Counter)`.

    `class Counter(GenServer[Add | Get, int, int])` takes requests `Add | Get`, replies `int` and
    keeps an `int`. The state is handed from callback to callback; a new object is made,
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

    Attributes:
        mailbox: How many messages may wait, and what follows when more come; None is no limit.

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
        """Handle any other message: `TIMEOUT`, `Down`, `ExitSignal`, or one sent by `send`.

        And `(task, Ok(value))` of a task that it started with `deliver=True`.

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
        """Handle the `continue_with` of a callback, before any message (GEN-07)."""
        raise NotImplementedError(f"{type(self).__name__}.handle_continue: {shown(value)}")

    def terminate(self, reason: ExitReason, state: StateT) -> object:  # noqa: ARG002 - an interface
        """Clean up before it ends with `reason`; what this returns is ignored (GEN-19).

        Called after `Stop`, after an exception or a bad return, and when it is asked to end. Not
        called when it is killed, cancelled by a stranger, or did not start. What this raises
        replaces the reason (GEN-21).
        """
        return None

    @classmethod
    def __otpy_callbacks__(cls, process: LiveProcess) -> Callable[[], Callbacks]:
        """Return what makes the callbacks of one life; for the runtime."""
        return cls
