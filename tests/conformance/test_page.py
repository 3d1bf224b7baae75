"""The page that shows which rules are proven."""

from __future__ import annotations

from tests.conformance.page import EXPLANATIONS, TARGET, page, statuses
from tests.conformance.record import BOOKS, ELIXIR_BOOKS
from tests.conformance.rules import DIFFERENT, NOT_APPLICABLE, all_rules


def test_the_page_is_up_to_date() -> None:
    """The command to write it again is: python -m tests.conformance.page."""
    assert TARGET.read_text(encoding="utf-8") == page()


def test_cases_name_rules_that_exist() -> None:
    """No case claims to prove an unknown rule."""
    known = set(all_rules())
    named = {rule for cases in BOOKS.values() for case in cases for rule in case.rules}
    named |= {rule for cases in ELIXIR_BOOKS.values() for case in cases for rule in case.rules}
    assert named <= known


def test_every_rule_is_dealt_with() -> None:
    """Each is proven, departed from with a reason, or without a meaning; none is open."""
    assert [rule for rule, status in statuses().items() if status == "open"] == []


def test_what_has_no_meaning_is_not_proven() -> None:
    """Nor is it departed from: one of the two statements would be wrong."""
    claimed = {rule: status for rule, status in statuses().items() if "not applicable" in status}
    assert set(claimed.values()) == {"not applicable"}, claimed
    assert set(claimed) == set(NOT_APPLICABLE)


def test_departures_are_of_rules_that_exist() -> None:
    """Each departure is explained on a page about differences."""
    assert set(DIFFERENT) <= set(all_rules())
    told = "".join(path.read_text(encoding="utf-8") for path in EXPLANATIONS)
    assert [rule for rule in DIFFERENT if rule not in told] == []
