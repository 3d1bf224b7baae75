from __future__ import annotations

import pytest

from otpy import InvalidSpec
from otpy_monitors import (
    AccountExists,
    BudgetLedger,
    Exceeding,
    Kind,
    Limits,
    LimitTooWide,
    NoAccount,
    NoFreshBudget,
    NoLimit,
    OnExceed,
)
from tests.monitors.budget.usage import PRICES, used


@pytest.fixture
def ledger() -> BudgetLedger:
    """A project with 1000 tokens, 10 dollars and an hour."""
    ledger = BudgetLedger(PRICES)
    ledger.open(
        "site", limits=Limits(tokens=1000, cost_usd=10.0, seconds=3600.0, output_bytes=2000)
    )
    return ledger


def numbers(
    ledger: BudgetLedger, account: str, kind: Kind = Kind.TOKENS
) -> tuple[float | None, ...]:
    """Return allocated, spent, delegated, remaining."""
    balance = ledger.balance(account, kind)
    return balance.allocated, balance.spent, balance.delegated, balance.remaining


def test_a_parent_has_spent_what_its_children_have(ledger: BudgetLedger) -> None:
    """Spending travels up to the root, and narrows what every sibling may still spend."""
    ledger.open("site/a", "site", Limits(tokens=800))
    ledger.open("site/a/drone", "site/a")
    ledger.open("site/b", "site")
    ledger.charge(used("site/a/drone", tokens=300))
    ledger.charge(used("site/a", tokens=100))
    assert numbers(ledger, "site/a/drone") == (None, 300, 0, 400)
    assert numbers(ledger, "site/a") == (800, 400, 0, 400)
    assert numbers(ledger, "site") == (1000, 400, 0, 600)
    assert numbers(ledger, "site/b") == (None, 0, 0, 600)


def test_limits_of_siblings_may_be_more_than_there_is_together(ledger: BudgetLedger) -> None:
    """Limits are bounds, not reservations; the rest of the account above bounds each of them."""
    for name in "abc":
        ledger.open(name, "site", Limits(tokens=900))
    ledger.charge(used("a", tokens=700))
    assert numbers(ledger, "b") == (900, 0, 0, 300)


@pytest.mark.parametrize("kind", Kind)
def test_a_limit_may_only_narrow_the_one_above(ledger: BudgetLedger, kind: Kind) -> None:
    """The error names the account, what it got, what is wanted, and whose limit that is."""
    ledger.open("loose", "site")
    with pytest.raises(LimitTooWide) as caught:
        ledger.open("a", "loose", Limits(**{kind.value: 3601.0}))
    wanted = {
        Kind.TOKENS: 1000,
        Kind.COST_USD: 10.0,
        Kind.SECONDS: 3600.0,
        Kind.OUTPUT_BYTES: 2000,
    }[kind]
    error = caught.value
    assert (error.account, error.kind, error.got) == ("a", kind.value, 3601.0)
    assert (error.wanted, error.giver) == (wanted, "site")
    assert f"{kind.value} is 3601, wanted at most {wanted:g}" in str(error)
    assert "a" not in ledger


def test_what_is_delegated_is_set_aside(ledger: BudgetLedger) -> None:
    """The parent and its other children have less from then on; the child spends from its own."""
    ledger.delegate("lead", "site", Limits(tokens=600))
    ledger.open("other", "site")
    assert numbers(ledger, "site") == (1000, 0, 600, 400)
    assert numbers(ledger, "other") == (None, 0, 0, 400)
    ledger.charge(used("lead", tokens=250))
    assert numbers(ledger, "lead") == (600, 250, 0, 350)
    assert numbers(ledger, "site") == (1000, 250, 350, 400)
    ledger.charge(used("other", tokens=390))
    assert numbers(ledger, "lead")[3] == 350


def test_nobody_delegates_what_it_has_not(ledger: BudgetLedger) -> None:
    """It cannot delegate amounts that are spent, set aside, or missing from those above it."""
    ledger.charge(used("site", tokens=100))
    ledger.delegate("one", "site", Limits(tokens=600))
    with pytest.raises(LimitTooWide) as caught:
        ledger.delegate("two", "site", Limits(tokens=301))
    assert (caught.value.got, caught.value.wanted, caught.value.giver) == (301, 300, "site")
    ledger.open("loose", "site", Limits(tokens=900))
    with pytest.raises(LimitTooWide) as caught:
        ledger.delegate("two", "loose", Limits(tokens=301))
    assert (caught.value.wanted, caught.value.giver) == (300, "site")
    ledger.delegate("two", "loose", Limits(tokens=300))
    assert numbers(ledger, "site") == (1000, 100, 900, 0)
    assert numbers(ledger, "loose") == (900, 0, 300, 0)


def test_what_was_overspent_is_missing_from_what_was_set_aside(ledger: BudgetLedger) -> None:
    """Agents stop only at the end of a turn, and no reservation brings back spent amounts."""
    ledger.delegate("lead", "site", Limits(tokens=600))
    ledger.charge(used("site", tokens=450))
    assert numbers(ledger, "site") == (1000, 450, 600, -50)
    assert numbers(ledger, "lead")[3] == 550


def test_a_closed_child_gives_back_what_it_did_not_spend(ledger: BudgetLedger) -> None:
    """Its spending, with all below it, stays with its parent."""
    ledger.delegate("lead", "site", Limits(tokens=600))
    ledger.delegate("drone", "lead", Limits(tokens=200))
    ledger.charge(used("drone", tokens=50))
    ledger.charge(used("lead", tokens=10))
    ledger.close("lead")
    assert numbers(ledger, "site") == (1000, 60, 0, 940)
    assert "lead" not in ledger
    assert "drone" not in ledger
    with pytest.raises(NoAccount):
        ledger.close("lead")


def test_an_operator_raises_a_limit_within_the_one_above(ledger: BudgetLedger) -> None:
    """The operator raises the root first, then the accounts below it."""
    ledger.open("a", "site", Limits(tokens=1000))
    with pytest.raises(LimitTooWide):
        ledger.raise_limit("a", Kind.TOKENS, 1)
    ledger.raise_limit("site", Kind.TOKENS, 500)
    ledger.raise_limit("a", Kind.TOKENS, 500)
    assert numbers(ledger, "a") == (1500, 0, 0, 1500)


def test_a_delegated_limit_is_raised_from_what_remains(ledger: BudgetLedger) -> None:
    """More is set aside; beyond what the parent has left it is refused."""
    ledger.delegate("lead", "site", Limits(tokens=600))
    ledger.charge(used("lead", tokens=700))  # 100 of them from what was not set aside
    with pytest.raises(LimitTooWide) as caught:
        ledger.raise_limit("lead", Kind.TOKENS, 401)
    assert caught.value.wanted == 1000
    ledger.raise_limit("lead", Kind.TOKENS, 300)
    assert numbers(ledger, "lead") == (900, 700, 0, 200)
    assert numbers(ledger, "site") == (1000, 700, 200, 100)


def test_there_is_no_limit_to_raise_where_there_is_none(ledger: BudgetLedger) -> None:
    """An operator's typing error must not look like a grant."""
    ledger.open("a", "site")
    with pytest.raises(NoLimit, match="'a' has no limit of tokens"):
        ledger.raise_limit("a", Kind.TOKENS, 5)
    with pytest.raises(InvalidSpec):
        ledger.raise_limit("site", Kind.TOKENS, -5)


def test_fresh_budgets_are_counted(ledger: BudgetLedger) -> None:
    """C-12: as many as declared, as large as the first, and all spending stays counted."""
    ledger.open("a", "site", Limits(tokens=100), OnExceed.parse("restart(fresh=2)"))
    for round_ in (1, 2):
        ledger.charge(used("a", f"run {round_}", tokens=110))
        assert ledger.spent_up("a") == {Kind.TOKENS: "a"}
        assert ledger.may_renew("a")
        ledger.renew("a")
        assert numbers(ledger, "a")[3] == 100
    assert numbers(ledger, "site")[1] == 220
    assert not ledger.may_renew("a")
    with pytest.raises(NoFreshBudget, match="2 fresh budgets"):
        ledger.renew("a")


def test_there_is_no_fresh_budget_beyond_the_one_above(ledger: BudgetLedger) -> None:
    """A restart must not widen what the project may spend."""
    ledger.open("a", "site", Limits(tokens=600), OnExceed(Exceeding.RESTART, 5))
    ledger.charge(used("a", tokens=600))
    assert not ledger.may_renew("a")
    with pytest.raises(LimitTooWide):
        ledger.renew("a")


def test_a_fresh_budget_takes_nothing_that_was_granted(ledger: BudgetLedger) -> None:
    """A limit that an operator has raised stays at least as large."""
    ledger.open("a", "site", Limits(tokens=100, seconds=10), OnExceed(Exceeding.RESTART, 1))
    ledger.raise_limit("a", Kind.TOKENS, 500)
    ledger.charge_seconds("a", 11)
    ledger.renew("a")
    assert numbers(ledger, "a")[0] == 600
    assert numbers(ledger, "a", Kind.SECONDS) == (21, 11, 0, 10)


def test_who_is_spent_up_is_told_with_the_account_that_is_spent(ledger: BudgetLedger) -> None:
    """Its own account if that is spent; otherwise the spent one above, up to the root."""
    ledger.open("a", "site", Limits(tokens=500))
    ledger.open("b", "site")
    assert ledger.spent_up("a") == {}
    ledger.charge(used("a", tokens=500))
    assert ledger.spent_up("a") == {Kind.TOKENS: "a"}
    assert ledger.spent_up("b") == {}
    ledger.charge_seconds("b", 3600)
    assert ledger.spent_up("b") == {Kind.SECONDS: "site"}
    assert ledger.spent_up("a") == {Kind.TOKENS: "a", Kind.SECONDS: "site"}


def test_a_budget_that_only_warns_stops_nobody(ledger: BudgetLedger) -> None:
    """The budgets above it still stop their agents."""
    ledger.open("a", "site", Limits(tokens=5), OnExceed(Exceeding.WARN))
    ledger.charge(used("a", tokens=500))
    assert ledger.spent_up("a") == {}
    ledger.charge(used("a", tokens=1000))
    assert ledger.spent_up("a") == {Kind.TOKENS: "site"}


def test_names_are_unique_and_parents_exist(ledger: BudgetLedger) -> None:
    """A second account of one name would hide the first."""
    with pytest.raises(AccountExists):
        ledger.open("site")
    with pytest.raises(NoAccount):
        ledger.open("a", "nobody")
    with pytest.raises(NoAccount):
        ledger.charge(used("nobody", tokens=1))
    with pytest.raises(NoAccount):
        ledger.delegate("a", "", Limits(tokens=1))


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_limit_is_a_number_one_can_spend(bad: float) -> None:
    """A limit that cannot be spent fails where it is written."""
    with pytest.raises(InvalidSpec, match="limit of cost_usd"):
        Limits(cost_usd=bad)


@pytest.mark.parametrize("text", ["escalate", "restart(fresh=3)", "warn"])
def test_what_follows_is_written_as_it_is_read(text: str) -> None:
    """The text can stand in a work list and in a store."""
    assert str(OnExceed.parse(text)) == text


@pytest.mark.parametrize("text", ["", "restart", "restart(fresh=0)", "restart(2)", "kill"])
def test_what_follows_is_one_of_three(text: str) -> None:
    """Anything else is refused where it is written."""
    with pytest.raises(InvalidSpec):
        OnExceed.parse(text)


def test_a_balance_reads_as_a_line(ledger: BudgetLedger) -> None:
    """A balance is shown on a status page, and in the prompt of an agent."""
    ledger.delegate("lead", "site", Limits(tokens=600))
    ledger.charge(used("lead", tokens=250))
    line = str(ledger.balance("site", Kind.TOKENS))
    assert line == "site: 250 of 1000 tokens spent, 350 delegated, 400 left"
    ledger.charge(used("site", tokens=5, model="unheard of"))
    assert str(ledger.balance("site", Kind.COST_USD)).startswith("site: 0.0005 or more of 10 ")
