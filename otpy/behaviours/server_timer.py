"""A timer of one life of a server, whose message lands in the mailbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import asyncio

    from otpy.behaviours.mailbox import Mailbox, Message


@final
class ServerTimer:
    """One that runs; `among` all of its server, which cancels them when it ends.

    Attributes:
        handle: What the loop has of it; set by who starts it.
    """

    __slots__ = ("_among", "_mailbox", "_message", "handle")

    def __init__(self, among: set[ServerTimer], mailbox: Mailbox, message: Message) -> None:
        """Have a `message` for this `mailbox`."""
        self._among = among
        self._mailbox = mailbox
        self._message = message
        self.handle: asyncio.TimerHandle

    def ring(self) -> None:
        """Time is over: send the message."""
        self._among.discard(self)
        self._mailbox.put(self._message)

    def cancel(self) -> None:
        """Never ring; nothing happens if it has rung or was cancelled."""
        self._among.discard(self)
        self.handle.cancel()
