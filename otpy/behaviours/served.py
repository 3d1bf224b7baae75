"""The common part of `GenServer` and `GenStateMachine`: a mailbox, and handles to it."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from otpy._core.checks import check_optional, is_number
from otpy._runtime.current import current
from otpy._runtime.links import LiveMonitor, watchers_of
from otpy._runtime.process import live_of
from otpy.behaviours.limited_mailbox import LimitedMailbox
from otpy.behaviours.mailbox import Info
from otpy.behaviours.mailbox_limit import MailboxLimit
from otpy.behaviours.server import Server
from otpy.behaviours.server_ref import ServerRef
from otpy.behaviours.target import whereabouts
from otpy.behaviours.watched_callbacks import WatchedCallbacks
from otpy.errors import NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from otpy._runtime.handles import AnySupervisor, Monitor, Process
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.callbacks import Callbacks
    from otpy.behaviours.server_timer import ServerTimer
    from otpy.behaviours.target import Target

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
KeptT = TypeVar("KeptT")


def own_server() -> Server:
    """Return the server in whose callbacks this is called.

    Raises:
        NotSupervised: If no child is running.
        NotRunning: If it has ended: it was given up, and this is what it left behind.
        RuntimeError: If the running child is not a server.
        WrongThread: In another thread than the event loop's.
    """
    process = live_of(current())
    process.parent.tree.check_thread(process)
    if not process.alive:
        raise NotRunning(process.path)
    if not isinstance(process.behaviour, Server):
        msg = f"{process.path}: for the callbacks of a server, in its own process"
        raise RuntimeError(msg)
    return process.behaviour


class Served(Generic[RequestT, ReplyT, KeptT]):
    """Takes requests `RequestT`, replies `ReplyT`, and keeps a `KeptT` from message to message."""

    mailbox: ClassVar[MailboxLimit | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a class that can never work.

        Raises:
            InvalidSpec: If `mailbox` is not a `MailboxLimit`.
        """
        super().__init_subclass__(**options)
        check_optional(cls.__qualname__, "mailbox", cls.mailbox, MailboxLimit)

    # --- for the callbacks -----------------------------------------------------------------------

    def trap_exit(self) -> None:
        """Let exit signals come to `handle_info` as `ExitSignal`, from now on (SIG-01, GEN-20).

        What its supervisor tells it still ends it, and is not a message. Call it in `init`, before
        linking.

        Raises:
            NotSupervised: If called outside of the server.
        """
        process = current()
        watchers_of(live_of(process)).inbox = own_server().mailbox

    def monitor(self, process: Process) -> Monitor:
        """Let a `Down` come to `handle_info` when `process` has ended; at once if it has (SIG-04).

        `demonitor()` of the result takes it back, from the mailbox too. `await process.monitor()`
        works as well, but keeps the server from serving meanwhile.

        Raises:
            NotSupervised: If called outside of the server.
        """
        return LiveMonitor(live_of(process), own_server().mailbox)

    def send_after(self, delay: float, message: object) -> ServerTimer:
        """Send `message` to this server in `delay` seconds, as `send` would; unless it has ended.

        The next life hears of it no more. `cancel_timer` takes it back.

        Raises:
            NotSupervised: If called outside of the server.
            ValueError: If `delay` is not a number of seconds.

        Source:
            OTP `erlang:send_after/3`, to oneself.
        """
        return own_server().start_timer(self._seconds("delay", delay), Info(message))

    def send_interval(self, period: float, message: object) -> ServerTimer:
        """Send `message` to this server every `period` seconds, as `send_after` would.

        The first comes in `period` seconds. One that comes late delays no later one.

        Raises:
            NotSupervised: If called outside of the server.
            ValueError: If `period` is not a number of seconds, or is 0.

        Source:
            OTP `timer:send_interval/2`.
        """
        seconds = self._seconds("period", period)
        if not seconds:
            raise ValueError(f"{current().path}: period is {period}, wanted more than 0 seconds")
        return own_server().start_timer(seconds, Info(message), again=True)

    def cancel_timer(self, timer: ServerTimer) -> bool:
        """Let `timer` send nothing any more; return whether it still would have.

        What it has sent stays in the mailbox.

        Source:
            OTP `erlang:cancel_timer/1`. Differs: it does not say how much time was left.
        """
        return timer.cancel()

    def ref(self) -> ServerRef[RequestT, ReplyT, KeptT]:
        """Return a handle to this one life, for others to talk to it; OTP's `self()`.

        Raises:
            NotSupervised: If called outside of the server.
        """
        return ServerRef(own_server().process)

    def _seconds(self, what: str, seconds: float) -> float:
        path = own_server().process.path
        if not is_number(seconds) or not 0 <= seconds < inf:
            raise ValueError(f"{path}: {what} is {seconds!r}, wanted seconds")
        return seconds

    # --- from outside ----------------------------------------------------------------------------

    @classmethod
    def at(
        cls, target: Target, root: AnySupervisor | None = None
    ) -> ServerRef[RequestT, ReplyT, KeptT]:
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
        return ServerRef(target, whereabouts(cls.__name__, target, root).root)

    @classmethod
    def __otpy_callbacks__(cls, process: LiveProcess) -> Callable[[], Callbacks]:
        """Return what makes the callbacks of one life; for the runtime."""
        raise NotImplementedError

    @classmethod
    def __otpy_life__(cls, process: LiveProcess) -> Callable[..., Coroutine[Any, Any, None]]:
        """Attach a server to `process` and return its life; for the runtime."""
        make = cls.__otpy_callbacks__(process)
        if getattr(process.spec, "max_step", None) is not None:
            make = partial(WatchedCallbacks, process, make)
        server = Server(process, make)
        if cls.mailbox is not None:
            server.mailbox = LimitedMailbox(server, process, cls.mailbox)
        process.behaviour = server
        return server.live
