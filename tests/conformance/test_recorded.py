"""Hand-written scenarios beside their traces from Erlang; this needs no Erlang."""

from __future__ import annotations

import json

import pytest

from tests.conformance.actor import KINDS
from tests.conformance.case import Case
from tests.conformance.differences import alike
from tests.conformance.manners import HEARINGS, Manner
from tests.conformance.otpy_runner import play
from tests.conformance.record import BOOKS, recorded
from tests.conformance.trace import from_plain, side_by_side
from tests.examples import some

RECORDED = {book: recorded(book) for book in BOOKS}
MANNERS = [Manner(kind, hearing) for kind in KINDS for hearing in HEARINGS]
MANNERS.append(Manner(made=True))
CASES = [pytest.param(book, case, id=case.name) for book, cases in BOOKS.items() for case in cases]


@pytest.mark.parametrize("book", BOOKS)
def test_every_case_is_recorded_as_it_is_written(book: str) -> None:
    """A changed case must be recorded again: python -m tests.conformance.record."""
    found = recorded(book)
    written = {case.name: json.loads(json.dumps(case.scenario.plain())) for case in BOOKS[book]}
    assert len(written) == len(BOOKS[book]), "two cases have the same name"
    kept = {name: entry["scenario"] for name, entry in found.items() if not isinstance(entry, str)}
    assert kept == written


@pytest.mark.parametrize(("book", "case"), CASES)
def test_otpy_does_what_erlang_did(book: str, case: Case) -> None:
    """The same events, answers, ends and tables, in the same order."""
    erlang = from_plain(RECORDED[book][case.name]["trace"])
    theirs, ours = alike(case.scenario, erlang, play(case.scenario))
    assert theirs == ours, f"\n{side_by_side(theirs, ours)}"


@pytest.mark.parametrize(
    "manner", some(MANNERS), ids=lambda manner: f"{manner.kind}-{manner.hearing}"
)
def test_every_kind_of_child_does_what_erlang_did(manner: Manner) -> None:
    """For each kind a third of its possible cases is played, with no hook, ours, or the log too.

    The comparison with a live Erlang draws from all kinds and hearings.
    """
    first = MANNERS.index(manner) % 3
    fitting = [
        (b, c) for b, cs in BOOKS.items() for c in cs if manner.fitted(c.scenario) == c.scenario
    ]
    assert len(fitting) > 100
    for book, case in fitting[first::3]:
        erlang = from_plain(RECORDED[book][case.name]["trace"])
        theirs, ours = alike(case.scenario, erlang, play(case.scenario, manner))
        theirs, ours = manner.heard(theirs), manner.heard(ours)
        assert theirs == ours, f"\n{case.name}\n{side_by_side(theirs, ours)}"
