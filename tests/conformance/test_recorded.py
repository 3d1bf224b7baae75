"""Hand-written scenarios, beside what Erlang was seen to do with them; needs no Erlang."""

from __future__ import annotations

import json

import pytest

from tests.conformance.case import Case
from tests.conformance.differences import alike
from tests.conformance.otpy_runner import play
from tests.conformance.record import BOOKS, recorded
from tests.conformance.trace import from_plain, side_by_side

CASES = [pytest.param(book, case, id=case.name) for book, cases in BOOKS.items() for case in cases]


@pytest.mark.parametrize("book", BOOKS)
def test_every_case_is_recorded_as_it_is_written(book: str) -> None:
    """A case that was changed is recorded anew: python -m tests.conformance.record."""
    found = recorded(book)
    written = {case.name: json.loads(json.dumps(case.scenario.plain())) for case in BOOKS[book]}
    assert len(written) == len(BOOKS[book]), "two cases have the same name"
    kept = {name: entry["scenario"] for name, entry in found.items() if not isinstance(entry, str)}
    assert kept == written


@pytest.mark.parametrize(("book", "case"), CASES)
def test_otpy_does_what_erlang_did(book: str, case: Case) -> None:
    """The same events, answers, ends and tables, in the same order."""
    erlang = from_plain(recorded(book)[case.name]["trace"])
    theirs, ours = alike(case.scenario, erlang, play(case.scenario))
    assert theirs == ours, f"\n{side_by_side(theirs, ours)}"
