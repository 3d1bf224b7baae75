"""`ServerRef`: how to talk to a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, overload

from attrs import frozen

from otpy._core.checks import check_timeout
from otpy._core.reason import Normal
from otpy._runtime.crash import call_failed
from otpy._runtime.handles import Process
from otpy._runtime.process import LiveProcess, live_of
from otpy._runtime.waiters import check_loop
from otpy.behaviours.mailbox import Call, Full, Info, Unanswered
from otpy.behaviours.server import Server
from otpy.behaviours.target import found
from otpy.errors import (
    CallFailed,
    CallTimeout,
    NotFound,
    NotRegistered,
    NotRunning,
    WrongThread,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar as TypeVarWithDefault

    from otpy._core.reason import ExitReason
    from otpy._core.request import Request
    from otpy._runtime.behaviour import Behaviour
    from otpy._runtime.handles import AnySupervisor, Process
    from otpy.behaviours.target import Target

    StateT = TypeVarWithDefault("StateT", default=Any)
else:  # a default is for type checkers, and known to Python since 3.13
    StateT = TypeVar("StateT")

RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ReplyT_co = TypeVar("ReplyT_co", covariant=True)
_T = TypeVar("_T")


@final
@frozen
class ServerRef(Generic[RequestT_contra, ReplyT_co, StateT]):
    """A handle to talk to a `GenServer`; made by `Counter.at(…)`.

    `cast`, `send` and `whereis` may be called in any thread. What is awaited belongs to the event
    loop of the tree: it raises `WrongThread` elsewhere, and a thread goes by `root.portal()`.

    Attributes:
        target: Its process (this one life), its path, its name (`Via`), or a function that finds
            its process; all but the first are looked up for each message, and so follow it
            through restarts.
        root: Where a path begins.
    """

    target: Target
    root: AnySupervisor | None = None

    if TYPE_CHECKING:

        def __otpy_reply__(self, request: RequestT_contra, /) -> ReplyT_co:
            """Say what `call` returns, to `Portal`: mypy infers no types from overloads."""
            ...
    else:

        def __class_getitem__(cls, types: Any) -> Any:
            """Add the type of the state where it is not given."""
            return super().__class_getitem__((*types, Any)[:3])

    def whereis(self) -> Process:
        """Return the process that messages go to now.

        Raises:
            NotFound: If nothing has this path.
            NotRegistered: If no process holds this name.
            NotRunning: If it is known but does not run just now.
        """
        return found(self.target, self.root)

    @overload
    async def call(self, request: Request[_T], timeout: float | None = 5.0) -> _T: ...
    @overload
    async def call(self, request: RequestT_contra, timeout: float | None = 5.0) -> ReplyT_co: ...
    async def call(self, request: Any, timeout: float | None = 5.0) -> Any:
        """Send a request and wait for the reply (GEN-08 to GEN-15).

        A server that has just been started serves it when its `init` is over; one that is
        suspended, when it is resumed.

        Args:
            request: What `handle_call` gets. The reply of a `Request[bytes]` is `bytes`; that of
                any other is the reply type of the server.
            timeout: Seconds to wait; None waits for ever, that is, until the server ends.

        Raises:
            CallFailed: If the server is not there, is ending, or ends before it replies; at once.
            CallTimeout: If it does not reply in time; it is not told, and a late reply is dropped.
            MailboxFull: If as many messages wait as its class lets wait (`MailboxLimit`), at once;
                it does not get the request.
            ValueError: If `timeout` is not a number of seconds; nothing is sent.
            CallingSelf: If the server itself calls, in one of its callbacks.
            WrongThread: In another thread or event loop; use `root.portal()`. Nothing is sent.

        Cancellation:
            The request is carried out all the same; its reply is dropped (AIO-22).

        Source:
            OTP `gen_server:call/3`. Differs: the caller gets an exception instead of an exit, and
            `CallFailed` with the real reason where OTP says `noproc` of the dead.
        """
        try:
            process = self.target
            if not isinstance(process, LiveProcess):  # as every process is
                process = self._process()
            server = process.behaviour
            if not isinstance(server, Server):
                raise _no_server(process)  # pyright: ignore[reportUnknownArgumentType]
            tree = process.parent.tree
            if asyncio._get_running_loop() is not tree.loop:  # is `check_loop`, for speed
                raise WrongThread(process.path)
            if not server.open:
                server.admit()
        except CallFailed:
            await asyncio.sleep(0)  # a caller that tries again and again must not stop the loop
            raise
        caller = Call(tree.loop, request)
        try:
            line = None if timeout is None else tree.deadlines.set(timeout, caller)
        except (TypeError, ValueError):  # it looks at a length of time only once, for speed
            check_timeout(process.path, timeout)
            raise
        server.mailbox.offer(caller)
        try:
            reply: Any = await caller.future
        finally:
            if line is not None:
                line.waiting.pop(caller, None)  # is `meet`; called, it takes twice as long
            if server.owed:
                server.forget(caller)
        if isinstance(reply, Unanswered):
            if isinstance(reply, Full):
                await asyncio.sleep(0)  # the same
            try:
                raise server.error(reply, timeout)
            finally:
                del server  # the traceback keeps this frame
        return reply

    def cast(self, request: RequestT_contra) -> None:
        """Send a request that gets no reply; without an error if no server is there (GEN-16).

        In any thread; the requests of one arrive in their order. One that a `MailboxLimit` refuses
        is dropped.
        """
        process = self.target
        server = process.behaviour if isinstance(process, LiveProcess) else self._server()
        if isinstance(server, Server):
            server.mailbox.offer((request,))

    def send(self, message: object) -> None:
        """Send any other message, for `handle_info`; without an error if no server is there.

        In any thread, as `cast`.
        """
        process = self.target
        server = process.behaviour if isinstance(process, LiveProcess) else self._server()
        if isinstance(server, Server):
            server.mailbox.offer(Info(message))

    async def stop(self, reason: ExitReason | None = None, timeout: float | None = None) -> None:
        """Let it serve earlier messages, call its `terminate`, and wait until it has ended.

        Its supervisor restarts it by its restart type; `terminate_child` is what keeps it down.

        Args:
            reason: What to end with; `Normal()` if none is given.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            CallFailed: If it is not there, or ended with another reason.
            CallTimeout: If it has not ended in time; it will, when its turn comes.
            CallingSelf: If the server itself calls; it returns `Stop` instead.
            ValueError: If `timeout` is not a number of seconds; it is not stopped.
            WrongThread: As `call`; it is not stopped.

        Cancellation:
            The stop is not taken back.

        Source:
            OTP `gen_server:stop/3`, GEN-23.
        """
        wanted = reason or Normal()
        process, server = self._found()
        check_timeout(process.path, timeout)
        check_loop(process.parent.tree.loop, process)
        server.refuse_self()
        server.stop(wanted)
        try:
            async with asyncio.timeout(timeout):
                got = await process.wait()
        except TimeoutError:
            if process.exit_reason is None:  # else it ended in the very turn in which time was over
                raise CallTimeout(process.path, f"timeout={timeout:g} s") from None
            got = process.exit_reason
        if got != wanted:
            raise call_failed(process.path, got)

    # --- for debugging: OTP's sys ----------------------------------------------------------------

    async def suspend(self, timeout: float | None = 5.0) -> None:
        """Let it serve no message until `resume()`; those that come wait, in order.

        It still answers the methods of this section, stops when told to, and hears of nothing
        else; its idle timeout does not run. Suspending twice is suspending once.

        Args:
            timeout: Seconds to wait until it has done with the message in hand.

        Raises:
            CallFailed: As `call`.
            CallTimeout: As `call`: it is suspended all the same when its turn comes; `resume` it.
            CallingSelf: As `call`.
            ValueError: As `call`.
            WrongThread: As `call`.

        Source:
            OTP `sys:suspend/2`.
        """
        await self._found()[1].suspend(timeout)

    async def resume(self, timeout: float | None = 5.0) -> None:
        """Let it go on after `suspend()`, with the oldest message; otherwise without effect.

        Raises:
            CallFailed: As `call`.
            CallTimeout: As `call`.
            CallingSelf: As `call`.
            ValueError: As `call`.
            WrongThread: As `call`.
        """
        await self._found()[1].resume(timeout)

    async def get_state(self, timeout: float | None = 5.0) -> StateT:
        """Return its state, between two messages. The very object: do not change it.

        Raises:
            CallFailed: As `call`.
            CallTimeout: As `call`.
            CallingSelf: As `call`.
            ValueError: As `call`.
            WrongThread: As `call`.

        Source:
            OTP `sys:get_state/2`.
        """
        state: StateT = await self._found()[1].get_state(timeout)
        return state

    async def replace_state(
        self, change: Callable[[StateT], StateT], timeout: float | None = 5.0
    ) -> StateT:
        """Give it the state that `change` makes of its state, and return that.

        Args:
            change: Runs in the server, between two messages; must not block.
            timeout: Seconds to wait.

        Raises:
            CallFailed: As `call`. Or if `change` raised, with that; the state is then as before.
            CallTimeout: As `call`.
            CallingSelf: As `call`.
            ValueError: As `call`.
            WrongThread: As `call`.

        Source:
            OTP `sys:replace_state/3`.
        """
        _, server = self._found()

        def replace() -> StateT:
            state = server.state = change(server.state)
            return state

        state: StateT = await server.control(replace, timeout)
        return state

    # --- finding it ------------------------------------------------------------------------------

    def _server(self) -> Behaviour | None:
        try:
            return self._process().behaviour
        except CallFailed:
            return None

    def _found(self) -> tuple[LiveProcess, Server]:
        process = self._process()
        if not isinstance(process.behaviour, Server):
            raise _no_server(process)
        return process, process.behaviour

    def _process(self) -> LiveProcess:
        try:
            return live_of(self.whereis())
        except (NotFound, NotRegistered, NotRunning) as error:
            raise CallFailed(error.path, None) from error


def _no_server(process: Process) -> CallFailed:
    """Return the error of a question to a process that has ended or is not a server."""
    reason = process.exit_reason
    if reason is not None:
        return call_failed(process.path, reason)
    return CallFailed(process.path, None, "is not a GenServer")
