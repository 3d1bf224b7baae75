"""What the end of one process does to another that is bound to it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

from otpy._core.reason import Abandoned, Killed, Normal

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import Process


def signal_of(reason: ExitReason) -> ExitReason | None:
    """Return the reason that a process passes on to those bound to it; None if it passes on none.

    SIG-01: a normal end disturbs nobody, any other is passed on as it is. A process that was given
    up counts as killed, for who ends because of it has not been given up.
    """
    if isinstance(reason, Normal):
        return None
    return Killed() if isinstance(reason, Abandoned) else reason


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
