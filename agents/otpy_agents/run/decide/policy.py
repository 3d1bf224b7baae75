"""The policy of a run for failed attempts, as one value and one table (C-03).

The policy says what may be done and how often; it knows nothing of a single run. What is possible
in a run at the moment, its machine decides (`machine.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, cast

from attrs import frozen

from otpy import Backoff
from otpy_agents.attempt.failures import ERROR_TYPES, Detail, ErrorType
from otpy_agents.errors import InvalidRunSetting
from otpy_agents.run.decide.result import StopCause
from otpy_agents.run.decide.time_text import span

__all__ = ["FailureAction", "FatalScope", "RetryPolicy", "FailureRule"]


class FatalScope(StrEnum):
    """How much a `fatal` failure ends (C-06)."""

    TASK = "task"
    """The run, even if other agents are left (RUN-50)."""
    AGENT = "agent"
    """Only this agent's part in it, where another agent may do better."""


class FailureAction(StrEnum):
    """What follows a failed attempt."""

    RETRY = "retry"
    """The same agent again, after the standard backoff; costs one of its retries."""
    COOL_DOWN = "cool_down"
    """The first agent from this one on that is free; costs a retry if it is this one again."""
    NEXT_AGENT = "next_agent"
    """The next agent of the chain, at once; without one the run ends (C-05)."""
    CRASH_RESTART = "crash_restart"
    """The same agent again, at once, at no cost (C-04)."""
    FRESH_SESSION = "fresh_session"
    """The same agent again, at once and without resuming, at no cost (G-12)."""
    END = "end"
    """The run ends (RUN-50)."""


@frozen
class FailureRule:
    """What follows one kind of failure.

    Attributes:
        first: Done as long as it may be.
        times: How often it may be; None if only its own counter says so.
        then: Done afterwards. Where that cannot be done either, the next agent is asked, and
            without one the run ends (RUN-46).
    """

    first: FailureAction
    times: int | None
    then: FailureAction


_ANOTHER_MAY_DO_BETTER: Final = {Detail.AUTH, Detail.BILLING, Detail.MODEL_UNAVAILABLE}
# Unexplained failures are tried once more and not three times.
_UNKNOWN_RETRIES: Final = 1
_LIVENESS: Final = tuple(stop for stop in StopCause if stop.for_silence)


@frozen(kw_only=True)
class RetryPolicy:
    """How often, how soon and by whom a failed attempt is repeated (RUN-21, C-03).

    Attributes:
        max_retries: Retries of each agent; it has one attempt more than that (RUN-46, C-36).
        backoff_base: Seconds before its first retry; then three and nine times as long (C-35).
        rate_limit_backoff_base: Seconds of the first cooldown for which the vendor named no time;
            then two and five times as long (C-35).
        jitter: Share by which each delay is varied, up or down, from 0 to 1, so that runs that
            failed together do not try again together (C-34).
        crash_restarts: Restarts after a crash, in the whole run, that cost no retry (C-04).
        max_attempts: Attempts of all agents together (RUN-49).
        enable_fallback: Whether other agents of the chain are asked without a person's word.
        fatal_scope: How much a `fatal` failure ends (C-06). Without a fallback both end the run.
        max_wait: Seconds that a run may wait for an account that rests; if it had to wait longer it
            ends as `quota` instead. None for no limit.
        account_rest: Seconds for which an account rests, for all runs, whose login or bill failed;
            0 for not at all: then the next run finds out for itself.
        resume: Whether a later attempt goes on in the session of the one before it, where the agent
            can; otherwise each begins as the first one did (C-21).

    Raises:
        InvalidRunSetting: A number is none, or too small.
    """

    max_retries: int = 3
    backoff_base: float = 5.0
    rate_limit_backoff_base: float = 60.0
    jitter: float = 0.0
    crash_restarts: int = 1
    max_attempts: int = 30
    enable_fallback: bool = True
    fatal_scope: FatalScope = FatalScope.AGENT
    max_wait: float | None = 86400.0
    account_rest: float = 0.0
    resume: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        for name, least in (("max_retries", 0), ("crash_restarts", 0), ("max_attempts", 1)):
            count: object = getattr(self, name)
            # True is an int to Python alone.
            if type(count) is not int or count < least:
                wanted = f"a whole number of at least {least}"
                raise InvalidRunSetting(f"retry.{name}", repr(count), wanted)
        for name in ("backoff_base", "rate_limit_backoff_base", "max_wait", "account_rest"):
            seconds: object = getattr(self, name)
            if name == "max_wait" and seconds is None:
                continue
            if type(seconds) not in {int, float} or not 0 <= cast("float", seconds) < math.inf:
                raise InvalidRunSetting(f"retry.{name}", repr(seconds), "seconds of at least 0")
        if type(self.jitter) not in {int, float} or not 0 <= self.jitter <= 1:
            wanted = "a share as a number from 0 to 1"
            raise InvalidRunSetting("retry.jitter", repr(self.jitter), wanted)

    @property
    def backoff(self) -> Backoff:
        """Delays before retries: 5, 15 and 45 seconds unless the base says otherwise (RUN-47)."""
        base = self.backoff_base
        return Backoff.sequence(base, 3 * base, 9 * base, jitter=self.jitter)

    @property
    def rate_limit_backoff(self) -> Backoff:
        """Cooldowns: 60, 120 and 300 seconds unless the base says otherwise (RUN-48)."""
        base = self.rate_limit_backoff_base
        return Backoff.sequence(base, 2 * base, 5 * base)

    @property
    def patience(self) -> float:
        """Seconds that a run waits for a cooldown although another agent is free.

        A change of agents costs all that the first one has learnt. It is not worth it for less than
        the shortest delay between two attempts of one agent.
        """
        return self.backoff_base

    def rule(self, failure: Detail | StopCause) -> FailureRule:
        """Return what follows `failure`; a `StopCause` is one of `Liveness`."""
        if failure is Detail.SESSION_INVALID:
            return FailureRule(FailureAction.FRESH_SESSION, 1, FailureAction.RETRY)
        if failure is Detail.CONTEXT_OVERFLOW:
            return FailureRule(FailureAction.FRESH_SESSION, 1, FailureAction.END)
        if failure is Detail.UNKNOWN:
            return FailureRule(FailureAction.RETRY, _UNKNOWN_RETRIES, FailureAction.NEXT_AGENT)
        if isinstance(failure, StopCause):
            return FailureRule(FailureAction.RETRY, None, FailureAction.NEXT_AGENT)
        match ERROR_TYPES[failure]:
            case ErrorType.RETRYABLE:
                return FailureRule(FailureAction.RETRY, None, FailureAction.NEXT_AGENT)
            case ErrorType.RATE_LIMIT:
                return FailureRule(FailureAction.COOL_DOWN, None, FailureAction.NEXT_AGENT)
            case ErrorType.CONTAINER_CRASH:
                return FailureRule(
                    FailureAction.CRASH_RESTART, self.crash_restarts, FailureAction.RETRY
                )
            case ErrorType.AGENT_FAILURE:
                return FailureRule(FailureAction.NEXT_AGENT, None, FailureAction.END)
            case ErrorType.FATAL:
                wider = self.fatal_scope is FatalScope.AGENT and failure in _ANOTHER_MAY_DO_BETTER
                return FailureRule(
                    FailureAction.NEXT_AGENT if wider else FailureAction.END,
                    None,
                    FailureAction.END,
                )

    def rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Yield the table's rows: failure, class, first action, how often, what then."""
        for failure in (*Detail, *_LIVENESS):
            rule = self.rule(failure)
            ours = isinstance(failure, StopCause)
            error_type = ErrorType.RETRYABLE if ours else ERROR_TYPES[failure]
            yield str(failure), error_type, rule.first, self._times(rule), self._then(rule)

    def table(self) -> str:
        """Return the whole policy as text for people, first the table and then the numbers."""
        head = ("failure", "class", "first", "at most", "then")
        rows = [head, *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join((*lines, "", *(f"{name}: {text}" for name, text in self.numbers())))

    def numbers(self) -> Iterator[tuple[str, str]]:
        """Yield each number of the policy with its name for people."""
        yield "retries of each agent", f"{self.max_retries}"
        varied = f", varied by {self.jitter:.0%}" if self.jitter else ""
        yield "delays before them", f"{_spans(self.backoff)}{varied}"
        yield "cooldowns the vendor does not time", _spans(self.rate_limit_backoff)
        yield "cooldown waited for although another agent is free", f"{self.patience:g} s or less"
        longest = "for ever" if self.max_wait is None else f"{span(self.max_wait)} or less"
        yield "account that rests is waited for", longest
        yield "restarts after a crash", f"{self.crash_restarts}"
        yield "attempts of all agents", f"{self.max_attempts}"
        yield "other agents are asked", "yes" if self.enable_fallback else "only by a person"
        yield "a fatal failure ends", f"the {self.fatal_scope}"
        yield "later attempts resume", "yes" if self.resume else "no"

    def _times(self, rule: FailureRule) -> str:
        if rule.first in {FailureAction.RETRY, FailureAction.COOL_DOWN}:
            times = self.max_retries if rule.times is None else min(rule.times, self.max_retries)
            return f"{times} per agent"
        if rule.first is FailureAction.CRASH_RESTART:
            return f"{rule.times} per run"
        return f"{rule.times} per agent" if rule.first is FailureAction.FRESH_SESSION else ""

    def _then(self, rule: FailureRule) -> str:
        return "" if rule.first is FailureAction.END else str(rule.then)


def _spans(backoff: Backoff) -> str:
    return ", ".join(f"{delay:g}" for delay in backoff.delays) + " s"
