"""Redeclared limits: the latest declaration holds, and spent amounts stay spent."""

from __future__ import annotations

import pytest

from otpy_monitors import BudgetLedger, Kind, Limits, LimitTooWide, NoAccount, OnExceed, UsageSeen
from otpy_monitors.budget.ledger_json import from_plain, to_plain


def spend(ledger: BudgetLedger, account: str, tokens: int) -> None:
    ledger.charge(UsageSeen(account, 0.0, "", "gpt-5", tokens, 0))


def limit(ledger: BudgetLedger, account: str, kind: Kind = Kind.TOKENS) -> float | None:
    return ledger.balance(account, kind).allocated


@pytest.fixture
def ledger() -> BudgetLedger:
    made = BudgetLedger()
    made.open("w", limits=Limits(tokens=1000))
    made.open("w/a", "w", Limits(tokens=500))
    return made


def test_a_lower_limit_holds_and_may_be_spent_at_once(ledger: BudgetLedger) -> None:
    """Earlier spending counts."""
    spend(ledger, "w/a", 300)
    ledger.redeclare("w/a", Limits(tokens=200))
    assert limit(ledger, "w/a") == 200
    assert ledger.spent_up("w/a") == {Kind.TOKENS: "w/a"}
    ledger.redeclare("w/a", Limits())
    assert limit(ledger, "w/a") is None
    assert ledger.spent_up("w/a") == {}
    assert ledger.balance("w/a", Kind.TOKENS).remaining == 700


def test_a_limit_may_be_declared_where_there_was_none(ledger: BudgetLedger) -> None:
    """A wider limit may be declared too."""
    ledger.redeclare("w/a", Limits(tokens=600, seconds=5))
    assert (limit(ledger, "w/a"), limit(ledger, "w/a", Kind.SECONDS)) == (600, 5)


def test_what_was_granted_stays_as_long_as_the_same_is_declared(ledger: BudgetLedger) -> None:
    """A grant ends with another number, after a restart too."""
    ledger.raise_limit("w/a", Kind.TOKENS, 100)
    again = from_plain(to_plain(ledger))
    again.redeclare("w/a", Limits(tokens=500))
    assert limit(again, "w/a") == 600
    again.redeclare("w/a", Limits(tokens=400))
    assert limit(again, "w/a") == 400
    again.redeclare("w/a", Limits(tokens=500))
    assert limit(again, "w/a") == 500


def test_what_follows_its_end_is_declared_anew_too(ledger: BudgetLedger) -> None:
    """Fresh budgets are as large as the latest declared limit."""
    spend(ledger, "w/a", 300)
    ledger.redeclare("w/a", Limits(tokens=200), OnExceed.parse("restart(fresh=1)"))
    ledger.renew("w/a")
    assert limit(ledger, "w/a") == 500
    ledger.redeclare("w/a", Limits(tokens=200), OnExceed.parse("warn"))
    assert limit(ledger, "w/a") == 500
    spend(ledger, "w/a", 300)
    assert ledger.spent_up("w/a") == {}


def test_a_limit_that_is_too_wide_changes_nothing(ledger: BudgetLedger) -> None:
    """If one limit is too wide, none of them changes; the account must exist."""
    with pytest.raises(LimitTooWide):
        ledger.redeclare("w/a", Limits(tokens=2000, seconds=5), OnExceed.parse("warn"))
    assert (limit(ledger, "w/a"), limit(ledger, "w/a", Kind.SECONDS)) == (500, None)
    assert str(ledger.accounts["w/a"].on_exceed) == "escalate"
    with pytest.raises(NoAccount):
        ledger.redeclare("w/b", Limits())


def test_what_is_set_aside_follows_what_is_declared(ledger: BudgetLedger) -> None:
    """A smaller limit of the child leaves more to its siblings."""
    ledger.delegate("w/c", "w", Limits(tokens=400))
    assert ledger.balance("w", Kind.TOKENS).remaining == 600
    ledger.redeclare("w/c", Limits(tokens=100))
    assert ledger.balance("w", Kind.TOKENS).remaining == 900
    ledger.redeclare("w/c", Limits())
    assert ledger.balance("w", Kind.TOKENS).remaining == 1000
    with pytest.raises(LimitTooWide):
        ledger.redeclare("w/c", Limits(tokens=1001))


def test_nearly_spent_is_told_again_of_a_wider_limit(ledger: BudgetLedger) -> None:
    """It is told again, as after a grant."""
    ledger.note_warned("w/a", Kind.TOKENS)
    ledger.redeclare("w/a", Limits(tokens=600))
    assert not ledger.accounts["w/a"].pots[Kind.TOKENS].warned
