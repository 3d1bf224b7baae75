"""Random histories: the promises of `Witness` hold for any events in any order."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Do
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.liveness import Liveness
from otpy_agents.run.decide.policy import FatalScope, RetryPolicy
from otpy_agents.run.decide.protocol import (
    AttemptGone,
    AttemptStarted,
    BeginRun,
    ControlAsked,
    CooldownsSeen,
    Event,
    OutputHeard,
    ProgressHeard,
    Resumed,
    RunControl,
    RunDue,
    SessionKnown,
)
from otpy_agents.run.decide.state import RunState
from tests.agents.run.witness import Witness, phases_fit
from tests.examples import examples

START = 1000.0
CLIS = ["claude", "codex"]
ACCOUNTS = [VendorAccount(cli, credential) for cli in CLIS for credential in ("", "team")]
COOLDOWNS = st.builds(
    Cooldown, st.sampled_from(ACCOUNTS), st.sampled_from([START, START + 4, START + 30, START + 99])
)
POLICIES = st.builds(
    RetryPolicy,
    max_retries=st.sampled_from([3, 2, 1, 0]),
    backoff_base=st.sampled_from([5, 0, 2]),
    rate_limit_backoff_base=st.sampled_from([60, 0, 4]),
    crash_restarts=st.integers(0, 2),
    max_attempts=st.sampled_from([30, 30, 30, 12, 2]),
    enable_fallback=st.sampled_from([True, True, False]),
    fatal_scope=st.sampled_from(FatalScope),
    resume=st.booleans(),
)
# Events that end a run at once are rarer, or most histories would be over before they begin.
LASTING = [
    *(Detail.NETWORK, Detail.RATE_LIMIT, Detail.UNKNOWN, Detail.CRASH),
    *(Detail.SESSION_INVALID, Detail.CONTEXT_OVERFLOW, Detail.USAGE),
]
DETAILS = st.sampled_from([*LASTING, *LASTING, *LASTING, *Detail])
ENDS = st.builds(
    AttemptGone,
    number=st.just(0),
    classification=st.builds(
        Classification,
        message=st.just("m"),
        retry_after=st.sampled_from([None, None, 0, 3, 50, 400]),
    ),
    exit_code=st.sampled_from([1, 0, None]),
    session=st.sampled_from([None, "s1", "s2"]),
    usage=st.sampled_from([None, Usage(), Usage(cost_usd=0.5)]),
)
LIVENESS = st.sampled_from(["none", "stall:60", "stall:7", "deadline:100", "heartbeat:30"])


@st.composite
def states(draw: st.DrawFn) -> RunState:
    """Return a run with one to four agents, some of which share an account."""
    agents = [
        AgentInstance(
            agent_id=name,
            agent_cli=draw(st.sampled_from(CLIS)),
            credential=draw(st.sampled_from(["", "team"])),
        )
        for name in "ABCD"[: draw(st.sampled_from([4, 3, 2, 1]))]
    ]
    return RunState(
        chain=AgentChain(agents=tuple(agents)),
        policy=draw(POLICIES),
        liveness=Liveness.parse(draw(LIVENESS)),
        budget_usd=draw(st.sampled_from([None, None, 2.0])),
        session=draw(st.sampled_from([None, "s0"])),
    )


def table(cooldowns: list[Cooldown]) -> CooldownTable:
    made = CooldownTable()
    for one in cooldowns:
        made = made.with_cooldown(one)
    return made


class Histories(RuleBasedStateMachine):
    """The events that can happen to a run, in any order."""

    world: Witness
    patience: int

    @initialize(
        state=states(),
        cooldowns=st.lists(COOLDOWNS, max_size=3),
        late=st.booleans(),
        patience=st.sampled_from([-1, 0, 2, 5, 30]),
    )
    def a_run_is_made(
        self, state: RunState, cooldowns: list[Cooldown], late: bool, patience: int
    ) -> None:
        """A run begins, now or after other things have happened to it."""
        self.world = Witness(state, START)
        self.patience = patience
        if not late:
            self.send(BeginRun(table(cooldowns)))

    def send(self, event: Event) -> None:
        effects = self.world.send(event)
        assert phases_fit(effects, self.world.machine.state)

    @property
    def number(self) -> int:
        return len(self.world.launches)

    @property
    def flies(self) -> bool:
        return self.world.flight is not None

    @rule()
    def it_begins(self) -> None:
        """A second `BeginRun` changes nothing."""
        self.send(BeginRun())

    @precondition(lambda self: self.flies)
    @rule()
    def it_starts(self) -> None:
        """The attempt runs."""
        self.send(AttemptStarted(self.number))

    @rule(detail=DETAILS, end=ENDS)
    def it_fails(self, detail: Detail, end: AttemptGone) -> None:
        """The attempt fails; if there is none, the timer comes due first."""
        if not self.flies:
            self.the_timer_is_due()
        if self.flies:
            verdict = evolve(end.classification, detail=detail)
            self.send(evolve(end, number=self.number, classification=verdict))

    @rule(details=st.lists(DETAILS, min_size=1, max_size=6), end=ENDS)
    def it_goes_wrong_for_a_while(self, details: list[Detail], end: AttemptGone) -> None:
        """Several attempts, one after the other."""
        for detail in details:
            self.it_fails(detail, end)

    @precondition(lambda self: self.flies and self.number > 5)
    @rule(exit_code=st.sampled_from([0, None]))
    def it_succeeds(self, exit_code: int | None) -> None:
        """The attempt says that it is done."""
        done = Classification()
        self.send(AttemptGone(number=self.number, classification=done, exit_code=exit_code))

    @rule(late=st.integers(0, 2), seconds=st.sampled_from([0, 1, 10]))
    def it_is_heard(self, late: int, seconds: float) -> None:
        """The attempt, or one that is over, shows signs of life."""
        self.world.now += seconds
        number = self.number - late
        for event in (ProgressHeard(number), OutputHeard(number), SessionKnown(number, "s3")):
            self.send(event)

    @rule(seconds=st.sampled_from([0, 1, 10]))
    def it_only_writes(self, seconds: float) -> None:
        """Output that is no progress."""
        self.world.now += seconds
        self.send(OutputHeard(self.number))

    @rule()
    def an_old_attempt_ends_again(self) -> None:
        """The end of an attempt is told late, or twice."""
        done = Classification()
        for number in (self.number - 1, self.number + 1):
            self.send(AttemptGone(number=number, classification=done, exit_code=0))

    @rule()
    def the_timer_is_due(self) -> None:
        """Time passes until the machine wants to be asked."""
        due = self.world.machine.due
        if due is not None:
            self.world.now = max(self.world.now, due)
        self.send(RunDue())

    @rule(seconds=st.sampled_from([0, 1, 20, 500]))
    def a_timer_comes_at_any_time(self, seconds: float) -> None:
        """The timer comes too early, or much too late."""
        self.world.now += seconds
        self.send(RunDue())

    @rule(control=st.sampled_from([RunControl.RETRY_NOW, RunControl.FORCE_FALLBACK]))
    def somebody_helps(self, control: RunControl) -> None:
        """A person wants the run to go on."""
        self.send(ControlAsked(control))

    @precondition(lambda self: self.number > self.patience or self.world.completed is not None)
    @rule(control=st.sampled_from(RunControl))
    def somebody_asks(self, control: RunControl) -> None:
        """A person asks for anything."""
        self.send(ControlAsked(control))

    @rule(account=st.sampled_from(ACCOUNTS), seconds=st.sampled_from([-5, 3, 30, 300]))
    def a_sibling_is_limited(self, account: VendorAccount, seconds: float) -> None:
        """Another run tells of a cooldown."""
        known = self.world.machine.state.cooldowns
        until = self.world.now + seconds
        self.send(CooldownsSeen(known.with_cooldown(Cooldown(account, until))))

    @rule(account=st.sampled_from(ACCOUNTS))
    def a_cooldown_is_ended(self, account: VendorAccount) -> None:
        """A person, or a success of another run, ends it before its time."""
        known = self.world.machine.state.cooldowns
        self.send(CooldownsSeen(known.only({*ACCOUNTS} - {account})))

    @rule(adopted=st.booleans(), seconds=st.sampled_from([0, 2, 100]))
    def its_host_dies(self, adopted: bool, seconds: float) -> None:
        """Another host goes on with it."""
        self.world.now += seconds
        self.send(Resumed(adopted=adopted))

    def teardown(self) -> None:
        """Repeated failures bring every run to its end, after any history."""
        if not hasattr(self, "world"):
            return
        self.send(BeginRun())
        for _ in range(200):
            if self.world.completed is not None:
                return
            if self.flies:
                end = Classification(detail=Detail.NETWORK)
                self.send(AttemptGone(number=self.number, classification=end, exit_code=1))
            else:
                self.the_timer_is_due()
        raise AssertionError("it never ends")


@pytest.mark.hypothesis
def test_whatever_happens_the_promises_hold() -> None:
    """C-03, RUN-46 to RUN-49 and all of `Witness`; a run goes on the same from any stored state."""
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=examples(60),
            stateful_step_count=40,
            derandomize=True,
            database=None,
            phases=[Do.generate, Do.shrink],
            suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
        ),
    )
