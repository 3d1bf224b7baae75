"""What becomes of an attempt whose task, or whose host, is not there any more (G-03).

One that has ended by itself, as its guardian wrote down, is not made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from otpy import DynamicSupervisor
from otpy.errors import NotFound, NotRunning, StartFailed
from otpy_agents.errors import AdapterError, InvalidRequest
from otpy_agents.process.guardian import exit_on_disk
from otpy_agents.process.orphans import Recorded
from otpy_agents.run.decide.protocol import LaunchAttempt
from otpy_agents.run.decide.state import Attempt
from otpy_agents.run.host.attempt import attempt_id, attempt_spec, judge_unheard
from otpy_agents.run.host.facts import AttemptBegan
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.sandbox.behaviour import Identity, LeftOver
from otpy_agents.sandbox.marker import run_marker

__all__ = ["end_attempts", "take_up"]


async def take_up(run: LiveRun, attempts: DynamicSupervisor, wake: Callable[[], None]) -> bool:
    """Continue the attempt of the stored state, or end its remains.

    Returns:
        Whether it goes on, or has ended and its flight tells how.

    Raises:
        SandboxUnavailable: Its remains are unknown.
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
    left = await run.sandbox.clear(marker, found, grace=run.order.sandbox.limits.grace)
    return await _close(run, attempt, known, left, wake)


async def _close(
    run: LiveRun,
    attempt: Attempt,
    known: Identity | None,
    left: tuple[LeftOver, ...],
    wake: Callable[[], None],
) -> bool:
    """Close an attempt with the exit that is on disk, if there is one."""
    marker = run_marker(run.id, attempt.number)
    recorded = known if isinstance(known, Recorded) else None
    ended = await exit_on_disk(run.record(attempt.number), marker, recorded)
    # What was alive a moment ago has been ended by us, and not by itself.
    pids = {one.identity.pid for one in left if isinstance(one.identity, Recorded)}
    if ended is None or ended.pid in pids:
        return False
    flight = _flight(run, attempt, Recorded(ended.pid, ended.started))
    _tell_began(run, attempt)  # before what its report and its session files say
    try:
        await judge_unheard(run, flight, ended.returncode)
    except (AdapterError, InvalidRequest):
        return False
    run.flight = flight
    flight.watch(None, wake)
    return True


async def _adopt(
    run: LiveRun,
    attempt: Attempt,
    identity: Identity,
    attempts: DynamicSupervisor,
    wake: Callable[[], None],
) -> bool:
    run.flight = flight = _flight(run, attempt, identity)
    try:
        process = await attempts.start_child(attempt_spec(run, flight))
    except StartFailed:
        run.flight = None
        return False
    _tell_began(run, attempt)
    flight.watch(process, wake)
    return True


def _flight(run: LiveRun, attempt: Attempt, identity: Identity) -> Flight:
    launch = LaunchAttempt(
        number=attempt.number,
        agent=run.state.agent,
        cause=attempt.cause,
        session=attempt.resumed,
        budget_usd=None,
    )
    return Flight(launch, identity)


def _tell_began(run: LiveRun, attempt: Attempt) -> None:
    run.tell(
        AttemptBegan,
        number=attempt.number,
        agent_id=run.state.agent.agent_id,
        agent_cli=run.state.agent.agent_cli,
        cause=attempt.cause,
        session=attempt.resumed,
        adopted=True,
    )


async def end_attempts(attempts: DynamicSupervisor) -> None:
    """End whatever attempt still runs, and wait until nothing of it is left."""
    for child in attempts.snapshot().children:
        with contextlib.suppress(NotFound):
            await attempts.terminate_child(child.id)
