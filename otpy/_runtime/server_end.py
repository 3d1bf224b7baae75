"""How a server is made to end when the tree inside it has ended."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, final

from otpy._runtime.run import leave
from otpy._runtime.stderr import say

if TYPE_CHECKING:
    import asyncio

LAST_GRACE: Final = 5.0
"""Seconds between the end of the event loop by force and that of the process."""


class Way(Enum):
    """How the process that a server runs in can be made to end."""

    ASK = "ask"
    """Somebody handles SIGTERM: the server, which then answers what is in flight and ends."""
    LEAVE = "leave"
    """It is a worker process of a server that does not: ending it is how its parent is told."""
    NONE = "none"
    """No sign of a server: a test, a notebook, a thread of another program."""


def way_out() -> Way:
    """Return a way to end the process, depending on its current state.

    That SIGTERM is handled tells a server from a test that drives the same application: servers
    say by that how they want to be stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        return Way.NONE
    if signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN):
        return Way.ASK
    from multiprocessing import parent_process  # noqa: PLC0415 - no other code needs it

    return Way.NONE if parent_process() is None else Way.LEAVE


@final
class ServerEnd:
    """The end of the process that serves: in order if the server is able to, else by force.

    Attributes:
        way: How the process can be made to end.
        status: The exit status.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str, way: Way, status: int) -> None:
        """Describe the end of the server around the tree at `path`; nothing is done yet."""
        self.way = way
        self.status = status
        self._loop = loop
        self._path = path
        self._left = False
        self._over = threading.Event()

    def ask(self) -> None:
        """Let the server stop as it does on SIGTERM."""
        handler: Any = signal.getsignal(signal.SIGTERM)
        server: Any = getattr(handler, "__self__", None)
        if isinstance(getattr(server, "should_exit", None), bool):
            # uvicorn. A signal it would raise again when it has stopped, and die of it: systemd
            # counts that as an end in good order.
            server.should_exit = True
        else:
            signal.raise_signal(signal.SIGTERM)

    def leave_loop(self) -> None:
        """End the event loop; for a callback, out of which asyncio lets `SystemExit` pass.

        What runs the loop then cancels every task, and the process ends with the status.
        """
        if not self._left:  # or it would disturb those tasks while they end
            self._left = True
            raise SystemExit(self.status)

    def leave_worker(self) -> None:
        """End the event loop of a server that cannot be asked to stop; why was said before.

        It does not expect that: its connections and its main task, cancelled all at once, would
        fill the screen with tracebacks.
        """
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self.leave_loop()

    def within(self, seconds: float) -> None:
        """See to it that the process ends, from a thread, which a blocked loop does not stop."""
        watch = threading.Thread(target=self._watch, args=(seconds,), daemon=True)
        watch.name = f"end of the server around {self._path}"
        watch.start()

    def over(self) -> None:
        """Let the process go on: the server has ended, and the program may do something else."""
        self._over.set()

    def _watch(self, seconds: float) -> None:
        if self._over.wait(seconds):
            return
        say(f"{self._path}: the server has not ended within {seconds:g} s; ending its event loop")
        self.status = 1
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self.leave_loop)
        if self._over.wait(LAST_GRACE):
            return
        say(f"process {os.getpid()} has not ended within {LAST_GRACE:g} s more; leaving it")
        leave(self.status)
