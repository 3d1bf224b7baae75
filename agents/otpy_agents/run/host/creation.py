"""Makes a run of this host from an order, or from a stored run."""

from __future__ import annotations

from otpy_agents.run.decide.chain import SelectionMode, build_chain
from otpy_agents.run.host.facts import RunBegan
from otpy_agents.run.host.job import inherited
from otpy_agents.run.host.live_run import LiveRun, Site
from otpy_agents.run.host.logins import with_accounts
from otpy_agents.run.host.lost_attempt import tell_again
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.stored_form import AttemptOutcome, StoredForm, identity_from_json
from otpy_agents.sandbox.behaviour import Identity, Sandbox
from otpy_agents.store.run_records import Lease, StoredRun, new_run_id
from otpy_agents.store.runs import RunStore

__all__ = ["create", "identities_of", "take_over", "told_again"]


async def create(site: Site, order: RunOrder, sandbox: Sandbox) -> LiveRun:
    """Store a new run.

    Raises:
        LedgerError: That cannot be done.
    """
    run_id = new_run_id()
    chain, _ = build_chain(order.selection, order.default, await _turn(site.store, order))
    environment = inherited(order, site.around, inherits=sandbox.inherits)
    state = order.first_state(with_accounts(chain, environment))
    form = StoredForm(order=order, state=state)
    clean = site.around.redaction(order, site.around.environment)
    lease = await site.store.create(
        run_id,
        form.to_json(clean),
        version=form.version,
        status=state.status,
        agent=state.agent.agent_id,
        prompt=clean(order.prompt),
        cwd=str(order.cwd),
        label=order.label,
    )
    return LiveRun(run_id, site=site, order=order, sandbox=sandbox, lease=lease, state=state)


async def take_over(site: Site, run: str, sandbox: Sandbox) -> LiveRun:
    """Take over a stored run, with the identities of its attempts.

    Raises:
        UnknownRun: There is none.
        RunHeld: Another host works on it, and lives.
        RunStateError: Its state cannot be read.
    """
    stored = await site.store.take_over(run)
    form = StoredForm.from_json(stored.state)
    return LiveRun(
        run,
        site=site,
        order=form.order,
        sandbox=sandbox,
        lease=stored.lease,
        state=form.state,
        identities=identities_of(stored),
    )


def told_again(site: Site, stored: StoredRun, form: StoredForm, sandbox: Sandbox) -> LiveRun:
    """Tell again the usage and the result of a stored run that is over.

    Args:
        site: The state shared with other runs.
        stored: The run.
        form: Its stored form.
        sandbox: Where its attempts were made.

    Raises:
        RunStateError: What its last attempt left cannot be read.
    """
    record, order, state = stored.record, form.order, form.state
    outcome = stored.attempts[-1].outcome if stored.attempts else None
    answer = "" if outcome is None else AttemptOutcome.from_json(outcome).answer
    lease = Lease(record.id, record.fence)  # nothing is written to it any more
    run = LiveRun(record.id, site=site, order=order, sandbox=sandbox, lease=lease, state=state)
    agents = tuple(agent.agent_id for agent in state.chain.agents)
    run.tell(RunBegan, order=order, agents=agents, resumed=True, waiting=False)
    tell_again(run)
    run.finish_as_stored(answer)
    return run


def identities_of(stored: StoredRun) -> dict[int, Identity]:
    """Return the identities of the attempts of a stored run, by number."""
    return {
        attempt.number: identity_from_json(attempt.identity)
        for attempt in stored.attempts
        if attempt.identity is not None
    }


async def _turn(store: RunStore, order: RunOrder) -> int:
    """Return whose turn it is among agents that take turns (RUN-24, G-09)."""
    selection = order.selection
    if selection.selection_mode is not SelectionMode.ROUND_ROBIN or len(selection.agents) < 2:  # noqa: PLR2004 - one needs no turns
        return 0
    names = ",".join(agent.agent_id for agent in selection.agents)
    return await store.take_turn(f"agents:{names}")
