"""A run waits for a limited agent or passes it by, and all runs see the limit."""

from __future__ import annotations

import pytest

from otpy_agents.attempt.failures import Detail
from otpy_agents.run.decide.chain import AgentChain, AgentInstance
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.protocol import LaunchAttempt, RunControl, SetCooldown, TellWait
from otpy_agents.run.decide.result import Cause, Ending
from otpy_agents.run.decide.state import WaitReason
from otpy_agents.run.decide.time_text import moment
from tests.agents.run.driver import START, cooldown, run


def test_a_limit_is_recorded_and_the_next_run_passes_the_agent_by() -> None:
    """Acceptance 2: the first run moves on; a second one with that account begins with B."""
    first = run("a", "b", "c")
    first.fail(Detail.RATE_LIMIT, retry_after=600)
    (told,) = first.of(SetCooldown)
    assert told.cooldown == Cooldown(VendorAccount("a"), START + 600, START, "rate_limit")
    assert (first.launched, first.delays) == (["A", "B"], [])
    second = run("a", "b", "c", cooldowns=CooldownTable((told.cooldown,)))
    assert (second.launched, second.delays) == (["B"], [])
    until = moment(START + 600, START)
    assert second.log == [
        f"[supervisor] A rests until {until} (rate_limit)",
        "[supervisor] switching from A to B (fallback)",
    ]
    second.succeed()
    assert second.result.fallback_count == 1


@pytest.mark.parametrize("detail", [Detail.RATE_LIMIT, Detail.QUOTA])
def test_without_another_agent_a_run_waits(detail: Detail) -> None:
    """RUN-48, C-15: 60, 120 and 300 seconds where the vendor names no time, each a retry."""
    it = run("a")
    for delay in (60, 120, 300):
        it.fail(detail)
        assert it.wait() == delay
    it.fail(detail, "429")
    assert (it.launched, it.result.ending) == (["A"] * 4, Ending.EXHAUSTED)
    assert it.log[:1] == ["[supervisor] retry 1/3 with A in 60s"]
    assert [one.reason for one in it.of(TellWait)] == [WaitReason.COOLDOWN] * 3
    assert [one.cooldown.until for one in it.of(SetCooldown)][-1] == it.now + 300


def test_the_vendor_knows_best() -> None:
    """C-15: the time of the vendor counts before ours, unless it is 0."""
    it = run("a")
    it.fail(Detail.RATE_LIMIT, retry_after=7.5)
    assert it.wait() == 7.5
    it.fail(Detail.RATE_LIMIT, retry_after=0)
    assert it.wait() == 120


def test_a_wait_that_was_not_enough_is_followed_by_one_of_ours() -> None:
    """A vendor that says "in a moment" each time must not use up all retries in a moment."""
    it = run("a")
    for delay in (0.5, 5, 15):
        it.fail(Detail.RATE_LIMIT, retry_after=0.5)
        assert it.wait() == delay


@pytest.mark.parametrize(("asked", "waited"), [(None, 5), (2, 5), (20, 20), (3600, 60)])
def test_an_overloaded_vendor_may_ask_for_more_time(asked: float | None, waited: float) -> None:
    """RUN-47: at most the first cooldown, and without one for the siblings."""
    it = run("a")
    it.fail(Detail.OVERLOADED, retry_after=asked)
    assert it.wait() == waited
    assert it.of(SetCooldown) == []


def test_a_short_limit_is_no_reason_to_change_agents() -> None:
    """A wait up to the first backoff is cheaper than an agent that knows nothing yet."""
    it = run("a", "b")
    it.fail(Detail.RATE_LIMIT, retry_after=5)
    assert (it.wait(), it.launched) == (5, ["A", "A"])
    it.fail(Detail.RATE_LIMIT, retry_after=5.1)
    assert it.launched == ["A", "A", "B"]


def test_when_all_are_limited_the_first_to_be_free_is_waited_for() -> None:
    """It may be a later agent of the chain; the turn of the earlier ones is then over."""
    it = run("a", "b", "c", cooldowns=cooldown("b", START + 900).merged(cooldown("c", START + 100)))
    it.fail(Detail.RATE_LIMIT, retry_after=300)
    assert it.log == ["[supervisor] C is free in 100s"]
    assert (it.machine.state.status, it.wait()) == ("waiting", 100)
    assert it.launched == ["A", "C"]
    it.fail(Detail.RATE_LIMIT, retry_after=1000)
    assert it.wait() == 1000
    assert it.launched == ["A", "C", "C"]


def test_who_goes_on_is_asked_again_when_the_wait_is_over() -> None:
    """C is limited again during the wait for it, and B, which is free by then, is next."""
    it = run("a", "b", "c", cooldowns=cooldown("b", START + 101).merged(cooldown("c", START + 100)))
    it.fail(Detail.RATE_LIMIT, retry_after=300)
    it.sibling("c", START + 900)
    assert (it.wait(), it.wait()) == (100, 1)
    assert it.launched == ["A", "B"]


def test_a_limited_agent_comes_back_if_it_is_free_first() -> None:
    """The other way round: A is waited for, which costs one of its retries."""
    it = run("a", "b", cooldowns=cooldown("b", START + 900))
    it.fail(Detail.RATE_LIMIT)
    assert (it.wait(), it.launched) == (60, ["A", "A"])
    assert it.of(LaunchAttempt)[-1].cause is Cause.RETRY


def test_retries_that_are_used_up_leave_only_the_others() -> None:
    """RUN-46: a limited agent without retries is not waited for, however soon it is free."""
    it = run("a", "b", cooldowns=cooldown("b", START + 900), policy=RetryPolicy(max_retries=0))
    it.fail(Detail.RATE_LIMIT, retry_after=1)
    assert (it.wait(), it.launched) == (900, ["A", "B"])


def test_agents_of_one_account_are_limited_together() -> None:
    """G-06: another model of the same login does not help."""
    two = (
        AgentInstance(agent_id="A", agent_cli="a", model="big", credential="team"),
        AgentInstance(agent_id="B", agent_cli="a", model="small", credential="team"),
        AgentInstance(agent_id="C", agent_cli="a", credential="mine"),
    )
    it = run(chain=AgentChain(agents=two))
    it.fail(Detail.RATE_LIMIT)
    assert it.launched == ["A", "C"]


def test_a_sibling_s_limit_counts_at_once() -> None:
    """C-15: a limit that another run met during the backoff decides which agent goes on."""
    it = run("a", "b")
    it.fail(Detail.NETWORK)
    it.sibling("a", it.now + 600)
    assert it.wait() == 5
    assert (it.launched, it.of(LaunchAttempt)[-1].cause) == (["A", "B"], Cause.FALLBACK)


def test_a_longer_limit_of_a_sibling_prolongs_the_wait() -> None:
    """Alone with its agent, a run goes on waiting, and counts no second retry for it."""
    it = run("a")
    it.fail(Detail.RATE_LIMIT)
    it.sibling("a", it.now + 100)
    assert (it.wait(), it.wait()) == (60, 40)
    assert it.machine.state.retries == 1
    assert it.launched == ["A", "A"]


def test_a_sibling_s_limit_does_not_touch_an_attempt_that_runs() -> None:
    """The attempt may have been let in already; if not, the vendor will tell it."""
    it = run("a", "b").start()
    it.sibling("a", it.now + 600)
    assert it.last == ()
    it.succeed()
    assert it.result.status == "done"


def test_limits_of_strangers_are_not_kept() -> None:
    """The state of a run holds only the cooldowns of its own chain."""
    it = run("a", cooldowns=cooldown("z", START + 50))
    assert it.machine.state.cooldowns.entries == ()


def test_a_run_may_begin_with_a_wait() -> None:
    """RUN-52: with every agent limited no attempt begins, unless a person insists."""
    it = run("a", cooldowns=cooldown("a", START + 50))
    assert (it.launched, it.machine.state.status) == ([], "waiting")
    assert it.log == ["[supervisor] A is free in 50s"]
    assert it.ask(RunControl.RETRY_NOW).accepted
    assert it.of(LaunchAttempt)[-1].cause is Cause.FIRST


def test_without_fallback_a_limit_is_waited_for() -> None:
    """RUN-21: `enable_fallback=False` keeps a run with its agent, even if others are free."""
    it = run("a", "b", policy=RetryPolicy(enable_fallback=False))
    it.fail(Detail.RATE_LIMIT)
    assert (it.wait(), it.launched) == (60, ["A", "A"])
