"""The ledger outlives its host: it is saved soon, not too often, and whole."""

from __future__ import annotations

import pytest

import otpy
from otpy import Backoff, ChildSpec, InvalidSpec, Killed, SupervisorSpec
from otpy.testing import MockClock
from otpy_monitors import (
    BudgetNearlySpent,
    BudgetSpent,
    Feed,
    Kind,
    Limits,
    keep_ledger,
    load_ledger,
    monitor_supervisor,
    watch_budgets,
)
from otpy_monitors.budget.ledger_json import to_plain
from tests.monitors.budget.office import Memory, Office
from tests.monitors.budget.usage import PRICES
from tests.monitors.shown import running


@pytest.fixture
async def office(clock: MockClock) -> Office:
    """A project of 1000 tokens."""
    office = Office()
    office.ledger.open("site", limits=Limits(tokens=1000))
    return office


async def saved(memory: Memory) -> object:
    return await memory.load()


async def test_a_change_is_saved_at_once_and_many_are_saved_as_one(
    office: Office, clock: MockClock
) -> None:
    """After the first, saves come at most every five seconds, and always with the latest state."""
    memory = Memory()
    async with running(keep_ledger(office.bookkeeper, memory)):
        await clock.advance(1)
        for _ in range(60):
            office.use("site", 1)
            await clock.advance(0.1)
        await clock.advance(1000)
        assert [at for at, _ in memory.saved] == [0.0, 5.0, 10.0]
        assert await saved(memory) == to_plain(office.ledger)
        office.use("site", 1)
        await clock.advance(0)
        assert memory.saved[-1][0] == clock.now


async def test_time_alone_is_saved_once_a_minute(office: Office, clock: MockClock) -> None:
    """A host that is killed loses a minute of an agent's time and not an hour."""
    memory = Memory()
    office.appear("a", "site")
    async with running(keep_ledger(office.bookkeeper, memory)):
        await clock.advance(200)
        ledger = await load_ledger(memory, PRICES)
        assert 130 <= (ledger.balance("a", Kind.SECONDS).spent or 0) <= 200
        assert len(memory.saved) < 6
        office.go("a")
        await clock.advance(3600)
        assert len(memory.saved) < 8


async def test_the_end_saves_what_was_not_saved(office: Office, clock: MockClock) -> None:
    """A host that is stopped loses nothing, also if it is in the middle of a save."""
    for moment in (0.0, 0.5, 2.0, 4.0):
        memory = Memory(takes=1.0)
        async with running(keep_ledger(office.bookkeeper, memory)):
            await clock.advance(moment)
            office.use("site", 10)
        assert await saved(memory) == to_plain(office.ledger)


async def test_a_store_that_fails_loses_nothing(office: Office, clock: MockClock) -> None:
    """The keeper crashes and is restarted; the ledger lives outside the keeper."""
    memory = Memory()
    memory.error = OSError("disk full")
    keeper = ChildSpec(
        "LedgerKeeper",
        keep_ledger,
        (office.bookkeeper, memory),
        backoff=Backoff.exponential(1.0),
    )
    async with otpy.start(SupervisorSpec("app", [keeper]), hooks=()) as root:
        office.use("site", 10)
        await clock.advance(1.5)
        memory.error = None
        await clock.advance(10)
        assert root.child("LedgerKeeper").incarnation > 1
        assert await saved(memory) == to_plain(office.ledger)


async def test_a_host_that_is_killed_goes_on_where_it_was_saved(
    office: Office, clock: MockClock
) -> None:
    """Readings that continue, or are told again, make up for the unsaved part."""
    memory = Memory()
    office.ledger.open("a", "site", Limits(tokens=500))
    async with running(keep_ledger(office.bookkeeper, memory)):
        office.use("a", 200, run="run 1")
        await clock.advance(1)
        before = list(memory.saved)
        office.use("a", 300, run="run 1")  # lost with the host
    memory.saved = before
    again = Office(await load_ledger(memory, PRICES))
    assert again.spent("a") == 200
    again.appear("a", "site")
    for tokens in (200, 300, 350):  # the run is heard again from its first line
        again.use("a", tokens, run="run 1")
    assert again.spent("site") == 350
    assert again.ledger.balance("a", Kind.TOKENS).remaining == 150


async def test_agents_that_do_nothing_cost_a_save_a_minute(
    office: Office, clock: MockClock
) -> None:
    """In an hour only the time that has passed is saved, once a minute."""
    memory = Memory()
    for number in range(50):
        office.appear(f"site/{number}", "site")
    daemon = watch_budgets(office.bookkeeper, office.report)
    async with running(daemon), running(keep_ledger(office.bookkeeper, memory)):
        await clock.advance(3600)
    assert 50 <= len(memory.saved) <= 62
    assert office.found == []
    assert office.ledger.balance("site", Kind.SECONDS).spent == 180_000


# --- in the tree ---------------------------------------------------------------------------------


async def test_the_branch_of_monitors_holds_both(office: Office, clock: MockClock) -> None:
    """Scenarios 15 and 18: in the tree, both findings are told and saved despite kills."""
    memory = Memory()
    monitors = monitor_supervisor(
        office.feed,
        office.report,
        chores={},
        bookkeeper=office.bookkeeper,
        ledger_store=memory,
    )
    ids = [child.id for child in monitors.children]
    assert ids[1:3] == ["BudgetMonitor", "LedgerKeeper"]
    async with otpy.start(SupervisorSpec("app", [monitors]), hooks=()) as root:
        for tokens, daemon in ((500, "BudgetMonitor"), (900, "LedgerKeeper"), (1000, "")):
            office.use("site", tokens, run="1")
            if daemon:
                victim = root.whereis(f"app/MonitorSupervisor/{daemon}")
                victim.kill()
                assert await victim.wait() == Killed()
            await clock.advance(10)
        assert root.child("MonitorSupervisor").incarnation == 1
    assert [type(finding) for finding in office.found] == [BudgetNearlySpent, BudgetSpent]
    assert await saved(memory) == to_plain(office.ledger)


def test_a_store_without_an_accounting_is_refused() -> None:
    """Nothing would ever be saved in it."""
    with pytest.raises(InvalidSpec, match="bookkeeper is None"):
        monitor_supervisor(Feed(), print, chores={}, ledger_store=Memory())
