"""What a ledger tells: frozen values, one class for each kind of row."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen

__all__ = ["AssignmentRecord", "Outcome", "State", "WorkerRecord"]


class State(StrEnum):
    """Where an assignment stands (TREE-25)."""

    PENDING = "pending"
    """Not begun, or begun by a host that died in the middle."""
    WORKING = "working"
    """A worker runs, or is about to be started again."""
    DONE = "done"
    """Its worker succeeded; it is never done again. Final."""
    REAPED = "reaped"
    """It was given up, for the reason recorded (TREE-49). Final."""
    FAILED = "failed"
    """It could not be started at all; the next run tries again."""

    @property
    def final(self) -> bool:
        """Whether a later run leaves the assignment alone."""
        return self in {State.DONE, State.REAPED}


@frozen
class Outcome:
    """How an assignment came out.

    Attributes:
        state: Done, reaped or failed.
        reason: Why, in one line; empty if there is nothing to say.
    """

    state: State
    reason: str = field(default="")


@frozen(kw_only=True)
class AssignmentRecord:
    """What is known of one assignment. Times are Unix seconds, spans seconds.

    Attributes:
        id: As in the work list.
        digest: Fingerprint of the definition that was worked on.
        state: Where it stands.
        reason: Why it stands there; empty if there is nothing to say.
        restarts: Workers started after the first one of a host.
        attempts: Workers started, by all hosts.
        first_started: When the first worker was started; None if none was.
        finished: When it came to an end; None if it has not.
        seconds: Working time of all attempts together, delays between them not counted.
        output_bytes: Output of all attempts together.
        exit_code: Of the last worker; None if it was ended by a signal or has not ended.
        last_line: Last line of output.
    """

    id: str
    digest: str
    state: State = field(converter=State)
    reason: str
    restarts: int
    attempts: int
    first_started: float | None
    finished: float | None
    seconds: float
    output_bytes: int
    exit_code: int | None
    last_line: str


@frozen(kw_only=True)
class WorkerRecord:
    """One worker that was begun and whose end has not been recorded.

    Attributes:
        id: Number of the row, for `Ledger.end_attempt`.
        host: Number of the host's run that began it; increases with each run.
        assignment: Id of the assignment.
        incarnation: Which worker of the assignment under that host, from 1.
        pid: Its process; None if the host died before it could say.
        pgid: Its process group; None as above.
        create_time: Start of the process in Unix seconds; None as above.
        started: When it was begun, in Unix seconds.
    """

    id: int
    host: int
    assignment: str
    incarnation: int
    pid: int | None
    pgid: int | None
    create_time: float | None
    started: float
