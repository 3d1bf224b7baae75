"""Records the end of an attempt: its outcome, its usage, and what it left behind."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage, UsageMeter
from otpy_agents.run.decide.protocol import AttemptGone, Charged
from otpy_agents.run.decide.result import AttemptRecord, StopCause
from otpy_agents.run.decide.state import Attempt, RunState

__all__ = ["NO_EXIT_CODE", "recorded", "spent_with", "stop_that_counts", "verdict_on"]

NO_EXIT_CODE: Final = "its exit code is unknown"

_WORDS: Final = {
    StopCause.FALLBACK: "ended for the next agent",
    StopCause.INTERRUPTED: "its host died",
}


def stop_that_counts(event: AttemptGone, stopped: StopCause | None) -> StopCause | None:
    """Return why we ended an attempt; None if its answer came first.

    An answer that was heard wins over every later stop: finished work is not paid for twice.
    """
    done = event.answered and event.exit_code is not None and event.classification.succeeded
    return None if done else stopped


def verdict_on(event: AttemptGone, stopped: StopCause | None) -> Classification:
    """Return the verdict that counts.

    An attempt that was asked to end has none: its exit code depends on how the CLI takes a signal.
    One without an exit code never succeeded (C-37).
    """
    if stopped is not None:
        return Classification()
    if event.exit_code is None and event.classification.succeeded:
        return Classification(detail=Detail.UNKNOWN, message=NO_EXIT_CODE)
    return event.classification


def spent_with(state: RunState, attempt: Attempt, event: Charged) -> Usage:
    """Return the usage of a run, including that of the current `attempt`."""
    meter = UsageMeter(state.readings, state.usage)
    session = _session_of(attempt, event)
    meter.add(event.usage, session=session, cumulative=event.cumulative)
    return meter.total


def _session_of(attempt: Attempt, event: Charged | AttemptGone) -> str | None:
    """Return the session of `attempt`; None if none is known.

    Copilot names it in its last line. Of an attempt that outlived its host only the bill is read,
    and a bill of the whole session is that of the session it went on with.
    """
    named = event.session or attempt.session
    billed = event.cumulative and event.usage is not None
    return attempt.resumed if named is None and billed else named


def recorded(
    state: RunState,
    attempt: Attempt,
    event: AttemptGone,
    *,
    stopped: StopCause | None,
    now: float,
) -> RunState:
    """Return `state` with `attempt` over: the last of its records, its usage counted once.

    Args:
        state: Where the run stands.
        attempt: The attempt.
        event: Its end.
        stopped: Why we ended it; None if we did not.
        now: In Unix seconds.
    """
    verdict = verdict_on(event, stopped)
    session = _session_of(attempt, event)
    meter = UsageMeter(state.readings, state.usage)
    spent = Usage()
    if event.usage is not None:
        spent = meter.add(
            event.usage, session=session, cumulative=event.cumulative, late=event.late
        )
    message = verdict.message
    if stopped is not None:
        silence = state.liveness.complaint() if stopped.for_silence else ""
        message = silence or _WORDS.get(stopped, "")
    record = AttemptRecord(
        number=attempt.number,
        position=state.position,
        agent_id=state.agent.agent_id,
        agent_cli=state.agent.agent_cli,
        cause=attempt.cause,
        resumed=attempt.resumed,
        began=attempt.began,
        ended=now,
        exit_code=event.exit_code,
        signal=event.signal,
        detail=verdict.detail,
        stopped=stopped,
        message=message,
        session=session,
        usage=spent,
    )
    following = session if state.policy.resume and session is not None else state.session
    return evolve(
        state,
        attempts=(*state.attempts, record),
        attempt=None,
        session=following,
        readings=meter.readings,
        usage=meter.total,
        artifacts=event.artifacts,
    )
