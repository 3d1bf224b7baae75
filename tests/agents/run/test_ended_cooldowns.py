"""A cooldown that ends before its time, and one that is too long for a wait."""

from __future__ import annotations

import json

import pytest

from otpy_agents.attempt.failures import Detail
from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.decide.protocol import (
    CooldownsSeen,
    EndCooldown,
    Resumed,
    RunControl,
    SetCooldown,
    TellWait,
)
from otpy_agents.run.decide.result import Ending
from otpy_agents.run.decide.state import RunState
from otpy_agents.run.decide.time_text import moment, span
from tests.agents.run.driver import START, cooldown, run

HOUR, DAY = 3600.0, 86400.0


def test_a_success_ends_the_cooldown_of_its_account() -> None:
    """C-15: an agent that succeeds in spite of its cooldown proves it over, for all runs."""
    it = run("a", cooldowns=cooldown("a", START + HOUR))
    it.ask(RunControl.RETRY_NOW)
    it.succeed()
    assert it.of(EndCooldown) == [EndCooldown(VendorAccount("a"), START)]
    free = run("a")
    free.succeed()
    assert free.of(EndCooldown) == []


def test_a_success_proves_nothing_about_what_was_told_meanwhile() -> None:
    """Its last request may be older: ten runs at work must not lift the limit of one."""
    it = run("a")
    it.start()
    it.send(
        CooldownsSeen(CooldownTable((Cooldown(VendorAccount("a"), START + HOUR, START + 5),))), 10
    )
    it.succeed()
    assert it.of(EndCooldown) == []


def test_who_waits_goes_on_when_the_cooldown_is_ended() -> None:
    """The run goes on at once, before the announced moment."""
    it = run("a", cooldowns=cooldown("a", START + HOUR))
    it.send(CooldownsSeen(cooldown("a", START + HOUR)), 5)
    assert it.launched == []
    it.send(CooldownsSeen(CooldownTable()), 5)
    assert (len(it.of(TellWait)), it.wait()) == (1, 0.0)
    assert (it.launched, it.now) == (["A"], START + 10)


def test_who_is_cancelled_when_the_cooldown_is_ended_starts_nothing() -> None:
    """An attempt would begin only to be stopped."""
    it = run("a", cooldowns=cooldown("a", START + HOUR))
    it.send(CooldownsSeen(CooldownTable()), 5)
    it.ask(RunControl.CANCEL)
    assert (it.launched, it.result.ending) == ([], Ending.CANCELLED)


def test_the_delay_of_a_retry_is_not_cut_by_the_end_of_a_cooldown() -> None:
    """Only waits for an account end with its cooldown."""
    it = run("a")
    it.fail(Detail.NETWORK)
    it.send(CooldownsSeen(CooldownTable()), 1)
    assert it.launched == ["A"]


def test_a_cooldown_that_was_ended_is_not_written_again_by_the_next_host() -> None:
    """A missing cooldown was lost with the dead host; one that was ended leaves its moment."""
    for shared, again in ((), 1), ((Cooldown(VendorAccount("a"), START + 9, START + 9),), 0):
        it = run("a")
        it.fail(Detail.QUOTA, retry_after=HOUR)
        it.effects.clear()
        it.send(Resumed(CooldownTable(shared)), 10)
        assert len(it.of(SetCooldown)) == again
        assert (it.wait() == 0.0) == (not again)


def test_a_wait_that_is_too_long_ends_the_run() -> None:
    """The run ends with quota and the moment, before any start; the default limit is 24 h."""
    told = Cooldown(VendorAccount("a"), START + 30 * DAY, START, "quota, told by run 4e14")
    it = run("a", cooldowns=CooldownTable((told,)))
    assert (it.launched, it.result.ending, it.result.exit_code) == ([], Ending.QUOTA, 1)
    assert it.result.error == (
        f"A rests until {moment(told.until, 0)} (quota, told by run 4e14),"
        " which is too long to wait"
    )
    limited = run("a")
    limited.fail(Detail.QUOTA, "You have hit your usage limit", retry_after=30 * DAY)
    assert limited.result.ending is Ending.QUOTA
    assert (limited.result.error or "").endswith(": You have hit your usage limit")
    patient = run("a", policy=RetryPolicy(max_wait=None), cooldowns=CooldownTable((told,)))
    assert patient.delays == [30 * DAY]


def test_another_agent_is_asked_instead_of_a_wait_that_is_too_long() -> None:
    """The limit is for waits only: an agent that is free is asked as before."""
    it = run("a", "b", cooldowns=cooldown("a", START + 30 * DAY))
    assert it.launched == ["B"]


@pytest.mark.parametrize("detail", [Detail.AUTH, Detail.BILLING])
def test_an_account_rests_where_that_is_wanted(detail: Detail) -> None:
    """Its login or bill failed: all its runs wait, and the next of the chain is asked."""
    it = run("a", "b", policy=RetryPolicy(account_rest=300))
    it.fail(detail)
    assert it.of(SetCooldown)[0].cooldown == Cooldown(
        VendorAccount("a"), START + 300, START, detail
    )
    assert it.launched == ["A", "B"]
    plain = run("a")
    plain.fail(detail)
    assert (plain.of(SetCooldown), plain.result.ending) == ([], Ending.FATAL)


def test_a_state_of_the_first_version_is_read() -> None:
    """Missing fields get the values that were meant then."""
    it = run("a", cooldowns=cooldown("a", START + HOUR))
    fields = json.loads(it.machine.state.to_json())
    fields["version"] = 1
    del fields["policy"]["max_wait"], fields["policy"]["account_rest"]
    for entry in fields["cooldowns"]["entries"]:
        del entry["told"], entry["reason"]
    assert RunState.from_json(json.dumps(fields)) == it.machine.state


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (10756.8, "2 h 59 min"),
        (270, "4 min 30 s"),
        (2591990.5, "30 d"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7199.9, "2 h"),
    ],
)
def test_spans_are_rounded_to_the_smaller_of_two_units(seconds: float, text: str) -> None:
    """A wait of almost three hours is not told as one of two."""
    assert span(seconds) == text


def test_a_long_wait_is_said_with_its_moment_and_who_said_so() -> None:
    """A person need not compute the moment."""
    told = Cooldown(VendorAccount("a"), START + 10756.8, START, "quota, told by run 4e14")
    it = run("a", cooldowns=CooldownTable((told,)))
    until = moment(told.until, START)
    assert it.log == [f"[supervisor] A is free at {until} (in 2 h 59 min; quota, told by run 4e14)"]
