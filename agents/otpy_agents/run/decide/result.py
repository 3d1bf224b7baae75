"""The result of a run: every attempt, and how it ended (RUN-22, C-07)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from attrs import frozen

from otpy_agents.attempt.failures import ERROR_TYPES, Detail, ErrorType
from otpy_agents.attempt.usage import Usage

__all__ = [
    "AttemptRecord",
    "Cause",
    "Ending",
    "RunOutcome",
    "RunResult",
    "StopCause",
    "VendorSession",
    "fallbacks_in",
    "retries_in",
]


class Cause(StrEnum):
    """Why an attempt was begun."""

    FIRST = "first"
    """It is the first of the run."""
    RETRY = "retry"
    """The one before failed, and the same agent tries again; counted by `max_retries` (RUN-46)."""
    FALLBACK = "fallback"
    """Another agent of the chain takes over (RUN-28)."""
    CRASH_RESTART = "crash_restart"
    """The one before crashed; costs no retry (C-04)."""
    FRESH_SESSION = "fresh_session"
    """The session of the one before was of no use; costs no retry (G-12)."""
    INTERRUPTED = "interrupted"
    """The host died during the one before; costs no retry."""


class StopCause(StrEnum):
    """Why we ended an attempt ourselves, which makes its exit code meaningless."""

    CANCEL = "cancel"
    """A person gave the run up (RUN-60)."""
    KILL = "kill"
    """A person gave the run up and does not wait (RUN-61)."""
    STOP = "stop"
    """The program that runs it asked for it (RUN-63)."""
    FALLBACK = "fallback"
    """A person wants the next agent."""
    DEADLINE = "deadline"
    """It took too long (C-01)."""
    STALL = "stall"
    """It made no progress (C-01)."""
    HEARTBEAT = "heartbeat"
    """It wrote nothing (C-01)."""
    BUDGET = "budget"
    """It spent the last of the money of its run."""
    INTERRUPTED = "interrupted"
    """Its host died, and what was left of it was ended."""

    @property
    def ends_run(self) -> bool:
        """Whether no attempt follows, whatever the policy says (RUN-60 to RUN-62)."""
        return self in _ENDINGS

    @property
    def for_silence(self) -> bool:
        """Whether `Liveness` decided it; counts as a failure that may be retried."""
        return self in {StopCause.DEADLINE, StopCause.STALL, StopCause.HEARTBEAT}


class RunOutcome(StrEnum):
    """The two outcomes of RUN-25."""

    SUCCESS = "success"
    TERMINAL_FAIL = "terminal_fail"


class Ending(StrEnum):
    """Why a run is over."""

    SUCCEEDED = "succeeded"
    """An attempt did what it was for."""
    FATAL = "fatal"
    """A failure that no retry and no other agent can mend (RUN-50)."""
    EXHAUSTED = "exhausted"
    """No retry and no agent is left (RUN-46)."""
    ATTEMPT_LIMIT = "attempt_limit"
    """The cap over all agents was reached (RUN-49)."""
    BUDGET = "budget"
    """The money of the run is spent."""
    QUOTA = "quota"
    """Its account rests for longer than the run may wait."""
    CANCELLED = "cancelled"
    """A person cancelled it (RUN-60)."""
    KILLED = "killed"
    """A person killed it (RUN-61)."""
    STOPPED = "stopped"
    """The program that ran it stopped it (RUN-63)."""
    RETRY_CANCELLED = "retry_cancelled"
    """A person did not want the next attempt (RUN-66)."""


_ENDINGS: Final = {
    StopCause.CANCEL: Ending.CANCELLED,
    StopCause.KILL: Ending.KILLED,
    StopCause.STOP: Ending.STOPPED,
    StopCause.BUDGET: Ending.BUDGET,
}
_ASKED: Final = (StopCause.CANCEL, StopCause.KILL, StopCause.STOP)
# The exit codes of programs ended by SIGINT, SIGKILL and SIGTERM.
_STOP_CODES: Final = {Ending.CANCELLED: 130, Ending.KILLED: 137, Ending.STOPPED: 143}
_SIGNAL_BASE: Final = 128


def ending_of(stop: StopCause) -> Ending:
    """Return how a run ends that was ended by `stop`, one for which `ends_run` holds."""
    return _ENDINGS[stop]


@frozen(kw_only=True)
class AttemptRecord:
    """One attempt that is over.

    Attributes:
        number: From 1, over all agents.
        position: Place of its agent in the chain, from 0.
        agent_id: Its agent.
        agent_cli: The agent's CLI.
        cause: Why it was begun.
        resumed: Session it went on with; None for a new one.
        began: When it was begun, in Unix seconds.
        ended: When its end was known, in Unix seconds.
        exit_code: Of its process; None if there was none or it is unknown.
        signal: Signal that ended its process; None if none did.
        detail: What went wrong; None for success, and where we ended it ourselves.
        stopped: Why we ended it ourselves; None if we did not.
        message: Why it failed, in words; empty for success.
        session: Session it told of; None if it told of none.
        usage: Its usage that no earlier attempt has reported.
    """

    number: int
    position: int
    agent_id: str
    agent_cli: str
    cause: Cause
    resumed: str | None
    began: float
    ended: float
    exit_code: int | None
    signal: int | None
    detail: Detail | None
    stopped: StopCause | None
    message: str
    session: str | None
    usage: Usage

    @property
    def succeeded(self) -> bool:
        """Whether it achieved its purpose."""
        return self.detail is None and self.stopped is None

    @property
    def error_type(self) -> ErrorType | None:
        """Its class by RUN-37; None for success and where a person or a dead host ended it."""
        if self.stopped is not None:
            return ErrorType.RETRYABLE if self.stopped.for_silence else None
        return None if self.detail is None else ERROR_TYPES[self.detail]

    @property
    def failure(self) -> str:
        """`detail` or `stopped` as text; empty for success."""
        return self.stopped or self.detail or ""


@frozen(kw_only=True)
class VendorSession:
    """A session that a vendor's CLI keeps, and that a later run may go on with.

    Attributes:
        id: As the CLI calls it.
        agent_cli: The CLI.
        config_dir: Where it keeps its sessions; empty for its usual folder.
        counted: Its count so far, for a CLI whose count is of the whole session; without
            it a run that goes on with the session counts all of that once more.
    """

    id: str
    agent_cli: str
    config_dir: str = ""
    counted: Usage | None = None


def retries_in(attempts: Iterable[AttemptRecord]) -> int:
    """Return how many of `attempts` were retries; other causes are counted apart (C-03)."""
    return sum(record.cause is Cause.RETRY for record in attempts)


def fallbacks_in(attempts: Iterable[AttemptRecord]) -> int:
    """Return how many of `attempts` were begun by another agent than the one before."""
    return sum(record.cause is Cause.FALLBACK for record in attempts)


@frozen(kw_only=True)
class RunResult:
    """How a run ended, and all it did (RUN-22, C-07).

    Attributes:
        ending: Why it is over.
        error: Why it failed, in words; None for success.
        agent_id: Agent of the last attempt; of the first one planned if there was none (RUN-59).
        agent_used: That agent's CLI.
        attempts: Every attempt, in order.
        artifacts: Names of what the last attempt left; also after a failure (RUN-10).
        session: Last session that was told; None if none was.
        resumable: The same, as `RunOrder.session` takes it.
        usage: What all attempts spent together.
    """

    ending: Ending
    error: str | None
    agent_id: str
    agent_used: str
    attempts: tuple[AttemptRecord, ...]
    artifacts: tuple[str, ...]
    session: str | None
    resumable: VendorSession | None
    usage: Usage

    @property
    def outcome(self) -> RunOutcome:
        """Which of the two outcomes of RUN-25 it is."""
        ok = self.ending is Ending.SUCCEEDED
        return RunOutcome.SUCCESS if ok else RunOutcome.TERMINAL_FAIL

    @property
    def status(self) -> str:
        """`done` or `failed` (RUN-13); `stopped` if the program that ran it stopped it.

        Differs from RUN-13: a run that rests, as that of an agent that was paused, has not failed.
        """
        if self.ending is Ending.STOPPED:
            return "stopped"
        return "done" if self.outcome is RunOutcome.SUCCESS else "failed"

    @property
    def user_stop(self) -> StopCause | None:
        """`cancel`, `kill` or `stop`, if that ended the run (RUN-60, RUN-61, RUN-63)."""
        return next((stop for stop in _ASKED if _ENDINGS[stop] is self.ending), None)

    @property
    def exit_code(self) -> int:
        """The exit status for a program that made only this run; 0 only for success.

        130, 137 and 143 after a cancel, a kill and a stop. Otherwise that of the last attempt, 128
        and the signal if one ended it, and 1 where that would say 0 or nothing at all (C-25, C-37).
        """
        if self.outcome is RunOutcome.SUCCESS:
            return 0
        if self.ending in _STOP_CODES:
            return _STOP_CODES[self.ending]
        last = self.attempts[-1] if self.attempts else None
        if last is None or last.stopped is not None:
            return 1
        if last.signal is not None:
            return _SIGNAL_BASE + last.signal
        return last.exit_code or 1

    @property
    def retry_count(self) -> int:
        """Retries of all agents together."""
        return retries_in(self.attempts)

    @property
    def fallback_count(self) -> int:
        """How often another agent took over."""
        return fallbacks_in(self.attempts)

    @property
    def total_attempts(self) -> int:
        """Attempts, those that cost no retry included."""
        return len(self.attempts)

    @property
    def metadata(self) -> dict[str, str | int]:
        """What `on_done` hands on (RUN-22, RUN-55)."""
        return {
            "agent_used": self.agent_used,
            "agent_id": self.agent_id,
            "retry_count": self.retry_count,
            "fallback_count": self.fallback_count,
            "total_attempts": self.total_attempts,
        }
