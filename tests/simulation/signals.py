"""The account of monitors and links: each end is told once, to every watcher and partner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from otpy import ExitReason, Normal, Process
from otpy._core.reason import SHUTDOWN
from otpy._runtime.links import Trap, traps
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.behaviours.mailbox import Info, Mailbox
from otpy.signals import ExitSignal, Monitor
from tests.simulation.servers import Book

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger


def unread(inbox: object) -> Iterator[object]:
    """Yield the unread notices of an inbox."""
    if isinstance(inbox, Trap):
        yield from inbox.unread
    elif isinstance(inbox, Mailbox):
        for queue in (inbox.held, inbox.queue):
            yield from (m.message for m in queue or () if isinstance(m, Info))


class SignalLedger:
    """A record of links and monitors."""

    def __init__(self, ledger: Ledger) -> None:
        self._expect, self._blamed = ledger.expect, ledger.blamed
        self._monitors: dict[Process, Monitor] = {}
        self._links: dict[Process, dict[Process, None]] = {}

    def born(self, process: Process) -> None:
        """Watch `process`, as code outside of any tree."""
        if process.incarnation % 2:
            self._monitors[process] = (
                shell_of(process.parent).tree.context.copy().run(process.monitor)
            )

    def link(self, one: Process, other: Process) -> None:
        """Link two processes."""
        before = other in self._links.get(one, {})
        self.linked(one, other)
        try:
            one.link(other)
        except RecursionError:  # the link was not made
            if not before:
                self.unlinked(one, other)
            raise

    def linked(self, one: Process, other: Process) -> None:
        """Record that two processes are linked, or are about to be."""
        for mine, partner in ((one, other), (other, one)):
            if mine.exit_reason is not None and not isinstance(mine.exit_reason, Normal):
                self._blamed.add(partner)
        if one.alive and other.alive and one is not other:
            self._links.setdefault(one, {})[other] = None
            self._links.setdefault(other, {})[one] = None

    def unlink(self, one: Process, other: Process) -> None:
        """Remove a link."""
        one.unlink(other)
        self.unlinked(one, other)

    def unlinked(self, one: Process, other: Process) -> None:
        """Record that two processes are no longer linked, or are about to be unlinked."""
        self._links.get(one, {}).pop(other, None)
        self._links.get(other, {}).pop(one, None)

    def ended(self, process: Process, reason: ExitReason) -> None:
        """Check that the end of `process` was told to its watchers and partners."""
        monitor = self._monitors.get(process)
        if monitor is not None:
            down = cast("Any", monitor)._down
            told = down is not None and down.process is process and down.reason is reason
            self._expect(told, "{} was told {}", monitor, down)
        for partner in self._links.pop(process, {}):
            self._links.get(partner, {}).pop(process, None)
            if partner.alive and partner.supervisor is None:
                self._check_told(partner, process, reason)

    def _check_told(self, partner: Process, process: Process, reason: ExitReason) -> None:
        if traps(live_of(partner)):
            watchers = live_of(partner).watchers
            inbox = watchers.inbox if watchers else None
            got = [n for n in unread(inbox) if _tells(n, process, reason)]
            # The process may have sent the same before, by an `exit` without a reason.
            right = len(got) == 1 or (len(got) > 1 and reason is SHUTDOWN)
            self._expect(right, "{} was told {} times of {}", partner, len(got), process)
        elif not isinstance(reason, Normal):
            self._blamed.add(partner)
            task = live_of(partner).task
            ends = live_of(partner).ending is not None or (task is not None and task.done())
            self._expect(ends, "{} lives on after {}", partner, process)

    def check_gone(self, process: Process) -> None:
        """Check that an ended process has no watchers, links or monitors."""
        watchers = live_of(process).watchers
        if watchers is not None:
            rest = [*watchers.monitors, *watchers.links, *watchers.watching]
            self._expect(not rest, "{} keeps {}", process, rest)

    def check_rest(self, process: Process) -> None:
        """Check that a living process is bound to the living only, and knows of the dead."""
        watchers = live_of(process).watchers
        if watchers is not None:
            dead = [p for p in watchers.links if not p.alive]
            self._expect(not dead, "{} is linked to {}", process, dead)
            pairs = [(watch, watch.owner) for watch in watchers.monitors]
            alone = [watch() for watch, owner in pairs if owner and watch not in owner.watching]
            self._expect(not alone, "{} is watched by {}, whose owner has ended", process, alone)
        state: Any = getattr(live_of(process).behaviour, "state", None)
        inbox: Any = getattr(live_of(process).behaviour, "mailbox", None)
        if isinstance(state, Book) and inbox.asleep and not inbox.suspended:
            untold = [p for p in state.watched if not p.alive]
            self._expect(not untold, "{} was never told of {}", process, untold)


def _tells(notice: object, process: Process, reason: ExitReason) -> bool:
    if not isinstance(notice, ExitSignal):
        return False
    return notice.process is process and notice.reason is reason
