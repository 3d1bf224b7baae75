"""The budget daemon reports nearly spent and spent budgets in time, and never steers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy.testing import MockClock
from otpy_monitors import (
    BudgetNearlySpent,
    BudgetSpent,
    Kind,
    Limits,
    OnExceed,
    PriceUnknown,
    watch_budgets,
)
from otpy_monitors.budget.ledger_json import from_plain, to_plain
from tests.examples import examples
from tests.monitors.budget.office import Office
from tests.monitors.budget.usage import PRICES
from tests.monitors.shown import running


@pytest.fixture
async def office(clock: MockClock) -> Office:
    """A project of 1000 tokens and 100 seconds."""
    office = Office()
    office.ledger.open("site", limits=Limits(tokens=1000, seconds=100))
    return office


async def turns() -> None:
    """Let the daemon handle its news."""
    for _ in range(5):
        await asyncio.sleep(0)


def spent(
    account: str,
    number: float,
    limit: float,
    *stopped: str,
    kind: str = "tokens",
    giver: str = "",
    then: str = "escalate",
) -> BudgetSpent:
    return BudgetSpent(account, kind, number, limit, giver, then, stopped)


async def test_it_warns_once_at_nine_tenths_and_reports_the_end_once(office: Office) -> None:
    """After the end, no further usage is reported (TREE-44)."""
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("site", 899)
        await turns()
        assert office.found == []
        for tokens in (1, 50, 49):
            office.use("site", tokens)
            await turns()
        warning = BudgetNearlySpent("site", "tokens", 900, 1000, "")
        assert office.found == [warning]
        for tokens in (1, 500):
            office.use("site", tokens)
            await turns()
        assert office.found == [warning, spent("site", 1000, 1000, "site")]
    lines = [str(finding) for finding in office.found]
    assert lines[0] == "budget of 'site' nearly spent: 900 of 1000 tokens"
    assert lines[1] == "budget of 'site' spent: 1000 of 1000 tokens; escalate"


async def test_what_is_overrun_at_one_go_is_not_warned_of(office: Office) -> None:
    """A warning after the end would be noise, even after a small grant."""
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("site", 2000)
        await turns()
        office.ledger.raise_limit("site", Kind.TOKENS, 1001)
        await turns()
        assert office.found == [spent("site", 2000, 1000, "site")]
        office.use("site", 1)
        await turns()
    assert office.found[1:] == [spent("site", 2001, 2001, "site")]


async def test_the_end_of_a_parent_names_all_who_live_on_it(office: Office) -> None:
    """Scenario 15: a parent's budget includes its children; its creator decides what follows."""
    office.ledger.open("lead", "site", Limits(tokens=500))
    office.ledger.delegate("own", "site", Limits(tokens=200))
    office.ledger.open("own/drone", "own")
    for name in ("a", "b"):
        office.ledger.open(name, "lead")
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("a", 300)
        office.use("b", 199)
        await turns()
        assert office.found == [BudgetNearlySpent("lead", "tokens", 499, 500, "site")]
        office.use("b", 1)
        await turns()
        stopped = ("lead", "a", "b")
        assert office.found[1:] == [spent("lead", 500, 500, *stopped, giver="site")]
        office.use("site", 300)
        await turns()
        # The rest was set aside for `own`, which goes on with its drone.
        assert office.found[2:] == [spent("site", 800, 1000, "site", *stopped)]
        assert office.ledger.spent_up("own/drone") == {}


async def test_a_limit_that_is_raised_is_watched_anew(office: Office) -> None:
    """The operator grants more, the work goes on, and the next end is reported like the first."""
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("site", 1000)
        await turns()
        office.ledger.raise_limit("site", Kind.TOKENS, 1000)
        assert office.ledger.spent_up("site") == {}
        for tokens in (799, 1, 200):
            office.use("site", tokens)
            await turns()
    assert office.found == [
        spent("site", 1000, 1000, "site"),
        BudgetNearlySpent("site", "tokens", 1800, 2000, ""),
        spent("site", 2000, 2000, "site"),
    ]


async def test_who_begins_to_live_on_what_is_spent_is_told_of(office: Office) -> None:
    """An agent that starts on a spent budget is reported; otherwise it would never be stopped."""
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("site", 1000)
        await turns()
        office.found.clear()
        office.appear("late", "site")
        office.use("late", 1)
        office.use("late", 1)
        await turns()
        assert office.found == [spent("site", 1002, 1000, "site", "late")]


async def test_a_fresh_budget_is_offered_as_often_as_there_is_one(office: Office) -> None:
    """C-12: it restarts twice, and then escalates."""
    office.ledger.open("a", "site", Limits(tokens=100), OnExceed.parse("restart(fresh=2)"))
    async with running(watch_budgets(office.bookkeeper, office.report)):
        for then in ("restart", "restart", "escalate"):
            office.use("a", 100)
            await turns()
            (finding,) = [one for one in office.found if isinstance(one, BudgetSpent)]
            assert finding.then == then
            office.found.clear()
            if then == "restart":
                office.ledger.renew("a")  # the next 100 are used in the following round
    assert not office.ledger.may_renew("a")


async def test_a_budget_that_only_warns_names_nobody_to_stop(office: Office) -> None:
    """The end is told once, for any number of agents that share the budget."""
    office.ledger.open("a", "site", Limits(tokens=100), OnExceed.parse("warn"))
    async with running(watch_budgets(office.bookkeeper, office.report)):
        for name in ("a", "b", "c"):
            office.appear(name, "a")
            office.use(name, 100)
            await turns()
    assert office.found == [spent("a", 100, 100, giver="site", then="warn")]


async def test_an_account_that_only_hands_on_is_not_reported(office: Office) -> None:
    """A project with its whole budget set aside draws on nothing; its agents are reported."""
    office.ledger.delegate("a", "site", Limits(tokens=1000))
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("a", 1000)
        await turns()
        assert office.found == [spent("a", 1000, 1000, "a", giver="site")]
        office.use("a", 1)  # beyond what was set aside
        await turns()
        assert office.found[1:] == [spent("site", 1001, 1000, "site", "a")]


async def test_a_model_without_a_price_is_told_once(office: Office) -> None:
    """It is told once, over restarts of the daemon and of the host too."""
    for _ in range(2):
        async with running(watch_budgets(office.bookkeeper, office.report)):
            for model in ("new", "newer", "new"):
                office.use("site", 1, model=model)
                await turns()
    assert office.found == [PriceUnknown("new"), PriceUnknown("newer")]
    assert "no price is known of model 'new'" in str(office.found[0])
    again = Office(from_plain(to_plain(office.ledger), PRICES))
    async with running(watch_budgets(again.bookkeeper, again.report)):
        again.use("site", 1, model="new")
        await turns()
    assert again.found == []


# --- time ----------------------------------------------------------------------------------------


async def test_time_is_told_to_the_moment_by_one_timer(office: Office, clock: MockClock) -> None:
    """It tells nine tenths after 90 s and the end after 100 s, and nothing in between."""
    office.appear("a", "site")
    async with running(watch_budgets(office.bookkeeper, office.report)):
        await clock.advance(1000)
    assert office.times == [90.0, 100.0]
    assert [type(finding) for finding in office.found] == [BudgetNearlySpent, BudgetSpent]
    assert office.found[1] == spent("site", 100, 100, "site", "a", kind="seconds")


async def test_agents_side_by_side_end_a_budget_of_time_sooner(
    office: Office, clock: MockClock
) -> None:
    """The timer is reset when an agent comes, waits or goes."""
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.appear("a", "site")
        await clock.advance(20)
        office.appear("b", "site")
        await clock.advance(20)  # 60 are spent
        office.wait("a")
        await clock.advance(10)  # 70
        office.wait_no_more("a")
        await clock.advance(10)  # 90
        assert office.times == [60.0]
        office.go("b")
        await clock.advance(50)
    assert office.times == [60.0, 70.0]


async def test_time_that_was_set_aside_runs_out_by_itself(office: Office, clock: MockClock) -> None:
    """The time above does not run until the set-aside time is used up."""
    office.ledger.delegate("a", "site", Limits(seconds=40))
    office.appear("a")
    async with running(watch_budgets(office.bookkeeper, office.report)):
        await clock.advance(99.5)
        times = dict(zip(map(str, office.found), office.times, strict=True))
    assert times == {
        "budget of 'a' nearly spent: 36 of 40 seconds": 36.0,
        "budget of 'a' spent: 40 of 40 seconds; escalate": 40.0,
        "budget of 'site' nearly spent: 94 of 100 seconds": 94.0,
    }


async def test_a_budget_of_no_time_ends_at_once(office: Office, clock: MockClock) -> None:
    """The first moment exceeds the budget, and the timer does not spin."""
    office.ledger.open("a", "site", Limits(seconds=0))
    office.appear("a")
    async with running(watch_budgets(office.bookkeeper, office.report)):
        await clock.advance(1)
    assert [type(finding) for finding in office.found] == [BudgetSpent]
    assert office.times[0] <= 0.002


async def test_nothing_happens_while_nothing_is_told(office: Office, clock: MockClock) -> None:
    """No polling: a day without news takes one step of the clock."""
    office.appear("a")  # without a limit
    async with running(watch_budgets(office.bookkeeper, office.report)):
        await clock.advance(86_400)
        assert await clock.step() is None
    assert office.found == []


# --- killed --------------------------------------------------------------------------------------


async def test_killed_it_comes_back_with_right_numbers(office: Office, clock: MockClock) -> None:
    """Scenario 18: usage that is told while the daemon is dead is still charged."""
    office.appear("a", "site")
    async with running(watch_budgets(office.bookkeeper, office.report)):
        office.use("a", 500, run="1")
        await clock.advance(10)
    office.use("a", 900, run="1")
    office.go("a")
    office.appear("b", "site")
    office.use("b", 50, run="2")
    await clock.advance(85)
    async with running(watch_budgets(office.bookkeeper, office.report)):
        await clock.advance(1)
        assert office.found == [
            BudgetNearlySpent("site", "tokens", 950, 1000, ""),
            BudgetNearlySpent("site", "seconds", 95, 100, ""),
        ]
        await clock.advance(10)
    assert office.times == [95.0, 95.0, 100.0]


async def test_what_is_spent_is_told_again_by_the_next_life(office: Office) -> None:
    """Each life tells a spent budget again, in case its report was lost; a warning comes once."""
    office.use("site", 950)
    for _ in range(2):
        async with running(watch_budgets(office.bookkeeper, office.report)):
            await turns()
    assert office.found == [BudgetNearlySpent("site", "tokens", 950, 1000, "")]
    office.use("site", 50)
    for _ in range(2):
        async with running(watch_budgets(office.bookkeeper, office.report)):
            await turns()
    assert office.found[1:] == [spent("site", 1000, 1000, "site")] * 2


@settings(max_examples=examples(40))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["use", "appear", "go", "wait", "work", "raise", "kill", "pass"]),
            st.sampled_from(["a", "b", "c"]),
            st.integers(1, 120),
        ),
        max_size=40,
    ),
)
def test_kills_change_nothing_that_is_told_but_repeat_it(
    story: list[tuple[str, str, int]],
) -> None:
    """With and without kills of the daemon, one story gives the same ledger and findings."""

    def play(*, kills: bool) -> tuple[object, list[tuple[str, ...]]]:
        clock = MockClock()
        return clock.run(_told(story, clock, kills=kills))

    assert play(kills=True) == play(kills=False)


async def _told(
    story: list[tuple[str, str, int]], clock: MockClock, *, kills: bool
) -> tuple[object, list[tuple[str, ...]]]:
    office = Office()
    office.ledger.open("site", limits=Limits(tokens=500, seconds=600))
    office.ledger.open("a", "site", Limits(tokens=300))
    office.ledger.delegate("b", "site", Limits(tokens=100, seconds=100))

    def begin() -> asyncio.Task[None]:
        return asyncio.create_task(watch_budgets(office.bookkeeper, office.report))

    daemon = begin()
    for deed, agent, number in story:
        match deed:
            case "use":
                office.use(agent, number)
            case "appear":
                office.appear(agent, "site")
            case "go":
                office.go(agent)
            case "wait":
                office.wait(agent)
            case "work":
                office.wait_no_more(agent)
            case "raise":
                office.ledger.raise_limit("site", Kind.TOKENS, number)
            case "kill":
                if kills:
                    daemon.cancel()
                    await asyncio.wait({daemon})
                    daemon = begin()
            case _:
                await clock.advance(number)
        await turns()
    daemon.cancel()
    await asyncio.wait({daemon})
    office.bookkeeper.settle()
    # A repeated finding has the numbers of its own moment.
    told = [
        (type(one).__name__, one.account, one.kind, str(one.limit))
        for one in office.found
        if isinstance(one, BudgetNearlySpent | BudgetSpent)
    ]
    return to_plain(office.ledger), list(dict.fromkeys(told))
