"""Ends a run whose host is dead: starts nothing, and ends its remains."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from otpy_agents.attempt.failures import Classification
from otpy_agents.clock import CLOCK
from otpy_agents.errors import RunFinished, RunStateError
from otpy_agents.run.decide.machine import RunMachine
from otpy_agents.run.decide.protocol import AttemptGone, ControlAsked, RunControl
from otpy_agents.run.host.admission import sandbox_of
from otpy_agents.run.host.creation import identities_of
from otpy_agents.run.host.stored_form import StoredForm, rows_between
from otpy_agents.sandbox import ProcessSandbox
from otpy_agents.sandbox.behaviour import LeftOver, Sandbox
from otpy_agents.sandbox.marker import run_marker

if TYPE_CHECKING:
    from otpy_agents.run.decide.state import RunState
    from otpy_agents.store import RunStore, StoredRun

__all__ = ["dismiss", "dismissed"]

_CANCELLED: Final = 130


async def dismiss(
    store: RunStore,
    run: str,
    control: RunControl = RunControl.CANCEL,
    *,
    sandboxes: Mapping[str, Sandbox] | None = None,
    clock: Callable[[], float] = CLOCK,
) -> tuple[LeftOver, ...]:
    """End an unfinished run of a dead host as `control` does, and store that it is over.

    `RunHost.resume` would begin its attempt again, only for it to be ended. A run whose state
    cannot be read, because a newer version stored it, is ended too: its state stays as it is.

    Args:
        store: Of a host: it takes the run over first, so that no other host goes on with it.
        run: Its id.
        control: `CANCEL`, `KILL` or `STOP`.
        sandboxes: Sandboxes by name that win over those that are built in.
        clock: Unix seconds.

    Returns:
        What was left of its attempt, and is ended now.

    Raises:
        UnknownRun: There is none.
        RunHeld: Its host lives.
        RunFinished: It is over.
        SandboxUnavailable: Its remains are unknown; the run stays unfinished.
        LedgerError: That it is over cannot be stored; it stays unfinished.

    Cancellation:
        The run stays unfinished, and the next call does the rest.
    """
    record = (await store.run(run)).record
    if record.finished is not None:
        raise RunFinished(run, record.status)
    stored = await store.take_over(run)
    try:
        form = StoredForm.from_json(stored.state)
    except RunStateError:
        return await _dismiss_unread(store, stored)
    sandbox, before = sandbox_of(form.order.sandbox, sandboxes or {}), form.state
    left: tuple[LeftOver, ...] = ()
    if before.attempt is not None:
        known = identities_of(stored).get(before.attempt.number)
        left = await sandbox.clear(
            run_marker(run, before.attempt.number),
            () if known is None else (known,),
            grace=0.0 if control is RunControl.KILL else form.order.sandbox.limits.grace,
        )
    after = dismissed(before, control, clock())
    await store.save(
        stored.lease,
        StoredForm(order=form.order, state=after).to_json(str),
        version=form.version,
        status=after.status,
        agent=after.agent.agent_id,
        attempts=rows_between(before, after, None, str),
        exit_code=after.result().exit_code,
    )
    await anyio.to_thread.run_sync(shutil.rmtree, store.files / run, True)
    return left


def dismissed(state: RunState, control: RunControl, now: float) -> RunState:
    """Return the final state that `control` asks for, after the attempt is gone.

    Args:
        state: Of a run that is not over.
        control: As for `dismiss`.
        now: Unix seconds.
    """
    machine = RunMachine(state)
    machine.handle(ControlAsked(control), now)
    attempt = machine.state.attempt
    if attempt is not None:
        end = AttemptGone(
            number=attempt.number, classification=Classification(), session=attempt.session
        )
        machine.handle(end, now)
    return machine.state


async def _dismiss_unread(store: RunStore, stored: StoredRun) -> tuple[LeftOver, ...]:
    """End a run whose state is unreadable or from a newer version; the state is kept."""
    record = stored.record
    left = await ProcessSandbox().clear(run_marker(record.id), identities_of(stored).values())
    await store.save(
        stored.lease,
        stored.state,
        version=record.version,
        status="failed",
        agent=record.agent,
        exit_code=_CANCELLED,
    )
    return left
