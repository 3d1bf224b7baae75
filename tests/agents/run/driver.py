"""Plays the part of the shell: a clock, one timer, and the notices to people."""

from __future__ import annotations

from typing import Any, TypeVar

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.machine import RunMachine
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
    ProgressHeard,
    Resumed,
    RunControl,
    RunDue,
    StopAttempt,
    TellWait,
    WriteLog,
)
from otpy_agents.run.decide.result import RunResult
from otpy_agents.run.decide.state import RunState

E = TypeVar("E", bound=Effect)
START = 1_000_000.0


def agents(*names: str) -> AgentChain:
    """Return a chain in which each agent has a CLI of its own name."""
    return AgentChain(
        agents=tuple(AgentInstance(agent_id=name.upper(), agent_cli=name) for name in names)
    )


def cooldown(name: str, until: float) -> CooldownTable:
    """Return a table in which the agent of `agents(name)` is limited."""
    return CooldownTable((Cooldown(VendorAccount(name), until),))


class Driver:
    """Drives one run by hand.

    Args:
        state: The first state.
        reload: Whether to put the state through JSON after every event.
    """

    def __init__(self, state: RunState, *, reload: bool = False) -> None:
        self.machine = RunMachine(state)
        self.reload = reload
        self.now = START
        self.effects: list[Effect] = []
        self.last: tuple[Effect, ...] = ()

    def send(self, event: Event, after: float = 0.0) -> tuple[Effect, ...]:
        """Let `after` seconds pass without a timer, and hand in one event."""
        self.now += after
        self.last = self.machine.handle(event, self.now)
        self.effects += self.last
        if self.reload:
            self.machine = RunMachine(RunState.from_json(self.machine.state.to_json()))
        return self.last

    def begin(self, cooldowns: CooldownTable | None = None) -> Driver:
        """Begin the run."""
        self.send(BeginRun(cooldowns or CooldownTable()))
        return self

    def resume(self, *, adopted: bool = False, after: float = 0.0) -> tuple[Effect, ...]:
        """Let the host die, and another resume the stored run `after` seconds later."""
        self.machine = RunMachine(RunState.from_json(self.machine.state.to_json()))
        return self.send(Resumed(self.machine.state.cooldowns, adopted), after)

    @property
    def number(self) -> int:
        """The number of the attempt in progress."""
        attempt = self.machine.state.attempt
        assert attempt is not None, "no attempt is going on"
        return attempt.number

    def start(self) -> Driver:
        """Let the attempt start."""
        self.send(AttemptStarted(self.number))
        return self

    def fail(
        self,
        detail: Detail,
        message: str = "",
        *,
        retry_after: float | None = None,
        exit_code: int | None = 1,
        session: str | None = None,
        usage: Usage | None = None,
    ) -> tuple[Effect, ...]:
        """Let the attempt start, if it has not, and fail."""
        attempt = self.machine.state.attempt
        if attempt is not None and attempt.started is None:
            self.start()
        verdict = Classification(detail=detail, message=message, retry_after=retry_after)
        return self.send(
            AttemptGone(
                number=self.number,
                classification=verdict,
                exit_code=exit_code,
                session=session,
                usage=usage,
            )
        )

    def succeed(self) -> tuple[Effect, ...]:
        """Let the attempt start and succeed."""
        self.start()
        end = AttemptGone(number=self.number, classification=Classification(), exit_code=0)
        return self.send(end)

    def stopped(self, exit_code: int | None = 143) -> tuple[Effect, ...]:
        """Let the attempt end as it was asked to, with a verdict that must not count."""
        verdict = Classification(detail=Detail.AUTH, message="from the exit code")
        return self.send(
            AttemptGone(number=self.number, classification=verdict, exit_code=exit_code)
        )

    def ask(self, control: RunControl) -> AnswerControl:
        """Ask for a control, and return the answer, of which there is one."""
        self.send(ControlAsked(control))
        (answer,) = self.of(AnswerControl, self.last)
        return answer

    def sibling(self, name: str, until: float) -> None:
        """Let another run report a cooldown."""
        known = self.machine.state.cooldowns
        self.send(CooldownsSeen(known.with_cooldown(Cooldown(VendorAccount(name), until))))

    def say(self, after: float = 0.0) -> None:
        """Let the attempt show progress."""
        self.send(ProgressHeard(self.number), after)

    def wait(self) -> float:
        """Wait for the timer, and return how long that took."""
        due = self.machine.due
        assert due is not None, "no timer is set"
        waited = max(0.0, due - self.now)
        self.send(RunDue(), waited)
        return waited

    def of(self, kind: type[E], effects: tuple[Effect, ...] | None = None) -> list[E]:
        """Return the effects of one kind, by default all so far."""
        return [one for one in (self.effects if effects is None else effects) if type(one) is kind]

    @property
    def log(self) -> list[str]:
        """The lines so far."""
        return [one.text for one in self.of(WriteLog)]

    @property
    def launched(self) -> list[str]:
        """The launched agents so far, in order."""
        return [one.agent.agent_id for one in self.of(LaunchAttempt)]

    @property
    def delays(self) -> list[float]:
        """Delays shown so far."""
        return [one.delay for one in self.of(TellWait)]

    @property
    def stops(self) -> list[bool]:
        """Stops so far: whether each was a kill."""
        return [one.kill for one in self.of(StopAttempt)]

    @property
    def result(self) -> RunResult:
        """The result, told exactly once."""
        (told,) = self.of(Completed)
        assert told.result == self.machine.state.result()
        return told.result

    @property
    def over(self) -> bool:
        """Whether the run is over."""
        return self.machine.state.ending is not None


def run(*names: str, cooldowns: CooldownTable | None = None, **settings: Any) -> Driver:
    """Return a run along `agents(*names)`, or along a `chain`, begun."""
    chain = settings.pop("chain", None) or agents(*names)
    return Driver(RunState(chain=chain, **settings)).begin(cooldowns)
