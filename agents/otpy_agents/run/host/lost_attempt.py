"""The usage of an attempt whose end was not heard, from its session files."""

from __future__ import annotations

import contextlib
from typing import Final

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.attempt.events import Spent
from otpy_agents.attempt.failures import Classification
from otpy_agents.attempt.usage import Usage
from otpy_agents.errors import AdapterError, InvalidJob, InvalidRequest
from otpy_agents.run.decide.prices import priced
from otpy_agents.run.decide.protocol import AttemptGone, LaunchAttempt
from otpy_agents.run.host.facts import SpentFound
from otpy_agents.run.host.job import job_of
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.session_tail import tail_of

__all__ = ["end_of_lost", "tell_again"]

_TOLD_AGAIN: Final = 50
"""Attempts whose usage is told again, the latest: a ledger forgets older counters."""


def tell_again(run: LiveRun) -> None:
    """Tell what the stored attempts spent: a listener may have died before it saved that.

    Each reading is of a counter that was told before, so that none counts twice. The counter of a
    session in which an attempt is under way is left out: its stored reading may be lower than the
    last one told, and a session's counter that fell counts as reset.
    """
    going, state = run.state.attempt, run.state
    now = () if going is None else (going.session, going.resumed)
    for record in state.attempts[-_TOLD_AGAIN:]:
        session, usage = record.session, record.usage
        with contextlib.suppress(AdapterError):
            if find_adapter(record.agent_cli).cumulative_usage and session is not None:
                usage = Usage() if session in now else state.readings.get(session, Usage())
            if usage != Usage():
                model = _model_of(run, record.position)
                run.tell(
                    SpentFound,
                    number=record.number,
                    agent_cli=record.agent_cli,
                    session=session,
                    usage=usage,
                    model=model,
                )


def _model_of(run: LiveRun, position: int) -> str:
    return run.state.chain.agents[position].model or ""


async def end_of_lost(run: LiveRun) -> AttemptGone | None:
    """Return the end of the stored attempt by its session files, and tell its usage.

    It has ended already, and its host or its task has died with what it had heard.

    Returns:
        An end without a verdict; None if there is no attempt, or its CLI has left nothing.
    """
    attempt, agent = run.state.attempt, run.state.agent
    if attempt is None:
        return None
    launch = LaunchAttempt(
        number=attempt.number,
        agent=agent,
        cause=attempt.cause,
        session=attempt.resumed,
        budget_usd=None,
    )
    try:
        adapter = find_adapter(agent.agent_cli)
        job = job_of(
            run.id,
            run.order,
            launch,
            adapter,
            folder=run.folder_of(attempt.number),
            around=run.site.around,
            inherits=run.sandbox.inherits,
        )
    except (AdapterError, InvalidJob, InvalidRequest):
        return None
    resumed = attempt.resumed is not None
    tail = tail_of(adapter, job.variables, resumed=resumed, began=attempt.began)
    session = attempt.session or attempt.resumed or job.launch.session
    spent: Spent | None = None if tail is None else await tail.look(session, last=True)
    if spent is None:
        return None
    run.tell(
        SpentFound,
        number=attempt.number,
        agent_cli=agent.agent_cli,
        session=session,
        usage=spent.usage,
        model=spent.model or agent.model or "",
    )
    return AttemptGone(
        number=attempt.number,
        classification=Classification(),
        session=session,
        usage=priced(spent.usage, spent.model or agent.model or ""),
        cumulative=adapter.cumulative_usage,
        late=True,
    )
