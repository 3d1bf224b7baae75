"""Performs the decisions of a run's machine after they are stored, and tells about them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import assert_never

from otpy import DynamicSupervisor
from otpy_agents.errors import LedgerUnwritable
from otpy_agents.run.decide import protocol
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable
from otpy_agents.run.decide.state import RunState
from otpy_agents.run.host.attempt import attempt_spec
from otpy_agents.run.host.facts import (
    AgentSwitched,
    AttemptBegan,
    AttemptOver,
    ClockSet,
    LogLine,
    PhaseChanged,
    Quiet,
    WaitBegan,
    WaitOver,
)
from otpy_agents.run.host.flight import Flight
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.stored_form import cooldown_table
from otpy_agents.store.run_records import CooldownRecord

__all__ = ["known_cooldowns", "perform", "tell_changes"]


async def known_cooldowns(run: LiveRun) -> CooldownTable:
    """Return the cooldowns that are known to all runs of all hosts, those that are over too."""
    return cooldown_table(await run.site.store.cooldowns.at(0.0))


def tell_changes(
    run: LiveRun, before: RunState, after: RunState, effects: Sequence[protocol.Effect]
) -> None:
    """Tell which attempts are over, and whether a wait is; their flights have landed then."""
    moved = any(isinstance(effect, protocol.TellClock) for effect in effects)
    flight = run.flight
    for record in after.attempts[len(before.attempts) :]:
        if flight is None or flight.number != record.number:
            run.tell(AttemptOver, record=record)
            continue
        run.tell(
            AttemptOver,
            record=record,
            cut=flight.cut,
            left_over=flight.left_over,
            survivors=flight.survivors,
        )
        for text in _remarks(flight):
            run.tell(LogLine, text=f"[supervisor] attempt {flight.number}: {text}")
        run.land()
    if before.wait is not None and after.wait != before.wait and not moved:
        run.tell(WaitOver)


def _remarks(flight: Flight) -> list[str]:
    remarks: list[str] = []
    if flight.cut:
        remarks.append(f"{flight.cut} bytes of output were not kept")
    if flight.left_over:
        remarks.append(f"it had left running, and was relieved of: {', '.join(flight.left_over)}")
    if flight.survivors:
        remarks.append(f"could not be ended: {', '.join(flight.survivors)}")
    return remarks


async def perform(
    run: LiveRun,
    effects: Sequence[protocol.Effect],
    attempts: DynamicSupervisor,
    wake: Callable[[], None],
) -> None:
    """Perform the effects in order."""
    for effect in effects:
        match effect:
            case protocol.LaunchAttempt():
                await _launch(run, effect, attempts, wake)
            case protocol.StopAttempt():
                if run.flight is not None and run.flight.number == effect.number:
                    run.flight.stop(kill=effect.kill)
            case protocol.SetCooldown():
                # The run knows of it all the same, and tells others when it is taken up again.
                with contextlib.suppress(LedgerUnwritable):
                    await run.site.store.cooldowns.put(_record(run, effect.cooldown))
            case protocol.MoveCooldown(before, after):
                with contextlib.suppress(LedgerUnwritable):
                    await run.site.store.cooldowns.move(_record(run, before), _record(run, after))
            case protocol.EndCooldown(account=account, told_by=told_by):
                with contextlib.suppress(LedgerUnwritable):
                    await run.site.store.cooldowns.end(
                        account.agent_cli, account.credential, run.site.clock(), told_by=told_by
                    )
            case protocol.Completed():
                await run.remove_folder()
                run.finish(effect.result)
            case protocol.AnswerControl():
                pass  # the caller gets it
            case _:
                _tell(run, effect)


async def _launch(
    run: LiveRun,
    launch: protocol.LaunchAttempt,
    attempts: DynamicSupervisor,
    wake: Callable[[], None],
) -> None:
    # Before anything is awaited: a task that follows this one must find it.
    run.flight = flight = Flight(launch)
    run.tell(
        AttemptBegan,
        number=launch.number,
        agent_id=launch.agent.agent_id,
        agent_cli=launch.agent.agent_cli,
        cause=launch.cause,
        session=launch.session,
    )
    flight.watch(await attempts.start_child(attempt_spec(run, flight)), wake)


def _record(run: LiveRun, cooldown: Cooldown) -> CooldownRecord:
    account = cooldown.account
    return CooldownRecord(
        agent_cli=account.agent_cli,
        credential=account.credential,
        until=cooldown.until,
        reason=", ".join(filter(None, (cooldown.reason, f"told by run {run.id}"))),
        told=cooldown.told,
    )


def _tell(
    run: LiveRun,
    effect: protocol.TellWait
    | protocol.TellSwitch
    | protocol.TellPhase
    | protocol.TellQuiet
    | protocol.TellClock
    | protocol.WriteLog,
) -> None:
    match effect:
        case protocol.TellWait():
            run.tell(
                WaitBegan,
                until=effect.until,
                delay=effect.delay,
                reason=effect.reason,
                agent_id=effect.agent_id,
                retry=effect.retry,
            )
        case protocol.TellSwitch():
            run.tell(AgentSwitched, source=effect.source, target=effect.target)
        case protocol.TellPhase():
            run.tell(PhaseChanged, phase=effect.phase, status=run.state.status)
        case protocol.TellQuiet():
            run.tell(Quiet, number=effect.number, seconds=effect.seconds)
        case protocol.TellClock():
            run.tell(ClockSet, by=effect.by, until=effect.until)
        case protocol.WriteLog():
            run.tell(LogLine, text=effect.text)
        case _:
            assert_never(effect)
