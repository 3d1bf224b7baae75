"""The mailbox of a server whose class declares a limit; others do without all of this."""

from __future__ import annotations

from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Final, final

from otpy.behaviours.mailbox import Call, Full, Mailbox
from otpy.behaviours.mailbox_limit import Overflow
from otpy.errors import MailboxFull
from otpy.reports import MailboxGrown

if TYPE_CHECKING:
    from otpy._core.spec import Count
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.mailbox import Message, Reader
    from otpy.behaviours.mailbox_limit import MailboxLimit

_COUNTING: Final = RLock()  # may be entered again where it is held, by what the collector calls


@final
class LimitedMailbox(Mailbox):
    """Counts what waits whenever a message comes; see `MailboxLimit`.

    Only then does the count grow. So what is found when a message comes is the least that waited
    since the one before it, and nobody has to look when messages are taken out.
    """

    __slots__ = (
        "_dropped",
        "_ends",
        "_limit",
        "_low",
        "_most",
        "_process",
        "_told",
        "_warn",
        "_warned",
    )

    def __init__(self, reader: Reader, process: LiveProcess, limit: MailboxLimit) -> None:
        """Hold nothing yet, for the server `reader` in `process`."""
        super().__init__(reader, process.parent.tree)
        self._process: LiveProcess | None = process  # no more when it is closed: it leads here
        self._warn = _number(limit.warn)
        self._most = _number(limit.most)
        self._low = min(self._warn, self._most) / 2
        self._limit = limit
        self._ends = limit.then is Overflow.END
        self._warned = False  # of what waits; until fewer wait than `_low`
        self._told = False  # that messages are dropped, or that the server is to end; same
        self._dropped = 0  # and not reported yet

    def put(self, message: Message) -> None:
        """Take a message in any case: the server, or its supervisor, has asked for it."""
        self._look()
        super().put(message)

    def offer(self, message: Message) -> None:
        """Take a message from outside, unless too many wait."""
        waiting = self._look()
        if waiting < self._most:
            super().put(message)
        elif not isinstance(message, Call):
            self._drop(waiting)
        elif self._ends:
            super().put(message)  # its caller hears of the end
        else:
            message.answer(Full(self._limit.most))

    def _look(self) -> int:
        """Count what waits, and do what follows from that; before a message is added."""
        queue, held = self.queue, self.held
        waiting = (len(queue) if queue else 0) + (len(held) if held else 0)
        if waiting < self._low:
            self._warned = self._told = False
        if waiting + 1 >= self._warn and not self._warned:
            self._order_report(waiting + 1)
            self._warned = True
        if self._ends and waiting >= self._most and not self._told:
            self._end()
            self._told = True
        return waiting

    def _drop(self, waiting: int) -> None:
        if self._ends:
            return  # with all that waits
        with _COUNTING:
            self._dropped += 1
        if not self._told:
            self._order_report(waiting)
            self._told = True

    def _end(self) -> None:
        process = self._process
        if process is not None:
            error = MailboxFull(process.path, f"most={self._limit.most}")
            self.tree.order(process.cut, error)

    def _order_report(self, waiting: int) -> None:
        process = self._process
        if process is not None:
            self.tree.order(_report, process, waiting, self._take_dropped())

    def _take_dropped(self) -> int:
        with _COUNTING:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def close(self) -> list[Message]:
        """Return the unserved messages; report dropped messages that were not reported yet."""
        rest = super().close()
        process, self._process = self._process, None
        if self._dropped and process is not None:
            _report(process, len(rest), self._take_dropped())
        return rest


def _number(count: Count) -> float:
    return count if isinstance(count, int) else inf


def _report(process: LiveProcess, waiting: int, dropped: int) -> None:
    tree = process.parent.tree
    if tree.hooks:
        tree.report(
            MailboxGrown(
                path=process.path,
                time=tree.loop.time(),
                incarnation=process.incarnation,
                restarts=process.restarts,
                waiting=waiting,
                dropped=dropped,
            )
        )
