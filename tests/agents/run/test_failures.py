"""The reaction of a run to each kind of failure."""

from __future__ import annotations

import pytest
from attrs import evolve

from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.policy import FatalScope, RetryPolicy
from otpy_agents.run.decide.protocol import (
    AttemptGone,
    LaunchAttempt,
    TellPhase,
    TellSwitch,
    TellWait,
)
from otpy_agents.run.decide.result import Cause, Ending, RunOutcome
from otpy_agents.run.decide.state import RunPhase, WaitReason
from tests.agents.run.driver import agents, run

RETRYABLE = [
    *(Detail.OVERLOADED, Detail.SERVER_ERROR, Detail.NETWORK, Detail.PROTOCOL),
    Detail.SESSION_CONFLICT,
]


def test_three_network_errors_and_a_success() -> None:
    """Acceptance 1, RUN-22, RUN-46, RUN-47, RUN-57, C-07: 5, 15 and 45 seconds, then done."""
    it = run("a")
    waited: list[float] = []
    for _ in range(3):
        it.fail(Detail.NETWORK, "connection reset")
        waited.append(it.wait())
    it.succeed()
    assert waited == it.delays == [5, 15, 45]
    assert it.result.retry_count == 3
    assert it.result.metadata == {
        "agent_used": "a",
        "agent_id": "A",
        "retry_count": 3,
        "fallback_count": 0,
        "total_attempts": 4,
    }
    assert (it.result.outcome, it.result.exit_code) == (RunOutcome.SUCCESS, 0)
    assert it.log == [
        "[supervisor] retry 1/3 with A in 5s",
        "[supervisor] retry 2/3 with A in 15s",
        "[supervisor] retry 3/3 with A in 45s",
        "[supervisor] completed after 3 retries",
    ]


def test_a_success_at_once_says_nothing_of_retries() -> None:
    """RUN-51: exit 0 ends the run, and there is nothing to log."""
    it = run("a")
    it.succeed()
    assert (it.result.status, it.result.error, it.log) == ("done", None, [])


def test_a_run_goes_through_the_states_of_the_requirements() -> None:
    """RUN-25 to RUN-29: the phases come in this order; those that pass at once are told, too."""
    it = run("a", "b")
    it.fail(Detail.USAGE)
    it.succeed()
    assert [one.phase for one in it.of(TellPhase)] == [
        *(RunPhase.LAUNCH, RunPhase.RUN, RunPhase.DETECT_EXIT, RunPhase.CLASSIFY_ERROR),
        *(
            RunPhase.SWITCH_AGENT,
            RunPhase.LAUNCH,
            RunPhase.RUN,
            RunPhase.DETECT_EXIT,
            RunPhase.COMPLETE,
        ),
    ]


@pytest.mark.parametrize("detail", RETRYABLE)
def test_retries_used_up_lead_to_the_next_agent(detail: Detail) -> None:
    """RUN-46, RUN-28 and C-36: four attempts of each agent, then the last result."""
    it = run("a", "b")
    for _ in range(3):
        it.fail(detail)
        it.wait()
    it.fail(detail, "the last of A")
    assert it.machine.state.retries == 0
    for _ in range(3):
        it.fail(detail)
        it.wait()
    it.fail(detail, "the last of B", exit_code=7)
    assert it.launched == ["A"] * 4 + ["B"] * 4
    assert it.delays == [5, 15, 45] * 2
    assert (it.result.ending, it.result.error) == (Ending.EXHAUSTED, "the last of B")
    assert (it.result.exit_code, it.result.retry_count, it.result.fallback_count) == (7, 6, 1)
    assert "[supervisor] switching from A to B (fallback)" in it.log
    assert it.of(TellSwitch) == [TellSwitch(source="A", target="B")]


def test_a_retry_is_counted_when_it_is_made() -> None:
    """RUN-58: a pending retry is shown with its number, and does not count yet."""
    it = run("a")
    it.fail(Detail.NETWORK)
    assert (it.machine.state.status, it.machine.state.retries) == ("retrying (1/3)", 0)
    (wait,) = it.of(TellWait)
    assert (wait.retry, wait.agent_id, wait.reason) == (1, "A", WaitReason.BACKOFF)
    it.wait()
    assert (it.machine.state.status, it.machine.state.retries) == ("starting", 1)


@pytest.mark.parametrize("detail", [Detail.USAGE, Detail.NO_RESULT, Detail.TOOLS_DENIED])
def test_an_agent_that_cannot_do_it_is_not_asked_again(detail: Detail) -> None:
    """C-05: the next agent at once, and without one the run ends."""
    it = run("a", "b")
    it.fail(detail, exit_code=127)
    assert it.launched == ["A", "B"]
    it.fail(detail, "claude: not found", exit_code=127)
    assert (it.delays, it.result.ending) == ([], Ending.EXHAUSTED)
    assert (it.result.error, it.result.exit_code) == ("claude: not found", 127)


def test_an_attempt_that_could_not_be_started_counts_as_one() -> None:
    """C-05: a CLI that is not installed never starts, and leads to the next agent."""
    it = run("a", "b")
    missing = Classification(detail=Detail.USAGE, message="npm install -g a")
    it.send(AttemptGone(number=1, classification=missing))
    assert it.launched == ["A", "B"]
    assert it.machine.state.attempts[0].exit_code is None
    assert not any("exit code" in line for line in it.log)


FATAL = [
    *(Detail.AUTH, Detail.BILLING, Detail.MODEL_UNAVAILABLE),
    *(Detail.BUDGET, Detail.CONTEXT_OVERFLOW),
]


@pytest.mark.parametrize("detail", FATAL)
def test_a_fatal_failure_ends_the_run(detail: Detail) -> None:
    """RUN-50: no retry, no fallback."""
    it = run("a", "b", policy=RetryPolicy(fatal_scope=FatalScope.TASK))
    it.fail(detail, "Invalid API key")
    assert (it.launched, it.result.ending) == (["A"], Ending.FATAL)
    assert (it.result.error, it.result.status) == ("Invalid API key", "failed")


@pytest.mark.parametrize("detail", FATAL)
def test_a_fatal_failure_of_one_agent(detail: Detail) -> None:
    """C-06: a failure of the agent alone leads along the chain, and is fatal at its end."""
    it = run("a", "b")
    it.fail(detail)
    if detail in {Detail.BUDGET, Detail.CONTEXT_OVERFLOW}:
        assert it.launched == ["A"]
    else:
        it.fail(detail)
        assert it.launched == ["A", "B"]
    assert it.result.ending is Ending.FATAL


def test_a_crash_is_restarted_once_for_nothing() -> None:
    """C-04 and RUN-16: one restart in the whole run, then a crash is a failure like others."""
    it = run("a", "b")
    it.fail(Detail.CRASH, exit_code=137)
    assert (it.launched, it.delays, it.machine.state.retries) == (["A", "A"], [], 0)
    assert it.log == ["[supervisor] container crashed (exit 137), restarting..."]
    for delay in (5, 15, 45):
        it.fail(Detail.CRASH, exit_code=137)
        assert it.wait() == delay
    it.fail(Detail.CRASH)
    it.fail(Detail.CRASH)
    assert it.launched == ["A"] * 5 + ["B"]
    assert it.delays[-1] == 5


def test_a_dead_session_is_left_once() -> None:
    """G-12: again at once without resuming, which costs no retry; then a failure like others."""
    it = run("a", session="s1")
    it.fail(Detail.SESSION_INVALID)
    it.fail(Detail.SESSION_INVALID)
    it.wait()
    assert [one.session for one in it.of(LaunchAttempt)] == ["s1", None, None]
    assert [one.cause for one in it.of(LaunchAttempt)] == [
        Cause.FIRST,
        Cause.FRESH_SESSION,
        Cause.RETRY,
    ]
    assert it.delays == [5]


def test_a_long_history_is_left_once() -> None:
    """A prompt that does not fit with its history may fit without; otherwise it is fatal."""
    it = run("a", "b", session="s1")
    it.fail(Detail.CONTEXT_OVERFLOW)
    assert it.of(LaunchAttempt)[-1].session is None
    it.fail(Detail.CONTEXT_OVERFLOW, "Prompt is too long")
    assert (it.launched, it.result.ending) == (["A", "A"], Ending.FATAL)


def test_a_failure_without_a_reason_is_tried_once_more() -> None:
    """RUN-44 and RUN-46 with one retry instead of three, then on along the chain."""
    it = run("a", "b")
    it.fail(Detail.UNKNOWN)
    assert it.wait() == 5
    it.fail(Detail.UNKNOWN)
    it.fail(Detail.UNKNOWN)
    it.wait()
    it.fail(Detail.UNKNOWN)
    assert it.launched == ["A", "A", "B", "B"]
    assert it.result.ending is Ending.EXHAUSTED


def test_an_unknown_failure_takes_a_retry_from_the_same_counter() -> None:
    """RUN-46: one agent has three retries, for all kinds of failure together."""
    it = run("a")
    for detail in (Detail.NETWORK, Detail.UNKNOWN, Detail.NETWORK):
        it.fail(detail)
        it.wait()
    it.fail(Detail.NETWORK)
    assert (it.result.retry_count, it.delays) == (3, [5, 15, 45])


def test_without_an_exit_code_nothing_succeeds() -> None:
    """C-37: it is unknown, which is retryable, and it is logged."""
    it = run("a").start()
    it.send(AttemptGone(number=1, classification=Classification()))
    assert it.log[0] == "[supervisor] attempt 1: its exit code is unknown"
    assert it.machine.state.attempts[0].detail is Detail.UNKNOWN
    assert it.machine.state.status == "retrying (1/3)"


def test_thirty_attempts_are_the_end() -> None:
    """RUN-49: over all agents, and before another wait begins."""
    names = [f"x{n}" for n in range(10)]
    it = run(*names)
    while not it.over:
        it.fail(Detail.NETWORK)
        if it.machine.due is not None:
            it.wait()
    assert (it.result.total_attempts, it.result.ending) == (30, Ending.ATTEMPT_LIMIT)
    assert it.result.error == "no attempt is left: network"


def test_no_fallback_without_leave() -> None:
    """RUN-21: `enable_fallback=False` keeps a run with its first agent."""
    it = run("a", "b", policy=RetryPolicy(max_retries=0, enable_fallback=False))
    it.fail(Detail.NETWORK)
    assert (it.launched, it.result.ending) == (["A"], Ending.EXHAUSTED)


def test_warnings_of_the_chain_are_logged() -> None:
    """Acceptance 3: one line for each."""
    assert run(chain=evolve(agents("a"), warnings=("bad id",))).log == ["[supervisor] bad id"]


def test_money_that_is_spent_ends_the_run() -> None:
    """Each attempt gets the rest of the budget, and none begins without a rest."""
    it = run("a", budget_usd=2.0)
    it.fail(Detail.NETWORK, usage=Usage(cost_usd=0.5))
    it.wait()
    assert [one.budget_usd for one in it.of(LaunchAttempt)] == [2.0, 1.5]
    it.fail(Detail.NETWORK, "reset", usage=Usage(cost_usd=1.5))
    assert (it.result.ending, it.result.error) == (Ending.BUDGET, "the budget is spent: reset")
    assert it.result.usage.cost_usd == 2.0


def test_usage_of_a_thread_is_counted_once() -> None:
    """G-07: a count that covers the whole thread adds only what is new in it."""
    it = run("a", session="t")
    for tokens in (10, 30):
        end = AttemptGone(
            number=it.number,
            classification=Classification(detail=Detail.NETWORK),
            exit_code=1,
            session="t",
            usage=Usage(input=tokens),
            cumulative=True,
            artifacts=(f"log{tokens}",),
        )
        it.start().send(end)
        it.wait()
    it.succeed()
    assert [record.usage.input for record in it.result.attempts] == [10, 20, 0]
    assert (it.result.usage.input, it.result.session, it.result.artifacts) == (30, "t", ())


def test_a_session_is_gone_on_with_where_that_is_wanted() -> None:
    """C-21: fresh attempts by default; with `resume` each goes on in the newest session."""
    for resume, wanted in ((False, [None, None]), (True, [None, "s1"])):
        it = run("a", policy=RetryPolicy(resume=resume))
        it.fail(Detail.NETWORK, session="s1")
        it.wait()
        assert [one.session for one in it.of(LaunchAttempt)] == wanted


@pytest.mark.parametrize(("other", "wanted"), [("a", "s1"), ("b", None)])
def test_a_session_goes_to_an_agent_that_can_read_it(other: str, wanted: str | None) -> None:
    """Another model of one CLI can go on with its session; another CLI cannot."""
    two = (
        AgentInstance(agent_id="A", agent_cli="a", model="big"),
        AgentInstance(agent_id="B", agent_cli=other, model="small"),
    )
    it = run(chain=AgentChain(agents=two), session="s1")
    it.fail(Detail.USAGE)
    it.fail(Detail.NETWORK)
    it.wait()
    assert [one.session for one in it.of(LaunchAttempt)] == ["s1", wanted, wanted]


def test_events_of_an_attempt_that_is_over_change_nothing() -> None:
    """A late end must not be taken for the end of the next attempt."""
    it = run("a")
    it.fail(Detail.NETWORK)
    it.wait()
    before = it.machine.state
    late = AttemptGone(number=1, classification=Classification(), exit_code=0)
    assert it.send(late) == ()
    assert it.machine.state == before
