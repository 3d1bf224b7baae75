"""How long an attempt may be silent or take, and what then (C-01).

The default is to do nothing: a long silence is shown once and never acted upon (RUN-54). An
operator turns more on with one word.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from attrs import field, frozen

from otpy_agents.errors import InvalidRunSetting

__all__ = ["QUIET_AFTER", "Liveness", "LivenessKind"]

QUIET_AFTER: Final = 60.0
"""Seconds without a sign of progress after which a silence is shown."""

_WANTED: Final = "none, deadline:SECONDS, stall:SECONDS or heartbeat:SECONDS"


class LivenessKind(StrEnum):
    """What counts as too long."""

    NONE = "none"
    """Nothing."""
    DEADLINE = "deadline"
    """One attempt, since it was started."""
    STALL = "stall"
    """The time since the agent last said something: a message, a tool call, tokens (G-05)."""
    HEARTBEAT = "heartbeat"
    """The time since the last output of any kind."""


@frozen
class Liveness:
    """When an attempt is ended for taking too long; `Liveness()` never does.

    Attributes:
        kind: The measured quantity.
        seconds: The limit; 0 for `NONE` and above 0 otherwise.

    Raises:
        InvalidRunSetting: Kind and limit do not go together.
    """

    kind: LivenessKind = LivenessKind.NONE
    seconds: float = field(default=0.0, converter=float)

    def __attrs_post_init__(self) -> None:
        """Refuse a limit that is none, and one that nothing uses."""
        if self.kind is LivenessKind.NONE:
            sound = self.seconds == 0
        else:
            sound = math.isfinite(self.seconds) and self.seconds > 0
        if not sound:
            raise InvalidRunSetting("liveness", str(self), _WANTED)

    @classmethod
    def parse(cls, text: str) -> Liveness:
        """Return what `text` says, for example `stall:300`.

        Raises:
            InvalidRunSetting: It says nothing of the kind.
        """
        name, colon, number = text.strip().partition(":")
        try:
            kind = LivenessKind(name)
            seconds = float(number) if colon else 0.0
        except ValueError:
            raise InvalidRunSetting("liveness", repr(text), _WANTED) from None
        if bool(colon) is (kind is LivenessKind.NONE):
            raise InvalidRunSetting("liveness", repr(text), _WANTED)
        return cls(kind, seconds)

    def __str__(self) -> str:
        """Return it as `parse` takes it."""
        return str(self.kind) if self.kind is LivenessKind.NONE else f"{self.kind}:{self.seconds:g}"

    @property
    def quiet_after(self) -> float:
        """Seconds without progress after which a silence is shown, always before it is ended."""
        return min(QUIET_AFTER, self.seconds) if self.kind is LivenessKind.STALL else QUIET_AFTER

    def overdue(self, began: float, progress: float, output: float) -> float:
        """Return when an attempt has taken too long, in the unit of the arguments.

        Args:
            began: When it was started.
            progress: When the agent last said something.
            output: When it last wrote anything.
        """
        since = {
            LivenessKind.DEADLINE: began,
            LivenessKind.STALL: progress,
            LivenessKind.HEARTBEAT: output,
        }.get(self.kind)
        return math.inf if since is None else since + self.seconds

    def complaint(self) -> str:
        """Return why an attempt was ended for it, as the message of the attempt."""
        words = {
            LivenessKind.DEADLINE: "took longer than its deadline of",
            LivenessKind.STALL: "made no progress for",
            LivenessKind.HEARTBEAT: "wrote nothing for",
        }
        return f"{words.get(self.kind, '')} {self.seconds:g} s".strip()
