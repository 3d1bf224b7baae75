"""An agent's usage is charged at the moment the agent tells it, with or without a monitor."""

from __future__ import annotations

import pytest

from otpy.testing import MockClock
from otpy_monitors import Bookkeeper, BudgetLedger, Kind, Limits
from otpy_monitors.activity import OutputSeen, Progressed
from tests.monitors.budget.office import Office
from tests.monitors.budget.usage import PRICES


@pytest.fixture
async def office(clock: MockClock) -> Office:
    """An office in virtual time."""
    return Office()


async def test_usage_is_charged_to_the_agent_and_those_above(office: Office) -> None:
    """An agent without an account gets one below its card's parent, so that nothing is lost."""
    office.ledger.open("site", limits=Limits(tokens=100))
    office.appear("site/a", "site")
    office.appear("b", "other")
    office.use("site/a", 30)
    office.use("b", 5)
    office.use("nobody", 7)
    assert [office.spent(name) for name in ("site", "site/a", "other", "b", "nobody")] == [
        *(30, 30, 5, 5),
        7,
    ]


async def test_output_is_charged_to_the_agent_and_those_above(office: Office) -> None:
    """Each byte is charged once, to any agent, even if it is read after the life is over."""
    office.ledger.open("site", limits=Limits(output_bytes=100))
    office.appear("site/a", "site")
    for agent, size in (("site/a", 30), ("nobody", 7)):
        office.feed.tell(OutputSeen(agent, 0.0, size))
    office.go("site/a")
    office.feed.tell(OutputSeen("site/a", 1.0, 5))
    names = ("site", "site/a", "nobody")
    assert [office.spent(name, Kind.OUTPUT_BYTES) for name in names] == [35, 35, 7]
    assert office.ledger.balance("site/a", Kind.OUTPUT_BYTES).remaining == 65


async def test_an_account_that_is_open_keeps_its_limits(office: Office) -> None:
    """The next life of an agent goes on with the rest that the last one left."""
    office.ledger.open("site")
    office.ledger.open("a", "site", Limits(tokens=100))
    for _ in range(2):
        office.appear("a", "elsewhere")
        office.use("a", 30)
        office.go("a")
    assert office.ledger.balance("a", Kind.TOKENS).remaining == 40
    assert office.spent("site") == 60
    assert "elsewhere" not in office.ledger


async def test_time_runs_while_an_agent_is_there(office: Office, clock: MockClock) -> None:
    """Time runs from appearance to end; two at once use up the time above them twice as fast."""
    office.ledger.open("site")
    office.appear("a", "site")
    await clock.advance(10)
    office.appear("b", "site")
    await clock.advance(5)
    assert office.spent("site", Kind.SECONDS) == 20
    office.go("a")
    await clock.advance(100)
    office.go("b")
    await clock.advance(1000)
    names = ("site", "a", "b")
    assert [office.spent(name, Kind.SECONDS) for name in names] == [120, 15, 105]


async def test_a_wait_takes_no_time(office: Office, clock: MockClock) -> None:
    """A paused agent, for example without a budget, does not use up its time."""
    office.appear("a")
    await clock.advance(10)
    office.wait("a")
    office.wait("a")
    await clock.advance(36_000)
    office.wait_no_more("a")
    await clock.advance(5)
    office.wait("a")
    await clock.advance(50)
    office.feed.tell(Progressed("a", office.now, "message"))
    await clock.advance(7)
    office.wait("a")
    office.go("a")
    office.wait_no_more("a")
    await clock.advance(50)
    assert office.spent("a", Kind.SECONDS) == 22


async def test_a_life_that_nobody_ended_ends_with_the_next(
    office: Office, clock: MockClock
) -> None:
    """The killed owner of a life tells no end: no time is lost, and none counts twice."""
    office.appear("a")
    await clock.advance(10)
    office.appear("a")
    await clock.advance(5)
    office.wait("a")
    office.appear("a")
    await clock.advance(1)
    office.go("a")
    office.go("a")
    assert office.spent("a", Kind.SECONDS) == 16


async def test_agents_that_were_there_before_are_charged_from_now_on(
    office: Office, clock: MockClock
) -> None:
    """The feed knows the agents, and which of them wait."""
    office.appear("a", "site")
    office.appear("b", "site")
    office.wait("b")
    await clock.advance(10)
    late = Bookkeeper(office.feed, BudgetLedger(PRICES))
    await clock.advance(5)
    office.wait_no_more("b")
    await clock.advance(1)
    late.settle()
    seconds = [late.ledger.balance(name, Kind.SECONDS).spent for name in ("site", "a", "b")]
    assert seconds == [7, 6, 1]


async def test_time_without_a_limit_may_be_charged_later(office: Office, clock: MockClock) -> None:
    """A search for spent budgets settles only agents with a limit, or with one above them."""
    office.ledger.open("site", limits=Limits(seconds=60))
    for agent, parent in (("limited", "site"), ("free", "")):
        office.appear(agent, parent)
    await clock.advance(5)

    def charged() -> list[float | None]:
        balances = (office.ledger.balance(one, Kind.SECONDS) for one in ("site", "limited", "free"))
        return [balance.spent for balance in balances]

    office.bookkeeper.settle(limited=True)
    assert charged() == [5, 5, 0]
    office.bookkeeper.settle()
    assert charged() == [5, 5, 5]


async def test_closed_it_charges_what_has_passed_and_no_more(
    office: Office, clock: MockClock
) -> None:
    """The host closes it at its end."""
    office.appear("a")
    await clock.advance(3)
    office.bookkeeper.close()
    office.bookkeeper.close()
    await clock.advance(3)
    office.use("a", 5)
    assert office.spent("a", Kind.SECONDS) == 3
    assert office.spent("a") == 0
    assert office.bookkeeper.running == 0


async def test_an_account_that_was_closed_first_is_charged_no_more(
    office: Office, clock: MockClock
) -> None:
    """The owner closed too early, which breaks nothing."""
    office.appear("a")
    office.ledger.close("a")
    await clock.advance(3)
    office.bookkeeper.settle()
    assert office.bookkeeper.next_end() is None
    office.go("a")
    assert "a" not in office.ledger
