"""Hand-written scenarios beside their traces from Elixir; this needs no Elixir."""

from __future__ import annotations

import json

import pytest

from tests.conformance.elixir_case import Case
from tests.conformance.elixir_differences import alike
from tests.conformance.elixir_player import play
from tests.conformance.record import ELIXIR_BOOKS, recorded
from tests.conformance.trace import from_plain, side_by_side

CASES = [
    pytest.param(book, case, id=case.name) for book, cases in ELIXIR_BOOKS.items() for case in cases
]


@pytest.mark.parametrize("book", ELIXIR_BOOKS)
def test_every_case_is_recorded_as_it_is_written(book: str) -> None:
    """A changed case must be recorded again: python -m tests.conformance.record."""
    written = {c.name: json.loads(json.dumps(c.scenario.plain())) for c in ELIXIR_BOOKS[book]}
    assert len(written) == len(ELIXIR_BOOKS[book]), "two cases have the same name"
    found = recorded(book)
    assert found.pop("elixir")
    assert {name: entry["scenario"] for name, entry in found.items()} == written


@pytest.mark.parametrize(("book", "case"), CASES)
def test_otpy_does_what_elixir_did(book: str, case: Case) -> None:
    """Answers, ends and tables are the same, and the events of each writer, in the same order."""
    elixir = from_plain(recorded(book)[case.name]["trace"])
    theirs, ours = alike(case.scenario, elixir, play(case.scenario))
    assert theirs == ours, f"\n{side_by_side(theirs, ours, 'ELIXIR')}"
