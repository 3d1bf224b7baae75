"""Decides what a run does next; performs nothing, reads no clock (RUN-25 to RUN-29).

`RunMachine.handle(event, now)` returns effects. The driver stores `RunMachine.state` first, then
performs the effects, and sets one timer for `RunMachine.due`. A machine made from a stored state
continues exactly as the stored machine would have.
"""

from __future__ import annotations

from typing import Any, Final, assert_never, final

from attrs import evolve

from otpy_agents.attempt.failures import Classification, Detail, ErrorType
from otpy_agents.run.decide.attempt_end import (
    NO_EXIT_CODE,
    recorded,
    spent_with,
    stop_that_counts,
    verdict_on,
)
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.decision import action_after, choose, cooldown_after, delay_after
from otpy_agents.run.decide.policy import FailureAction
from otpy_agents.run.decide.protocol import (
    AnswerControl,
    AttemptGone,
    AttemptStarted,
    BeginRun,
    Charged,
    ClockMoved,
    Completed,
    ControlAsked,
    CooldownsSeen,
    Effect,
    EndCooldown,
    Event,
    LaunchAttempt,
    MoveCooldown,
    OutputHeard,
    ProgressHeard,
    Resumed,
    RunControl,
    RunDue,
    SessionKnown,
    SetCooldown,
    StopAttempt,
    TellClock,
    TellPhase,
    TellQuiet,
    TellSwitch,
    TellWait,
    Unheard,
    WriteLog,
)
from otpy_agents.run.decide.result import AttemptRecord, Cause, Ending, StopCause, ending_of
from otpy_agents.run.decide.state import Attempt, RunPhase, RunState, Wait, WaitReason
from otpy_agents.run.decide.time_text import moment, span

__all__ = ["RunMachine"]

_REQUESTED: Final = {
    RunControl.CANCEL: "user_cancel requested",
    RunControl.KILL: "user_kill requested",
    RunControl.STOP: "stop requested",
}
_LONG: Final = 120.0  # seconds from which on a wait is said with the moment of its end


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0") + "s"


def _when(ready: float, now: float, why: str = "") -> str:
    """Return the end of a wait, and its purpose."""
    left = ready - now
    if left < _LONG:
        return f"in {_seconds(left)}" + (f" ({why})" if why else "")
    return f"at {moment(ready, now)} (in {span(left)}{'; ' + why if why else ''})"


def _is_lost(own: Cooldown, shared: CooldownTable) -> bool:
    """Whether a dead host had no time to write `own`: else it is there, or was ended since."""
    known = shared.of(own.account)
    return known is None or (known.until < own.until and known.told < own.told)


def _moved(by: float, slept: float) -> str:
    parts: list[str] = []
    if round(slept):
        parts.append(f"the machine slept for {_seconds(slept)}")
    if round(by):
        parts.append(f"the clock was set {'forward' if by > 0 else 'back'} by {_seconds(abs(by))}")
    return ", and ".join(parts)


@final
class RunMachine:
    """One run, from its chain of agents to its result.

    Args:
        state: `RunState(chain=…)` for a new run, whose first event is `BeginRun`; or a stored one,
            whose first event is `Resumed`.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._effects: list[Effect] = []
        self._now = 0.0
        self._delays: dict[VendorAccount, Cooldown] = {}  # those that no moment of the vendor ends

    def copy(self) -> RunMachine:
        """Return a copy with the same state, to go back to."""
        made = RunMachine(self._state)
        made._delays = dict(self._delays)
        return made

    @property
    def state(self) -> RunState:
        """Where the run stands; to be stored before the last effects are performed."""
        return self._state

    @property
    def due(self) -> float | None:
        """When `RunDue` is wanted, in Unix seconds; None if nothing depends on time."""
        wait, attempt, liveness = self._state.wait, self._state.attempt, self._state.liveness
        if wait is not None:
            return wait.until
        if attempt is None or attempt.started is None or attempt.stopped is not None:
            return None
        overdue = liveness.overdue(attempt.started, attempt.progress, attempt.output)
        quiet = attempt.progress + liveness.quiet_after
        due = overdue if attempt.shown_quiet else min(quiet, overdue)
        return due if due < float("inf") else None

    def handle(self, event: Event, now: float) -> tuple[Effect, ...]:
        """Take in what happened at `now`, in Unix seconds, and return what to do, in order.

        Nothing that may be passed in raises: what does not fit the state changes nothing, and a
        control that does not is refused with a reason.
        """
        self._now, self._effects = now, []
        match event:
            case BeginRun():
                self._begin(event.cooldowns)
            case Resumed():
                self._resume(event)
            case (
                AttemptStarted()
                | SessionKnown()
                | ProgressHeard()
                | OutputHeard()
                | Charged()
                | AttemptGone()
            ):
                attempt = self._state.attempt
                if attempt is not None and attempt.number == event.number:
                    self._hear(attempt, event)
            case RunDue():
                self._look_at_the_clock()
            case ClockMoved():
                self._move(event)
            case Unheard():
                self._excuse(event)
            case CooldownsSeen():
                if self._state.ending is None:
                    self._know(event.cooldowns)
                    self._reconsider()
            case ControlAsked():
                self._control(event.control)
            case _:
                assert_never(event)
        return tuple(self._effects)

    def _set(self, **changes: Any) -> None:
        self._state = evolve(self._state, **changes)

    def _do(self, *effects: Effect) -> None:
        self._effects.extend(effects)

    def _enter(self, phase: RunPhase) -> None:
        if self._state.phase is not phase:
            self._set(phase=phase)
            self._do(TellPhase(phase))

    # --- beginning and going on -------------------------------------------------------------------

    def _begin(self, cooldowns: CooldownTable) -> None:
        if self._state.phase is RunPhase.INITIALIZE:
            self._know(cooldowns.pruned(self._now))
            self._do(*(WriteLog(f"[supervisor] {text}") for text in self._state.chain.warnings))
            self._go_on(0, Cause.FIRST)

    def _resume(self, event: Resumed) -> None:
        """Take over from a dead host, which may not have performed its last stored effects."""
        own, shared = self._state.cooldowns.pruned(self._now), event.cooldowns
        lost = CooldownTable(tuple(one for one in own.entries if _is_lost(one, shared)))
        if self._state.ending is None:  # else its result says what was known then
            self._know(shared.pruned(self._now).merged(lost))
        self._do(*map(SetCooldown, lost.entries))
        state, attempt, wait = self._state, self._state.attempt, self._state.wait
        if state.ending is not None:
            self._do(Completed(state.result()))
        elif wait is not None:
            # The wall clock of the new host may be behind: no delay gets longer than it was.
            late = max(0.0, wait.since - self._now)
            self._show(evolve(wait, since=wait.since - late, until=wait.until - late))
            self._reconsider()
        elif attempt is None:
            self._begin(self._state.cooldowns)
        elif not event.adopted:
            none = AttemptGone(number=attempt.number, classification=Classification())
            end = event.lost or none
            self._close(attempt, attempt.stopped or StopCause.INTERRUPTED, end)
        elif attempt.stopped is not None:
            self._do(StopAttempt(attempt.number, attempt.stopped is StopCause.KILL))
        else:
            # Its words without a listener are unknown: its silence begins now.
            started = self._now if attempt.started is None else attempt.started
            self._set(attempt=evolve(attempt.heard(self._now), started=started))
            self._enter(RunPhase.RUN)

    def _know(self, cooldowns: CooldownTable) -> None:
        accounts = {agent.account for agent in self._state.chain.agents}
        self._set(cooldowns=cooldowns.only(accounts))

    def _reconsider(self) -> None:
        """Wait no longer for an account whose cooldown was ended before its time.

        The wait is over at once; what follows is for `RunDue`, which may have to wait for a turn.
        """
        wait = self._state.wait
        if wait is None or wait.reason is not WaitReason.COOLDOWN:
            return
        choice = choose(self._state, wait.earliest, self._now, self._now)
        if choice is None or choice[1] >= wait.until:
            return
        position, ready = choice
        sooner = evolve(wait, position=position, until=ready)
        if ready <= self._now:
            self._set(wait=sooner)
        else:
            self._show(sooner)

    # --- one attempt ------------------------------------------------------------------------------

    def _hear(
        self,
        attempt: Attempt,
        event: AttemptStarted | SessionKnown | ProgressHeard | OutputHeard | Charged | AttemptGone,
    ) -> None:
        match event:
            case AttemptStarted():
                if attempt.started is None:
                    self._set(attempt=evolve(attempt.heard(self._now), started=self._now))
                    if attempt.stopped is None:
                        self._enter(RunPhase.RUN)
            case SessionKnown():
                self._set(attempt=evolve(attempt, session=event.session))
            case ProgressHeard():
                self._set(attempt=attempt.heard(self._now))
            case OutputHeard():
                self._set(attempt=evolve(attempt, output=self._now))
            case Charged():
                self._charge(attempt, event)
            case AttemptGone():
                self._close(attempt, attempt.stopped, event)

    def _charge(self, attempt: Attempt, event: Charged) -> None:
        """End the attempt if it has spent the last of the money."""
        budget = self._state.budget_usd
        if budget is None or attempt.stopped is not None:
            return
        cost = spent_with(self._state, attempt, event).cost_usd
        if cost >= budget:
            spent = f"${cost:.4g} of ${budget:g} are spent"
            self._do(WriteLog(f"[supervisor] attempt {attempt.number}: {spent}, ending it"))
            self._stop(StopCause.BUDGET)

    def _look_at_the_clock(self) -> None:
        wait, attempt, now = self._state.wait, self._state.attempt, self._now
        if wait is not None and now >= wait.until:
            self._go_on(wait.earliest, wait.cause, waited=True)
        if attempt is None or self.due is None:
            return
        liveness, started = self._state.liveness, attempt.started or 0.0
        over = now >= liveness.overdue(started, attempt.progress, attempt.output)
        silent = now >= attempt.progress + liveness.quiet_after
        stop = StopCause(liveness.kind) if over else None
        if not attempt.shown_quiet and (silent or (over and stop is not StopCause.DEADLINE)):
            self._set(attempt=evolve(attempt, shown_quiet=True))
            self._do(TellQuiet(attempt.number, now - attempt.progress))
        if stop is not None:
            text = f"[supervisor] attempt {attempt.number} {liveness.complaint()}, ending it"
            self._do(WriteLog(text))
            self._stop(stop)

    def _move(self, event: ClockMoved) -> None:
        """Shift the stored moments to the clock's new time, so that every span keeps its length.

        A delay goes on while the machine sleeps, an agent does not. What a vendor named is a moment
        of the wall clock, and stays.
        """
        by, state, attempt = event.by, self._state, self._state.attempt
        if attempt is not None:
            away = by + event.slept
            attempt = evolve(attempt, began=attempt.began + by)
            if attempt.started is not None:
                attempt = evolve(
                    attempt,
                    started=attempt.started + away,
                    progress=attempt.progress + away,
                    output=attempt.output + away,
                )
            self._set(attempt=attempt)
        if by:
            past = (
                evolve(one, began=one.began + by, ended=one.ended + by) for one in state.attempts
            )
            self._set(attempts=tuple(past), wait=self._moved_wait(by))
            wait = self._state.wait
            # Before the line, which is told with the time since the run began.
            self._do(TellClock(by, None if wait is None else wait.until))
            self._move_cooldowns(by)
        self._do(WriteLog(f"[supervisor] {_moved(by, event.slept)}"))

    def _moved_wait(self, by: float) -> Wait | None:
        wait = self._state.wait
        if wait is None:
            return None
        delays = {one.until for one in self._delays.values()}
        is_delay = wait.reason is WaitReason.BACKOFF or wait.until in delays
        until = wait.until + by if is_delay else wait.until
        return evolve(wait, since=wait.since + by, until=until)

    def _move_cooldowns(self, by: float) -> None:
        """Let the rest of an account that was given in seconds last as long as was said."""
        for account, before in self._delays.items():
            self._delays[account] = after = evolve(before, until=before.until + by)
            # Also one that is over: by a clock that was set back it would begin again.
            known = self._state.cooldowns.of(account)
            if known is not None and known.until == before.until:
                now_until = evolve(known, until=after.until)
                self._set(cooldowns=self._state.cooldowns.moved(known, now_until))
                self._do(MoveCooldown(before, after))

    def _excuse(self, event: Unheard) -> None:
        """Exclude the time without a listener from the attempt's silence."""
        attempt, now = self._state.attempt, self._now
        if event.seconds:
            self._do(WriteLog(f"[supervisor] this host stood still for {_seconds(event.seconds)}"))
        if attempt is not None and attempt.started is not None:
            progress = attempt.progress + max(0.0, now - max(event.since, attempt.progress))
            output = attempt.output + max(0.0, now - max(event.since, attempt.output))
            self._set(attempt=evolve(attempt, progress=progress, output=output))

    def _stop(self, stop: StopCause) -> None:
        """End the attempt there is; a second stop only changes what follows, unless it kills."""
        attempt = self._state.attempt
        if attempt is None:
            return
        self._set(attempt=evolve(attempt, stopped=stop))
        if attempt.stopped is None or stop is StopCause.KILL:
            self._do(StopAttempt(attempt.number, stop is StopCause.KILL))
        self._enter(RunPhase.DETECT_EXIT)

    # --- the end of one, and what follows ---------------------------------------------------------

    def _close(self, attempt: Attempt, stopped: StopCause | None, event: AttemptGone) -> None:
        self._enter(RunPhase.DETECT_EXIT)
        stopped = stop_that_counts(event, stopped)
        verdict = verdict_on(event, stopped)
        if verdict.detail is Detail.UNKNOWN and event.exit_code is None and event.signal is None:
            self._do(WriteLog(f"[supervisor] attempt {attempt.number}: {NO_EXIT_CODE}"))
        if self._state.budget_usd is not None and event.usage is not None and event.usage.unpriced:
            agent, why = self._state.agent.agent_id, "the price of its model is unknown"
            self._do(WriteLog(f"[supervisor] {agent} is not held by the budget: {why}"))
        self._state = recorded(self._state, attempt, event, stopped=stopped, now=self._now)
        record = self._state.attempts[-1]
        if record.cause is Cause.CRASH_RESTART and attempt.started is None and record.detail:
            self._do(WriteLog(f"[supervisor] restart failed: {record.message or record.detail}"))
        cooldown = cooldown_after(self._state, record, verdict.retry_after)
        if cooldown is not None:
            self._know(self._state.cooldowns.with_cooldown(cooldown))
            self._do(SetCooldown(cooldown))
            self._delays.pop(cooldown.account, None)
            if not verdict.named:
                self._delays[cooldown.account] = cooldown
        if record.succeeded:
            self._tell_overrun()
            self._prove_free(attempt)
            self._complete(Ending.SUCCEEDED)
        elif stopped is not None and stopped.ends_run:
            self._complete(ending_of(stopped))
        else:
            self._enter(RunPhase.CLASSIFY_ERROR)
            self._follow(record, verdict.retry_after)

    def _tell_overrun(self) -> None:
        budget, cost = self._state.budget_usd, self._state.usage.cost_usd
        if budget is not None and cost > budget:
            self._do(WriteLog(f"[supervisor] done, for ${cost:.4g}: the budget was ${budget:g}"))

    def _prove_free(self, attempt: Attempt) -> None:
        """End the cooldown of an account that has served a request (C-15).

        One that was told while the attempt was at work stands: its last request may have been made
        before.
        """
        known = self._state.cooldowns.of(self._state.agent.account)
        if known is not None and self._now < known.until and known.told <= attempt.began:
            self._do(EndCooldown(known.account, attempt.began))

    def _follow(self, record: AttemptRecord, retry_after: float | None) -> None:
        position = self._state.position
        if record.stopped is StopCause.FALLBACK:
            self._go_on(position + 1, Cause.FALLBACK, forced=True)
            return
        if record.stopped is StopCause.INTERRUPTED:
            self._go_on(position, Cause.INTERRUPTED)
            return
        match action_after(self._state, record):
            case FailureAction.RETRY:
                delay = delay_after(self._state, retry_after)
                self._go_on(position, Cause.RETRY, not_before=self._now + delay)
            case FailureAction.COOL_DOWN:
                self._go_on(position, Cause.RETRY)
            case FailureAction.CRASH_RESTART:
                code = "unknown" if record.exit_code is None else record.exit_code
                self._do(WriteLog(f"[supervisor] container crashed (exit {code}), restarting..."))
                self._go_on(position, Cause.CRASH_RESTART)
            case FailureAction.FRESH_SESSION:
                self._set(session=None)
                self._go_on(position, Cause.FRESH_SESSION)
            case FailureAction.NEXT_AGENT:
                self._go_on(position + 1, Cause.FALLBACK)
            case FailureAction.END:
                self._complete(Ending.FATAL)

    def _go_on(
        self,
        earliest: int,
        cause: Cause,
        *,
        not_before: float = 0.0,
        waited: bool = False,
        forced: bool = False,
    ) -> None:
        """Begin the next attempt, wait for it, or end if there can be none."""
        state = self._state
        if len(state.attempts) >= state.policy.max_attempts:
            self._complete(Ending.ATTEMPT_LIMIT)
            return
        if state.budget_usd is not None and state.usage.cost_usd >= state.budget_usd:
            self._complete(Ending.BUDGET)
            return
        choice = choose(state, earliest, self._now, not_before, forced=forced)
        if choice is None:
            fatal = state.attempts[-1].error_type is ErrorType.FATAL
            self._complete(Ending.FATAL if fatal else Ending.EXHAUSTED)
            return
        position, ready = choice
        retry = cause is Cause.RETRY and position == state.position
        # A retry without a delay is shown too; it waits for no time at all.
        if forced or (ready <= self._now and (waited or not retry)):
            self._launch(position, cause)
            return
        cold = state.cooldowns.until(state.chain.agents[position].account)
        longest = state.policy.max_wait
        if longest is not None and cold >= ready and ready - self._now > longest:
            self._know(state.cooldowns.pruned(self._now))
            self._complete(Ending.QUOTA)
            return
        wait = Wait(
            since=self._now,
            until=ready,
            reason=WaitReason.COOLDOWN if cold >= ready else WaitReason.BACKOFF,
            position=position,
            earliest=earliest,
            cause=cause,
        )
        target = state.chain.agents[position]
        known = state.cooldowns.of(target.account)
        if retry:
            number = f"{state.retries + 1}/{state.policy.max_retries}"
            text = f"retry {number} with {target.agent_id} {_when(ready, self._now)}"
        else:
            why = "" if known is None else known.reason
            text = f"{target.agent_id} is free {_when(ready, self._now, why)}"
        self._do(WriteLog(f"[supervisor] {text}"))
        self._enter(RunPhase.LAUNCH)
        self._show(wait)

    def _explain(self, target: int) -> None:
        """Say of each agent that is passed by for its account until when that rests, and why."""
        for agent in self._state.chain.agents[self._state.position : target]:
            known = self._state.cooldowns.of(agent.account)
            if known is not None and known.until > self._now:
                until = moment(known.until, self._now)
                why = f" ({known.reason})" if known.reason else ""
                self._do(WriteLog(f"[supervisor] {agent.agent_id} rests until {until}{why}"))

    def _show(self, wait: Wait) -> None:
        state = self._state
        retry = wait.cause is Cause.RETRY and wait.position == state.position
        self._set(wait=wait)
        self._do(
            TellWait(
                until=wait.until,
                delay=max(0.0, wait.until - self._now),
                reason=wait.reason,
                agent_id=state.chain.agents[wait.position].agent_id,
                retry=state.retries + 1 if retry else 0,
            )
        )

    def _launch(self, position: int, cause: Cause) -> None:
        source, target = self._state.agent, self._state.chain.agents[position]
        session = self._state.session
        if position != self._state.position:
            cause = Cause.FALLBACK
            session = session if target.shares_sessions_with(source) else None
            self._enter(RunPhase.SWITCH_AGENT)
            self._explain(position)
            text = f"switching from {source.agent_id} to {target.agent_id} (fallback)"
            self._do(WriteLog(f"[supervisor] {text}"))
            self._do(TellSwitch(source=source.agent_id, target=target.agent_id))
        number = len(self._state.attempts) + 1
        attempt = Attempt(number=number, cause=cause, resumed=session, began=self._now)
        self._set(position=position, session=session, wait=None, attempt=attempt)
        self._enter(RunPhase.LAUNCH)
        budget = self._state.budget_usd
        left = None if budget is None else budget - self._state.usage.cost_usd
        self._do(
            LaunchAttempt(
                number=number, agent=target, cause=cause, session=session, budget_usd=left
            )
        )

    def _complete(self, ending: Ending) -> None:
        self._set(ending=ending, wait=None)
        self._enter(RunPhase.COMPLETE)
        result = self._state.result()
        if ending is Ending.SUCCEEDED and result.retry_count:
            self._do(WriteLog(f"[supervisor] completed after {result.retry_count} retries"))
        self._do(Completed(result))

    # --- what people ask --------------------------------------------------------------------------

    def _control(self, control: RunControl) -> None:
        state = self._state
        if state.ending is not None:
            self._do(AnswerControl(False, f"the run is over: {state.ending}"))
        elif control in _REQUESTED:
            self._end_run(control)
        elif control is RunControl.FORCE_FALLBACK:
            self._force_fallback()
        elif state.wait is None:
            what = "has not begun" if state.attempt is None else f"is {state.status}"
            self._do(AnswerControl(False, f"there is no retry to decide about: the run {what}"))
        elif control is RunControl.RETRY_NOW:
            self._do(AnswerControl(True, "the next attempt begins now"))
            self._launch(state.wait.position, state.wait.cause)
        else:
            self._do(AnswerControl(True, "the run ends with its last result"))
            self._do(WriteLog("retry skipped due to user stop"))
            self._complete(Ending.RETRY_CANCELLED)

    def _end_run(self, control: RunControl) -> None:
        """Cancel, kill or stop (RUN-60 to RUN-63); a kill overtakes the other two."""
        stop, attempt = StopCause(control), self._state.attempt
        before = attempt.stopped if attempt is not None else None
        overtakes = stop is StopCause.KILL and before is not StopCause.KILL
        if before is not None and before.ends_run and not overtakes:
            self._do(AnswerControl(False, f"the run is being ended already: {before}"))
            return
        self._do(
            AnswerControl(True, f"the run is being ended: {stop}"), WriteLog(_REQUESTED[control])
        )
        if attempt is not None:
            self._stop(stop)
            return
        if self._state.wait is not None:
            self._do(WriteLog("retry skipped due to user stop"))
        self._complete(ending_of(stop))

    def _force_fallback(self) -> None:
        state, attempt = self._state, self._state.attempt
        next_one = choose(state, state.position + 1, self._now, self._now, forced=True)
        if state.phase is RunPhase.INITIALIZE:
            self._do(AnswerControl(False, "the run has not begun"))
        elif next_one is None:
            self._do(AnswerControl(False, f"no agent comes after {state.agent.agent_id!r}"))
        elif attempt is None:
            self._do(AnswerControl(True, "the next agent begins now"))
            self._launch(next_one[0], Cause.FALLBACK)
        elif attempt.stopped is not None and not attempt.stopped.for_silence:
            self._do(AnswerControl(False, f"the attempt is being ended already: {attempt.stopped}"))
        elif attempt.number >= state.policy.max_attempts:
            self._do(AnswerControl(False, f"attempt {attempt.number} is the last one allowed"))
        else:
            self._do(AnswerControl(True, "the attempt is being ended for the next agent"))
            self._stop(StopCause.FALLBACK)
