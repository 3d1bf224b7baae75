"""Keeps books of its own about a run, from events and effects alone, and checks every step.

It never asks the machine how often something was done: it counts launches and ends as an onlooker
would, and has rules of its own about what may follow what.
"""

from __future__ import annotations

from collections import Counter

from otpy_agents.attempt.failures import Classification
from otpy_agents.run.decide.chain import AgentInstance
from otpy_agents.run.decide.cooldown import VendorAccount
from otpy_agents.run.decide.machine import RunMachine
from otpy_agents.run.decide.policy import FatalScope
from otpy_agents.run.decide.protocol import (
    AnswerControl,
    AttemptGone,
    AttemptStarted,
    BeginRun,
    Completed,
    ControlAsked,
    CooldownsSeen,
    Effect,
    Event,
    LaunchAttempt,
    Resumed,
    RunControl,
    RunDue,
    SetCooldown,
    StopAttempt,
    TellPhase,
    TellQuiet,
    TellSwitch,
    TellWait,
)
from otpy_agents.run.decide.result import Ending, RunOutcome
from otpy_agents.run.decide.state import RunState, WaitReason

_FREE = {"crash_restart", "fresh_session", "interrupted"}
_USER: dict[RunControl | None, str] = {
    RunControl.CANCEL: "cancelled",
    RunControl.KILL: "killed",
    RunControl.STOP: "stopped",
}


class Witness:
    """A machine, its twin that lives through JSON at every step, and the books about both."""

    def __init__(self, state: RunState, now: float) -> None:
        self.machine = RunMachine(state)
        self.setting, self.now = state, now
        self.agents = [agent.agent_id for agent in state.chain.agents]
        self.at = 0
        self.flight: LaunchAttempt | None = None
        self.started = False
        self.stop_sent = self.kill_sent = False
        self.wish: RunControl | None = None  # what a person asked for and was granted
        self.silenced = False
        self.begun = False
        self.launches: list[LaunchAttempt] = []
        self.used: Counter[str] = Counter()
        self.ends: Counter[tuple[str, str]] = Counter()
        self.switches = 0
        self.cost = 0.0
        self.cold: dict[VendorAccount, float] = {}
        self.allowed = {"first"}
        self.asked = 0.0
        self.completed: Completed | None = None

    # --- events -----------------------------------------------------------------------------------

    def send(self, event: Event) -> tuple[Effect, ...]:
        """Hand in one event, and check all that follows from it."""
        before = self.machine.state
        twin = RunMachine(RunState.from_json(before.to_json()))
        effects = self.machine.handle(event, self.now)
        assert twin.handle(event, self.now) == effects
        assert (twin.state, twin.due) == (self.machine.state, self.machine.due)
        self._answers(event, effects)
        if self.completed is not None:
            again = (self.completed,) if isinstance(event, Resumed) else ()
            told = [one for one in effects if type(one) not in {AnswerControl, SetCooldown}]
            assert tuple(told) == again
            assert self.machine.state.ending is before.ending
            return effects
        self._note(event, effects)
        for effect in effects:
            self._check(effect, event)
        self._rest()
        return effects

    def _answers(self, event: Event, effects: tuple[Effect, ...]) -> None:
        answers = [one for one in effects if isinstance(one, AnswerControl)]
        assert len(answers) == isinstance(event, ControlAsked)
        if not isinstance(event, ControlAsked):
            return
        assert answers[0].text
        if not answers[0].accepted:
            assert len(effects) == 1
        else:
            assert self.completed is None
            self.wish = event.control

    def _note(self, event: Event, effects: tuple[Effect, ...]) -> None:
        match event:
            case BeginRun() | Resumed():
                if isinstance(event, BeginRun) and not self.begun:
                    self.cold = {}  # the table it brings is all there is
                self.begun = True
                for one in event.cooldowns.entries:
                    self._cool(one.account, one.until)
                dead = isinstance(event, Resumed) and not event.adopted
                if dead and self.flight is not None:
                    self._ended("interrupted", None)
                elif isinstance(event, Resumed) and self.flight is not None:
                    self.started = True
                    again = [one for one in effects if isinstance(one, StopAttempt)]
                    assert len(again) == self.stop_sent
                    self.stop_sent = self.kill_sent = False
            case CooldownsSeen():
                self.cold = {one.account: one.until for one in event.cooldowns.entries}
            case AttemptStarted() if self.flight and event.number == self.flight.number:
                self.started = True
            case AttemptGone() if self.flight and event.number == self.flight.number:
                self.cost += event.usage.cost_usd if event.usage is not None else 0
                verdict = event.classification
                lost = event.exit_code is None and verdict.detail is None
                self._ended("unknown" if lost else str(verdict.detail or "success"), verdict)
            case _:
                pass

    def _cool(self, account: VendorAccount, until: float) -> None:
        self.cold[account] = max(self.cold.get(account, 0.0), until)

    def _ended(self, word: str, verdict: Classification | None) -> None:
        assert self.flight is not None
        agent = self.agents[self.at]
        self.asked = 0.0
        if self.wish in _USER:
            self.allowed = {_USER[self.wish]}
        elif self.wish is RunControl.FORCE_FALLBACK and self.stop_sent:
            self.allowed = {"next"}
        elif self.silenced:
            self.allowed = self._onward() if self._left() == 0 else {"retry"}
        elif word == "interrupted":
            self.allowed = {"interrupted"}
        else:
            self.ends[agent, word] += 1
            self.allowed = self._after(word)
            if verdict is not None and word not in {"rate_limit", "quota"}:
                most = self.setting.policy.rate_limit_backoff_base
                self.asked = min(verdict.retry_after or 0.0, most)
        self.flight, self.started, self.silenced = None, False, False
        self.stop_sent = self.kill_sent = False

    # --- what may follow what ---------------------------------------------------------------------

    def _left(self) -> int:
        return self.setting.policy.max_retries - self.used[self.agents[self.at]]

    def _onward(self) -> set[str]:
        further = self.at + 1 < len(self.agents) and self.setting.policy.enable_fallback
        return {"next"} if further else {"end"}

    def _again(self) -> set[str]:
        return {"retry"} if self._left() > 0 else self._onward()

    def _after(self, word: str) -> set[str]:
        assert self.flight is not None
        agent = self.agents[self.at]
        causes = Counter((one.agent.agent_id, str(one.cause)) for one in self.launches)
        crashes = sum(one.cause == "crash_restart" for one in self.launches)
        fresh = self.flight.session is not None and not causes[agent, "fresh_session"]
        narrow = self.setting.policy.fatal_scope is FatalScope.AGENT
        if word == "success":
            return {"success"}
        if word in {"auth", "billing", "model_unavailable"}:
            return self._onward() if narrow else {"end"}
        if word == "budget":
            return {"end"}
        if word == "context_overflow":
            return {"fresh_session"} if fresh else {"end"}
        if word == "session_invalid":
            return {"fresh_session"} if fresh else self._again()
        if word == "crash":
            more = crashes < self.setting.policy.crash_restarts
            return {"crash_restart"} if more else self._again()
        if word == "unknown":
            return self._again() if self.ends[agent, word] == 1 else self._onward()
        if word in {"usage", "no_result", "tools_denied"}:
            return self._onward()
        return self._again()

    # --- effects ----------------------------------------------------------------------------------

    def _check(self, effect: Effect, event: Event) -> None:
        match effect:
            case LaunchAttempt():
                self._launched(effect, event)
            case StopAttempt():
                assert self.flight is not None
                assert effect.number == self.flight.number
                assert not self.kill_sent
                assert effect.kill or not self.stop_sent
                self.stop_sent, self.kill_sent = True, effect.kill
                self.silenced = self.silenced or isinstance(event, RunDue)
            case TellWait():
                self._waits(effect, event)
            case TellSwitch():
                assert self.agents.index(effect.target) > self.agents.index(effect.source)
                assert effect.source == self.agents[self.at]
                self.switches += 1
            case SetCooldown():
                assert effect.cooldown.until >= self.now
                self._cool(effect.cooldown.account, effect.cooldown.until)
            case TellQuiet():
                assert self.started
            case Completed():
                self._over(effect)
            case _:
                pass

    def _launched(self, launch: LaunchAttempt, event: Event) -> None:
        assert self.flight is None
        assert launch.number == len(self.launches) + 1 <= self.setting.policy.max_attempts
        asked = isinstance(event, ControlAsked) or self.wish is RunControl.FORCE_FALLBACK
        target = self.agents.index(launch.agent.agent_id)
        assert target >= self.at, "it went back"
        here = self.setting.chain.agents[self.at].account
        if not asked:
            assert self.cold.get(launch.agent.account, 0.0) <= self.now
        if target > self.at:
            assert launch.cause == "fallback"
            stayed = not self.allowed & {"next"}
            assert asked or not stayed or self.cold.get(here, 0.0) > self.now
            assert asked or self.setting.policy.enable_fallback
        else:
            assert str(launch.cause) in self.allowed
        if launch.cause == "retry":
            self.used[launch.agent.agent_id] += 1
            assert self._left() >= 0
        if self.setting.budget_usd is not None:
            assert launch.budget_usd is not None
            assert launch.budget_usd > 0
        self.at, self.flight, self.wish = target, launch, None
        self.launches.append(launch)

    def _waits(self, wait: TellWait, event: Event) -> None:
        assert self.flight is None
        assert wait.delay == max(0.0, wait.until - self.now)
        assert wait.retry in {0, self.used[self.agents[self.at]] + 1}
        if isinstance(event, Resumed) and event.cooldowns.entries == ():
            return
        delay = 0.0
        if wait.reason is WaitReason.BACKOFF:
            delay = self._delay()
            assert wait.delay == delay
            assert wait.agent_id == self.agents[self.at]
        elif not isinstance(event, Resumed):
            assert wait.delay <= (self.setting.policy.max_wait or wait.delay)
        self._fair(wait, delay)

    def _delay(self) -> float:
        base = self.setting.policy.backoff_base
        return max((1, 3, 9)[min(2, self.used[self.agents[self.at]])] * base, self.asked)

    def _fair(self, wait: TellWait, delay: float) -> None:
        """Check that a run waits for no agent while another agent that it may use is free."""
        policy = self.setting.policy
        may: list[AgentInstance] = []
        if self.allowed - {"next", "end"}:
            may.append(self.setting.chain.agents[self.at])
        if policy.enable_fallback:
            may += self.setting.chain.agents[self.at + 1 :]
        if wait.reason is WaitReason.COOLDOWN and wait.agent_id == self.agents[self.at]:
            # As long as the retry would have been put off anyway, a cooldown delays nothing.
            delay = self._delay()
        soon = [
            one
            for one in may
            if self.cold.get(one.account, 0.0)
            <= self.now + max(policy.patience, delay if one is may[0] else 0)
        ]
        if soon:
            assert wait.agent_id == soon[0].agent_id
        else:
            assert wait.until == min(self.cold[one.account] for one in may)

    def _over(self, told: Completed) -> None:
        result, policy = told.result, self.setting.policy
        self.completed = told
        assert self.flight is None
        assert result.total_attempts == len(self.launches)
        assert [one.agent_id for one in result.attempts] == [
            one.agent.agent_id for one in self.launches
        ]
        assert result.retry_count == sum(self.used.values())
        assert result.fallback_count == self.switches
        assert result.agent_id == self.agents[self.at]
        assert (result.exit_code == 0) == (result.outcome is RunOutcome.SUCCESS)
        assert (result.error is None) == (result.outcome is RunOutcome.SUCCESS)
        if self.wish in _USER:
            assert result.ending == _USER[self.wish]
        elif self.wish is RunControl.CANCEL_RETRY:
            assert result.ending is Ending.RETRY_CANCELLED
        elif result.ending is Ending.ATTEMPT_LIMIT:
            assert len(self.launches) == policy.max_attempts
        elif result.ending is Ending.BUDGET:
            assert self.setting.budget_usd is not None
            assert self.cost >= self.setting.budget_usd
        elif result.ending is Ending.QUOTA:
            assert policy.max_wait is not None
            assert max(self.cold.values()) > self.now + policy.max_wait
        elif result.ending is Ending.SUCCEEDED:
            assert self.allowed == {"success"}
        else:
            assert result.ending in {Ending.FATAL, Ending.EXHAUSTED}
            assert self.allowed == {"end"}

    def _rest(self) -> None:
        """Check that between two events a run does one thing, and never waits without a moment."""
        state, due = self.machine.state, self.machine.due
        assert (state.attempt is not None) == (self.flight is not None)
        doing = [state.attempt is not None, state.wait is not None, state.ending is not None]
        assert sum(doing) == self.begun or self.completed is not None
        if state.wait is not None:
            assert due == state.wait.until
        assert (self.completed is not None) == (state.ending is not None)
        assert state.phase not in {"classify_error", "switch_agent"}
        assert state.status


def phases_fit(effects: tuple[Effect, ...], state: RunState) -> bool:
    """Whether the last phase that was told is that of the state."""
    told = [one.phase for one in effects if isinstance(one, TellPhase)]
    return not told or told[-1] is state.phase
