"""What the end of one process does to another that is bound to it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

from otpy._core.reason import signal_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import Process


@final
class Link:
    """Binds two processes until the first of them ends (SIG-01): an abnormal end ends both."""

    __slots__ = ("_forget",)

    def __init__(self, one: Process, other: Process) -> None:
        """Bind them; if one has ended already, the other gets the signal at once."""
        self._forget: list[Callable[[], object]] = []
        for mine, theirs in ((one, other), (other, one)):
            self._forget.append(mine.on_exit(partial(self._ended, theirs)))

    def _ended(self, theirs: Process, _: Process, reason: ExitReason) -> None:
        self.remove()
        signal = signal_of(reason)
        if signal is not None:
            theirs.exit(signal)

    def remove(self) -> None:
        """Bind them no longer."""
        for forget in self._forget:
            forget()
