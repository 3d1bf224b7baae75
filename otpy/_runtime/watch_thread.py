"""A thread that only watches: neither a virtual clock nor the program's end waits for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class WatchThread(threading.Thread):
    """Runs `look` again and again; a virtual clock need not wait for it.

    A daemon: it must not keep a program alive whose tree was never left.
    """

    def __init__(self, name: str, look: Callable[[], None]) -> None:
        """Prepare a thread that calls `look` until it is closed."""
        super().__init__(name=name, daemon=True)
        self.closed = False
        self._look = look
        self._woken = threading.Event()

    def run(self) -> None:
        """Look on, until it is closed; for `start`."""
        while not self.closed:
            self._look()

    def rest(self, seconds: float | None) -> None:
        """Do nothing for some seconds, or until it is woken or closed; for `look`."""
        if not self.closed:
            self._woken.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
            self._woken.clear()

    def wake(self) -> None:
        """Let it look at once."""
        self._woken.set()

    def close(self) -> None:
        """End it, and wait until it has ended."""
        self.closed = True
        self.wake()
        if self.is_alive():
            self.join()
