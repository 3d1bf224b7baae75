"""What becomes of an attempt whose task, or whose host, is not there any more (G-03)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from otpy import DynamicSupervisor
from otpy.errors import NotFound, NotRunning, StartFailed
from otpy_agents.run.attempt import attempt_id, attempt_spec
from otpy_agents.run.facts import AttemptBegan
from otpy_agents.run.flight import Flight
from otpy_agents.run.live_run import LiveRun
from otpy_agents.run.marker import run_marker
from otpy_agents.run.protocol import Launch
from otpy_agents.run.sandbox.behaviour import Identity
from otpy_agents.run.state import Attempt

__all__ = ["end_attempts", "take_up"]


async def take_up(run: LiveRun, attempts: DynamicSupervisor, wake: Callable[[], None]) -> bool:
    """Go on with the attempt of the stored state, or end what is left of it.

    Returns:
        Whether it goes on, or has ended and its flight tells how.

    Raises:
        SandboxUnavailable: Nobody can say what is left of it.
    """
    attempt, flight = run.state.attempt, run.flight
    if attempt is not None and flight is not None and flight.number == attempt.number:
        process = None
        with contextlib.suppress(NotFound, NotRunning):
            process = attempts.child(attempt_id(flight.number))
        if process is not None or flight.outcome is not None:
            flight.watch(process, wake)
            return True
    # A child whose start was asked for a moment ago finds that its flight is off.
    run.flight = None
    await end_attempts(attempts)
    if attempt is None:
        return False
    marker = run_marker(run.id, attempt.number)
    known = run.identities.get(attempt.number)
    found = (known,) if known is not None else await run.sandbox.find(marker)
    for identity in found:
        if await _adopt(run, attempt, identity, attempts, wake):
            return True
    await run.sandbox.clear(marker, found, grace=run.order.sandbox.limits.grace)
    return False


async def _adopt(
    run: LiveRun,
    attempt: Attempt,
    identity: Identity,
    attempts: DynamicSupervisor,
    wake: Callable[[], None],
) -> bool:
    agent = run.state.agent
    launch = Launch(
        number=attempt.number,
        agent=agent,
        cause=attempt.cause,
        session=attempt.resumed,
        budget_usd=None,
    )
    run.flight = flight = Flight(launch, identity)
    try:
        process = await attempts.start_child(attempt_spec(run, flight))
    except StartFailed:
        run.flight = None
        return False
    run.tell(
        AttemptBegan,
        number=attempt.number,
        agent_id=agent.agent_id,
        agent_cli=agent.agent_cli,
        cause=attempt.cause,
        session=attempt.resumed,
        adopted=True,
    )
    flight.watch(process, wake)
    return True


async def end_attempts(attempts: DynamicSupervisor) -> None:
    """End whatever attempt still runs, and wait until nothing of it is left."""
    for child in attempts.snapshot().children:
        with contextlib.suppress(NotFound):
            await attempts.terminate_child(child.id)
