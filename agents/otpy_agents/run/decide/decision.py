"""What follows a failed attempt, and which agent makes the next one.

Pure functions of the state: the policy says what may be done, these say what can be.
"""

from __future__ import annotations

import struct
import zlib

from otpy_agents.attempt.failures import ACCOUNT_FAILURES, ErrorType
from otpy_agents.run.decide.cooldown import Cooldown
from otpy_agents.run.decide.policy import FailureAction, FailureRule
from otpy_agents.run.decide.result import AttemptRecord, Cause, retries_in
from otpy_agents.run.decide.state import RunState

__all__ = ["action_after", "choose", "cooldown_after", "delay_after"]


def action_after(state: RunState, record: AttemptRecord) -> FailureAction:
    """Return what follows `record`, the last of `state.attempts`, which failed (C-03)."""
    failure = record.stopped or record.detail
    if failure is None:
        raise ValueError(f"got attempt {record.number}, which succeeded, wanted one that failed")
    rule = state.policy.rule(failure)
    if _left(state, record, rule):
        return rule.first
    if rule.then is FailureAction.RETRY and _retries_left(state):
        return FailureAction.RETRY
    return rule.then if rule.then is FailureAction.END else FailureAction.NEXT_AGENT


def _left(state: RunState, record: AttemptRecord, rule: FailureRule) -> bool:
    """Whether the first action of the rule may be taken once more."""
    match rule.first:
        case FailureAction.RETRY | FailureAction.COOL_DOWN:
            alike = sum(own.failure == record.failure for own in state.own)
            return _retries_left(state) and (rule.times is None or alike <= rule.times)
        case FailureAction.CRASH_RESTART:
            restarts = sum(one.cause is Cause.CRASH_RESTART for one in state.attempts)
            return restarts < (rule.times or 0)
        case FailureAction.FRESH_SESSION:
            fresh = sum(own.cause is Cause.FRESH_SESSION for own in state.own)
            return record.resumed is not None and fresh < (rule.times or 0)
        case FailureAction.NEXT_AGENT | FailureAction.END:
            return True


def _retries_left(state: RunState) -> bool:
    return retries_in(state.own) < state.policy.max_retries


def cooldown_after(
    state: RunState, record: AttemptRecord, retry_after: float | None
) -> Cooldown | None:
    """Return the cooldown that `record`, the last of `state.attempts`, makes necessary (C-15).

    It lasts as long as the vendor said. If the vendor did not say, or said 0, it grows with each
    limit that this run has met with this agent (RUN-48): a count over all runs would punish the
    first limit that ten of them meet at once as if it were the tenth. From the second limit on it
    lasts at least the delay of a retry: otherwise a vendor that says "in 0.5 s" each time would
    use up all retries in two seconds.

    An account whose login or bill failed rests for `RetryPolicy.account_rest`.
    """
    if record.detail in ACCOUNT_FAILURES and state.policy.account_rest:
        rest = record.ended + state.policy.account_rest
        return Cooldown(state.agent.account, rest, record.ended, str(record.detail))
    if record.error_type is not ErrorType.RATE_LIMIT:
        return None
    times = sum(own.error_type is ErrorType.RATE_LIMIT for own in state.own)
    seconds = retry_after or state.policy.rate_limit_backoff.delay(times - 1, lambda: 0.0)
    if times > 1:
        seconds = max(seconds, state.policy.backoff.delay(times - 2, lambda: 0.0))
    until = record.ended + seconds
    return Cooldown(state.agent.account, until, record.ended, str(record.detail))


def delay_after(state: RunState, retry_after: float | None) -> float:
    """Return the seconds until the agent in use tries again (RUN-47).

    A vendor that is overloaded may ask for more, and gets it, up to the first cooldown.
    """
    asked = min(retry_after or 0.0, state.policy.rate_limit_backoff_base)
    chance = _chance(state.attempts[-1].ended)
    return max(state.policy.backoff.delay(state.retries, lambda: chance), asked)


def _chance(moment: float) -> float:
    """Return a number from 0 up to 1 for a moment; no two runs fail in the same microsecond.

    A state decides the same whenever it is asked, so it draws from what it has.
    """
    return zlib.crc32(struct.pack(">d", moment)) / 2**32


def choose(
    state: RunState, earliest: int, now: float, not_before: float, *, forced: bool = False
) -> tuple[int, float] | None:
    """Return the agent of the next attempt, and when it may begin; None if no agent is left.

    The first agent of the chain, from `earliest` on, that is free; if none is, the one that will be
    free first. It never goes back. An agent counts as free if its cooldown is over within the
    policy's `patience`, or within the backoff that it has to wait for anyway.

    Args:
        state: Where the run stands.
        earliest: First place in the chain that may be chosen.
        now: In Unix seconds.
        not_before: When the agent in use may try again, in Unix seconds; others may at once.
        forced: Whether a person wants it, who needs no `enable_fallback` (C-02).
    """
    chain = range(earliest, len(state.chain.agents))
    if not (forced or state.policy.enable_fallback):
        chain = range(earliest, min(state.position + 1, len(state.chain.agents)))
    best: tuple[int, float] | None = None
    for position in chain:
        own = not_before if position == state.position else now
        cold = state.cooldowns.until(state.chain.agents[position].account)
        ready = max(now, own, cold)
        if cold <= max(own, now + state.policy.patience):
            return position, ready
        if best is None or ready < best[1]:
            best = position, ready
    return best
