"""The page that says what is proven."""

from __future__ import annotations

from tests.conformance.page import TARGET, page
from tests.conformance.record import BOOKS, ELIXIR_BOOKS
from tests.conformance.rules import all_rules


def test_the_page_is_up_to_date() -> None:
    """Written anew by: python -m tests.conformance.page."""
    assert TARGET.read_text(encoding="utf-8") == page()


def test_cases_name_rules_that_exist() -> None:
    """No case claims to prove a rule that there is not."""
    known = set(all_rules())
    named = {rule for cases in BOOKS.values() for case in cases for rule in case.rules}
    named |= {rule for cases in ELIXIR_BOOKS.values() for case in cases for rule in case.rules}
    assert named <= known
