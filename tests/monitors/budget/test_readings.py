"""Each token counts once; its cost is known, or unknown and never 0."""

from __future__ import annotations

import random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from otpy_monitors import BudgetLedger, Kind
from otpy_monitors.budget.ledger_json import from_plain, to_plain
from tests.monitors.budget.usage import PRICES, used


def spent(ledger: BudgetLedger, account: str = "a", kind: Kind = Kind.TOKENS) -> float | None:
    return ledger.balance(account, kind).spent


def opened(*accounts: str) -> BudgetLedger:
    ledger = BudgetLedger(PRICES)
    for account in accounts or ("a",):
        ledger.open(account)
    return ledger


def test_three_resumes_count_each_token_once() -> None:
    """Scenario 16: the counter of the session goes on from run to run."""
    ledger = opened()
    for total in (100, 250, 250, 420):
        ledger.charge(used("a", "session", total, output=total, cumulative=True))
    assert spent(ledger) == 840


def test_three_resumes_count_each_token_once_over_restarts_of_the_host() -> None:
    """The ledger keeps where the counter stood."""
    ledger = opened()
    for total in (100, 250, 420):
        ledger.charge(used("a", "session", total, cumulative=True))
        ledger = from_plain(to_plain(ledger), PRICES)
    assert spent(ledger) == 420


def test_a_session_counts_once_though_another_agent_goes_on_with_it() -> None:
    """The closed account hands its counter up, and the next owner pays the rest."""
    ledger = BudgetLedger(PRICES)
    ledger.open("site")
    for agent, total in (("a", 100), ("b", 250)):
        ledger.open(agent, "site")
        ledger.charge(used(agent, "session", total, cumulative=True))
        assert spent(ledger, agent) == total - (100 if agent == "b" else 0)
        ledger.close(agent)
    assert spent(ledger, "site") == 250
    ledger.close("site")
    assert ledger.threads == {}


def test_a_session_counter_that_fell_has_begun_anew() -> None:
    """A session's counter falls after a fork or a compaction; the meter of runs treats it alike."""
    ledger = opened()
    for total in (100, 250, 40, 60):
        ledger.charge(used("a", "session", total, cumulative=True))
    assert spent(ledger) == 310


def test_a_session_counter_that_says_nothing_yet_has_not_begun_anew() -> None:
    """An attempt tells its session before the CLI has read the earlier usage."""
    ledger = opened()
    for total in (100, 250, 0, 300):
        ledger.charge(used("a", "session", total, cumulative=True))
    assert spent(ledger) == 300


def test_what_is_found_late_is_no_new_beginning_of_a_session_counter() -> None:
    """A killed CLI may have told more than it has written down."""
    ledger = opened()
    for total, late in ((100, False), (250, False), (200, True), (300, False)):
        ledger.charge(evolve(used("a", "session", total, cumulative=True), late=late))
    assert spent(ledger) == 300


def test_the_last_reading_of_a_run_is_what_it_used() -> None:
    """A reading told twice, late or from the beginning adds nothing; the next run adds its own."""
    ledger = opened()
    for run, total in (("1", 100), ("1", 250), ("1", 100), ("1", 250), ("2", 30)):
        ledger.charge(used("a", run, total))
    assert spent(ledger) == 280


def test_steps_without_a_counter_add_up() -> None:
    """A CLI that counts each step names no counter, and each step is new."""
    ledger = opened()
    for _ in range(3):
        ledger.charge(used("a", "", 100))
    assert spent(ledger) == 300


def test_readings_of_runs_long_over_are_not_kept_for_ever() -> None:
    """An agent that lives for years makes ever more runs; each still counts once."""
    ledger = opened()
    for run in range(1000):
        for total in (1, 2, 2):
            ledger.charge(used("a", f"run {run}", total))
    assert spent(ledger) == 2000
    assert len(ledger.accounts["a"].runs) == 100


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 1000), min_size=1)),
    st.randoms(use_true_random=False),
)
def test_runs_count_once_in_any_order(runs: dict[str, list[int]], order: random.Random) -> None:
    """Readings of several runs, mixed up and repeated: each run counts with its largest."""
    readings = [(run, total) for run, totals in runs.items() for total in totals * 2]
    order.shuffle(readings)
    ledger = opened()
    for run, total in readings:
        ledger.charge(used("a", run, total, output=total // 2))
        if order.random() < 0.2:
            ledger = from_plain(to_plain(ledger), PRICES)
    assert spent(ledger) == sum(max(totals) + max(totals) // 2 for totals in runs.values())


@given(st.lists(st.integers(0, 1000)))
def test_steps_of_a_session_add_up(steps: list[int]) -> None:
    """For any steps, with each reading told twice, the last reading is the usage."""
    ledger, total = opened(), 0
    for step in steps:
        total += step
        for _ in range(2):
            ledger.charge(used("a", "session", total, cumulative=True))
    assert spent(ledger) == total


# --- what it costs -------------------------------------------------------------------------------


def test_tokens_cost_what_the_table_says() -> None:
    """Per million: 2 dollars read, 10 written, 0.5 from the cache."""
    ledger = opened()
    ledger.charge(used("a", tokens=1_000_000, output=500_000, cached=200_000))
    assert spent(ledger, kind=Kind.COST_USD) == 7.1


def test_what_the_cli_says_counts_before_the_table() -> None:
    """The CLI knows discounts and surcharges; the later reading replaces the earlier one."""
    ledger = opened()
    for tokens, cost in ((1_000_000, 1.5), (2_000_000, 2.25)):
        ledger.charge(used("a", tokens=tokens, cost=cost, model="unheard of"))
    assert spent(ledger, kind=Kind.COST_USD) == 2.25
    assert ledger.unpriced_models == {}


def test_tokens_without_a_price_have_no_known_cost() -> None:
    """G-08: tokens are counted, the cost is None and never 0, up to the root."""
    ledger = BudgetLedger(PRICES)
    ledger.open("site")
    ledger.open("a", "site")
    ledger.charge(used("a", "1", 1_000_000))
    ledger.charge(used("a", "2", 300, model="unheard of"))
    for account in ("a", "site"):
        balance = ledger.balance(account, Kind.COST_USD)
        assert (balance.spent, balance.known, balance.unpriced_tokens) == (None, 2.0, 300)
        assert spent(ledger, account) == 1_000_300
    ledger.close("a")
    assert spent(ledger, "site", Kind.COST_USD) is None
    assert ledger.unpriced_models == {"unheard of": False}


def test_a_cost_of_nothing_for_tokens_is_none_that_was_reported() -> None:
    """A CLI that fills in 0 does not know the cost; the table does."""
    ledger = opened()
    ledger.charge(used("a", tokens=1_000_000, cost=0.0))
    assert spent(ledger, kind=Kind.COST_USD) == 2.0
    ledger.charge(used("a", "free", tokens=1, cost=0.0, model="unheard of"))
    assert spent(ledger, kind=Kind.COST_USD) is None


@pytest.mark.parametrize("cost", [5.0, 1.5])
def test_a_cost_reported_late_takes_the_place_of_what_the_table_said(cost: float) -> None:
    """The table prices each request of a run as it is made; the CLI's cost at the end is better."""
    ledger = opened()
    ledger.charge(used("a", tokens=1_000_000))
    ledger.charge(used("a", tokens=2_000_000))
    assert spent(ledger, kind=Kind.COST_USD) == 4.0
    ledger.charge(used("a", tokens=2_000_000, cost=cost))
    assert spent(ledger, kind=Kind.COST_USD) == cost
    ledger.charge(used("a", tokens=1_000_000))  # an old reading
    assert spent(ledger, kind=Kind.COST_USD) == cost


def test_a_cost_reported_late_is_that_of_tokens_without_a_price_too() -> None:
    """The late cost covers earlier tokens that had no price (G-08)."""
    ledger = opened()
    ledger.charge(used("a", tokens=1_000_000, model="unheard of"))
    assert spent(ledger, kind=Kind.COST_USD) is None
    ledger.charge(used("a", tokens=2_000_000, cost=5.0, model="unheard of"))
    assert spent(ledger, kind=Kind.COST_USD) == 5.0
