"""How many messages may wait in the mailbox of a server, and what follows when more come."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, final

from attrs import frozen

from otpy._core.checks import check_member, refuse
from otpy._core.spec import INFINITY

if TYPE_CHECKING:
    from otpy._core.spec import Count


class Overflow(Enum):
    """What follows when a server has as many messages waiting as it may."""

    REFUSE = "refuse"
    """A `call` raises `MailboxFull` at once; a `cast` or `send` is dropped and counted."""
    END = "end"
    """The server is killed, without `terminate`; its supervisor sees `Crashed(MailboxFull)`."""


@final
@frozen
class MailboxLimit:
    """A limit on the messages that wait in the mailbox of a server: `mailbox` of its class.

    The message that is being served does not count, nor what a state machine has postponed.

    Attributes:
        warn: So many messages wait: it is reported as `MailboxGrown`. Once, and again when fewer
            than half of them waited in between; `INFINITY` does not report it.
        most: So many may wait. What the server has asked for itself comes in all the same: its
            timers, notices of ends, results of its tasks.
        then: What follows when one more comes.

    Raises:
        InvalidSpec: If a number is not a whole number of at least 1, or `most` is less than `warn`.
    """

    warn: Count
    most: Count = INFINITY
    then: Overflow = Overflow.REFUSE

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        _check("warn", self.warn)
        _check("most", self.most)
        if isinstance(self.warn, int) and isinstance(self.most, int) and self.most < self.warn:
            refuse("MailboxLimit", "most", self.most, f"at least warn, which is {self.warn}")
        check_member("MailboxLimit", "then", self.then, Overflow)


def _check(name: str, got: object) -> None:
    if got is not INFINITY and (isinstance(got, bool) or not isinstance(got, int) or got < 1):
        refuse("MailboxLimit", name, got, "a whole number of at least 1, or INFINITY")
