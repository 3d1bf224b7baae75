"""What kind of failure an agent died of, and what follows: one table, printable and extensible.

The classes and most rows are those of TREE-32 and TREE-33. The failures of a run come with the
names the run gives them, so that a table of rows by name is all there is. A user adds rows, or
changes them, by `FailureTable.extended`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, final

from attrs import evolve, field, frozen

from otpy_agents.attempt.failures import Detail
from otpy_agents.errors import InvalidFailureRow
from otpy_agents.run.decide.result import Ending, RunResult, StopCause

__all__ = ["Consequence", "FailureClass", "FailureRow", "FailureTable", "failure_of"]


class FailureClass(StrEnum):
    """The classes of TREE-32."""

    TRANSIENT = "transient"
    """Trying again helps, most likely."""
    PERSISTENT = "persistent"
    """Trying again may help once."""
    TERMINAL = "terminal"
    """Trying again cannot help; a person decides."""
    UNKNOWN = "unknown"
    """It is unknown whether another try helps; a person decides."""


class Consequence(StrEnum):
    """What follows a failure."""

    WAIT = "wait"
    """The same life goes on when the account may be used again; nothing is counted (C-15)."""
    RESTART = "restart"
    """The agent is restarted by its policy, which counts it."""
    NOTIFY = "notify"
    """It is not restarted; a person is told."""
    ESCALATE = "escalate"
    """It is not restarted; the giver of the work is told, and a person."""

    @property
    def ends(self) -> bool:
        """Whether the agent is given up."""
        return self in {Consequence.NOTIFY, Consequence.ESCALATE}


@final
@frozen(kw_only=True)
class FailureRow:
    """The meaning of one failure.

    Attributes:
        kind: Its class.
        rounds: How often it may come before it counts as terminal; None for no such limit. It wins
            over the one retry of a persistent failure: it is the number of rounds of C-16.
        waits: Whether it is the account's, and therefore no failure of the agent at all: a limit
            that time lifts (C-15), or a login or a bill that a person sees to.

    Raises:
        InvalidFailureRow: `rounds` is less than 1.
    """

    kind: FailureClass = field(converter=FailureClass)
    rounds: int | None = None
    waits: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        if self.rounds is not None and self.rounds < 1:
            raise InvalidFailureRow("rounds", repr(self.rounds), "a whole number from 1, or None")


_TRANSIENT: Final = FailureRow(kind=FailureClass.TRANSIENT)
_PERSISTENT: Final = FailureRow(kind=FailureClass.PERSISTENT)
_TERMINAL: Final = FailureRow(kind=FailureClass.TERMINAL)
_UNKNOWN: Final = FailureRow(kind=FailureClass.UNKNOWN)
_LIMITED: Final = FailureRow(kind=FailureClass.TRANSIENT, waits=True)

_ROWS: Final[Mapping[str, FailureRow]] = {
    # What the run found out.
    Detail.NETWORK: _TRANSIENT,
    Detail.SERVER_ERROR: _TRANSIENT,
    Detail.OVERLOADED: _TRANSIENT,
    Detail.PROTOCOL: _TRANSIENT,
    Detail.CRASH: _TRANSIENT,
    Detail.SESSION_INVALID: _TRANSIENT,
    Detail.SESSION_CONFLICT: _TRANSIENT,
    Detail.RATE_LIMIT: _LIMITED,
    Detail.QUOTA: _LIMITED,
    Detail.NO_RESULT: _PERSISTENT,
    Detail.TOOLS_DENIED: _PERSISTENT,
    Detail.CONTEXT_OVERFLOW: _PERSISTENT,
    Detail.AUTH: _LIMITED,
    Detail.BILLING: _LIMITED,
    Detail.MODEL_UNAVAILABLE: _TERMINAL,
    Detail.USAGE: _TERMINAL,
    Detail.BUDGET: _TERMINAL,
    StopCause.DEADLINE: _TRANSIENT,
    StopCause.STALL: _TRANSIENT,
    StopCause.HEARTBEAT: _TRANSIENT,
    StopCause.INTERRUPTED: _TRANSIENT,
    StopCause.CANCEL: _TERMINAL,
    StopCause.KILL: _TERMINAL,
    # What the tree found out.
    "session_corrupt": _TRANSIENT,
    "resources": _TRANSIENT,
    "tests_failed": FailureRow(kind=FailureClass.PERSISTENT, rounds=3),
    "commitment_failed": _PERSISTENT,
    "changeset_wrong": _PERSISTENT,
    "attempt_limit": _PERSISTENT,
    "violation": _TERMINAL,
}


def _sealed(rows: Mapping[str, FailureRow]) -> Mapping[str, FailureRow]:
    return MappingProxyType({str(name): row for name, row in rows.items()})


@final
@frozen(kw_only=True)
class FailureTable:
    """The class of each failure, and its consequence (TREE-33).

    Attributes:
        rows: The meaning of each failure, by name. A missing name is unknown.
    """

    rows: Mapping[str, FailureRow] = field(default=_ROWS, converter=_sealed)

    def extended(self, rows: Mapping[str, FailureRow]) -> FailureTable:
        """Return the table with `rows` added, or put in the place of those of the same names."""
        return evolve(self, rows={**self.rows, **_sealed(rows)})

    def row(self, failure: str) -> FailureRow:
        """Return what `failure` means; that of an unknown failure if there is no such row."""
        return self.rows.get(failure, _UNKNOWN)

    def kind(self, failure: str, times: int = 1) -> FailureClass:
        """Return the class of a failure that came `times` times, this one included."""
        row = self.row(failure)
        spent = row.rounds is not None and times >= row.rounds
        return FailureClass.TERMINAL if spent else row.kind

    def follows(self, failure: str, times: int = 1, *, drone: bool = False) -> Consequence:
        """Return what follows a failure that came `times` times, this one included (TREE-32).

        How often a transient failure may come is not said here but by the restart window of the
        agent: that counts restarts for any reason.

        Args:
            failure: Its name.
            times: How often it came.
            drone: Whether it came to a drone, which only a transient failure restarts (C-14).
        """
        row = self.row(failure)
        if row.waits:
            return Consequence.WAIT
        match self.kind(failure, times):
            case FailureClass.TRANSIENT:
                return Consequence.RESTART
            case FailureClass.PERSISTENT:
                again = not drone and (row.rounds is not None or times == 1)
                return Consequence.RESTART if again else Consequence.ESCALATE
            case FailureClass.TERMINAL:
                return Consequence.NOTIFY
            case FailureClass.UNKNOWN:
                return Consequence.ESCALATE

    def table(self) -> str:
        """Return the whole table as text for people."""
        head = ("failure", "class", "at first", "later")
        rows = [head, *((name, *self._cells(name)) for name in self.rows)]
        rows.append(("anything else", *self._cells("")))
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _cells(self, name: str) -> tuple[str, str, str]:
        row = self.row(name)
        if row.rounds is not None:
            later = f"{self.follows(name, row.rounds)}, the {row.rounds}. time"
        else:
            later = str(self.follows(name, 2))
        return row.kind, self.follows(name), later


def failure_of(result: RunResult) -> str:
    """Return the name of a run's failure, as a row of the table; empty for success.

    A run that was stopped by the program that made it did not fail: that is empty too.
    """
    match result.ending:
        case Ending.SUCCEEDED | Ending.STOPPED:
            return ""
        case Ending.BUDGET:
            return str(Detail.BUDGET)
        case Ending.QUOTA:
            return str(Detail.QUOTA)
        case Ending.CANCELLED | Ending.RETRY_CANCELLED:
            return str(StopCause.CANCEL)
        case Ending.KILLED:
            return str(StopCause.KILL)
        case Ending.ATTEMPT_LIMIT:
            return "attempt_limit"
        case Ending.FATAL | Ending.EXHAUSTED:
            last = result.attempts[-1].failure if result.attempts else ""
            return last or str(Detail.UNKNOWN)
