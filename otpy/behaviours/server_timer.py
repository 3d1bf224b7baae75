"""A timer of one life of a server, whose message lands in the mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import asyncio

    from otpy.behaviours.mailbox import Mailbox, Message


@final
class ServerTimer:
    """What `send_after` and `send_interval` return, for `cancel_timer`; ends with its server."""

    __slots__ = ("_among", "_handle", "_mailbox", "_message", "_period")

    def __init__(
        self,
        among: set[ServerTimer],
        mailbox: Mailbox,
        message: Message,
        seconds: float,
        *,
        again: bool,
    ) -> None:
        """Put `message` into `mailbox` in `seconds`, and `again` and again; for the runtime.

        It is `among` all timers of its server, which cancels them when it ends, while it runs.
        """
        self._among = among
        self._mailbox = mailbox
        self._message = message
        self._period = seconds if again else None
        self._handle: asyncio.TimerHandle = mailbox.tree.call_later(seconds, self._ring)
        among.add(self)

    def _ring(self) -> None:
        if self._period is None:
            self._among.discard(self)
        else:  # from when it was due: what comes late delays no later one
            due = self._handle.when() + self._period
            self._handle = self._mailbox.tree.call_at(due, self._ring)
        self._mailbox.put(self._message)

    def cancel(self) -> bool:
        """Send nothing any more; return whether there was anything to come."""
        ran = self in self._among
        self._among.discard(self)
        self._handle.cancel()
        return ran
