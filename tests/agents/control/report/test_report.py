"""Reports of validations: the conclusion from their criteria, and their stored form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.control.report import (
    Confidence,
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.errors import InvalidReport


def found(
    verdict: CriterionVerdict = CriterionVerdict.PASSED,
    quality: MatchQuality = MatchQuality.EXACT,
    criterion: str = "file a exists",
) -> CriterionReport:
    return CriterionReport(criterion, verdict, quality, "a exists", "a file of 3 bytes", "a")


CRITERIA = st.builds(
    CriterionReport,
    st.text(),
    st.sampled_from(CriterionVerdict),
    st.sampled_from(MatchQuality),
    st.text(),
    st.text(),
    st.none() | st.text(),
)


@given(st.lists(CRITERIA, max_size=5))
def test_what_is_stored_is_read_back(criteria: list[CriterionReport]) -> None:
    """A report survives JSON whole."""
    report = ValidationReport.of(criteria)
    assert ValidationReport.of_json(json.loads(json.dumps(report.to_json()))) == report


@given(st.lists(CRITERIA, max_size=5))
def test_only_criteria_that_all_hold_are_valid(criteria: list[CriterionReport]) -> None:
    """A failed or uncertain criterion makes the report invalid, and so does an empty list."""
    holds = bool(criteria) and all(item.verdict is CriterionVerdict.PASSED for item in criteria)
    assert ValidationReport.of(criteria).valid is holds


@pytest.mark.parametrize(
    ("quality", "confidence"),
    [
        (MatchQuality.EXACT, Confidence.HIGH),
        (MatchQuality.HIGH, Confidence.HIGH),
        (MatchQuality.MEDIUM, Confidence.MEDIUM),
        (MatchQuality.LOW, Confidence.LOW),
    ],
)
def test_the_least_sure_criterion_gives_the_confidence(
    quality: MatchQuality, confidence: Confidence
) -> None:
    """CTL-37: an exact check beside a guess does not make the guess better."""
    assert ValidationReport.of([found(), found(quality=quality)]).confidence is confidence


def test_an_uncertain_criterion_makes_the_report_uncertain() -> None:
    """The other criteria may be certain."""
    uncertain = found(CriterionVerdict.UNCERTAIN, criterion="it is pretty")
    report = ValidationReport.of([found(), uncertain])
    assert report.confidence is Confidence.UNCERTAIN
    assert report.uncertain_criteria == ("it is pretty",)


def test_a_report_of_the_seed_is_read() -> None:
    """Another program's report has the seed's four fields and no criteria."""
    report = ValidationReport.of_json(
        {
            "valid": False,
            "confidence": "LOW",
            "failed_criteria": ["x"],
            "uncertain_criteria": [],
            "rules_passed": 3,
        }
    )
    assert report == ValidationReport(False, Confidence.LOW, ("x",))


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("valid", 1, "valid: got 1, wanted true or false"),
        ("confidence", "SURE", "confidence: got 'SURE', wanted HIGH or MEDIUM or LOW or UNCERTAIN"),
        ("failed_criteria", "x", "failed_criteria: got 'x', wanted a list"),
        ("uncertain_criteria", [1], "uncertain_criteria: got [1], wanted a list of text"),
        ("confidence", [], "confidence: got [], wanted HIGH or MEDIUM or LOW or UNCERTAIN"),
        ("criteria", [1], "criteria: got 1, wanted an object"),
        ("criteria", [{"verdict": "passed"}], "criterion: got None, wanted text"),
    ],
)
def test_what_is_no_report_is_refused_by_field(field: str, value: object, wanted: str) -> None:
    """The message has the field, the value got and the value wanted."""
    with pytest.raises(InvalidReport) as caught:
        ValidationReport.of_json({**ValidationReport.of([found()]).to_json(), field: value})
    assert str(caught.value) == f"validation report: {wanted}"
    with pytest.raises(InvalidReport, match="wanted an object"):
        ValidationReport.of_json([])


def test_what_was_seen_is_cut() -> None:
    """Reports are copied into each state, each audit line and a prompt."""
    long = CriterionReport("c", CriterionVerdict.FAILED, MatchQuality.EXACT, "k", "x" * 1_000_000)
    assert len(long.saw) == 600
    assert long.saw.endswith("(1,000,000 characters)")
    assert CriterionReport.of_json(long.to_json()) == long
