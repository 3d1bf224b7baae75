"""Facts and stored runs for the tests of the commands."""

from __future__ import annotations

from pathlib import Path

from otpy_agents.attempt.failures import Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentInstance, AgentSelection, SelectionMode, build_chain
from otpy_agents.run.decide.result import AttemptRecord, Cause, Ending, RunResult, StopCause
from otpy_agents.run.decide.state import RunPhase, RunState, Wait, WaitReason
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.stored_form import AttemptOutcome, StoredForm
from otpy_agents.store import AttemptBegun, AttemptEnded, Lease, RunStore

RUN = "0a1b2c3d4e"
ORDER = RunOrder(
    prompt="Fix the\nfailing test",
    cwd=Path("/srv/shop"),
    selection=AgentSelection(
        agents=(
            AgentInstance(agent_id="claude", agent_cli="claude"),
            AgentInstance(agent_id="codex", agent_cli="codex"),
        ),
        selection_mode=SelectionMode.FALLBACK,
        agent_fallbacks={"claude": "codex"},
    ),
)


def record(
    number: int = 1,
    *,
    detail: Detail | None = None,
    stopped: StopCause | None = None,
    cause: Cause = Cause.FIRST,
    began: float = 100.0,
    ended: float = 104.0,
) -> AttemptRecord:
    """Return an attempt of claude's that is over."""
    return AttemptRecord(
        number=number,
        position=0,
        agent_id="claude",
        agent_cli="claude",
        cause=cause,
        resumed=None,
        began=began,
        ended=ended,
        exit_code=0 if detail is None else 1,
        signal=None,
        detail=detail,
        stopped=stopped,
        message="" if detail is None else "no route to host",
        session="s1",
        usage=Usage(input=1200, output=34, cost_usd=0.05),
    )


def result(ending: Ending, *attempts: AttemptRecord) -> RunResult:
    """Return the result of a run."""
    return RunResult(
        ending=ending,
        error=None if ending is Ending.SUCCEEDED else "no route to host",
        agent_id="claude",
        agent_used="claude",
        attempts=attempts,
        artifacts=(),
        session="s1",
        resumable=None,
        usage=Usage(),
    )


def waiting(until: float, *attempts: AttemptRecord) -> RunState:
    """Return a run that waits for its second retry."""
    chain, _ = build_chain(ORDER.selection, ORDER.default)
    wait = Wait(
        since=0.0,
        until=until,
        reason=WaitReason.BACKOFF,
        position=0,
        earliest=0,
        cause=Cause.RETRY,
    )
    return RunState(chain=chain, phase=RunPhase.LAUNCH, attempts=attempts, wait=wait)


async def put(
    store: RunStore, run: str, state: RunState, *, exit_code: int | None = None, answer: str = ""
) -> Lease:
    """Store a run as its host does."""
    form = StoredForm(order=ORDER, state=state)
    lease = await store.create(
        run,
        form.to_json(str),
        version=form.version,
        status=state.status,
        agent=state.agent.agent_id,
        prompt=ORDER.prompt,
        cwd=str(ORDER.cwd),
    )
    begun = [AttemptBegun(number=one.number, agent=one.agent_id) for one in state.attempts]
    ended = [
        AttemptEnded(
            number=one.number, outcome=AttemptOutcome(record=one, answer=answer).to_json(str)
        )
        for one in state.attempts
    ]
    await store.save(
        lease,
        form.to_json(str),
        version=form.version,
        status=state.status,
        agent=state.agent.agent_id,
        attempts=[*begun, *ended],
        exit_code=exit_code,
    )
    return lease
