"""Questions about criteria that no rule can tell, and the effect of their answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.control.interrogation import (
    MOST_QUESTIONS,
    find_mentions,
    next_question,
    settled_by,
)
from otpy_agents.control.report import (
    Confidence,
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)

REPORT = ValidationReport.of(
    [
        CriterionReport("fails", CriterionVerdict.FAILED, MatchQuality.EXACT, "c", "s"),
        CriterionReport("unclear", CriterionVerdict.UNCERTAIN, MatchQuality.LOW, "c", "s"),
    ]
)


def test_each_criterion_is_asked_about_four_times_at_most() -> None:
    """CTL-45: failed criteria are asked about only at the end."""
    assert next_question(REPORT, {"unclear": 3}, of_failed=False) == "unclear"
    assert next_question(REPORT, {"unclear": 4}, of_failed=False) is None
    assert next_question(REPORT, {"unclear": 4}, of_failed=True) == "fails"
    assert next_question(REPORT, {"unclear": 4, "fails": 4}, of_failed=True) is None


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("Yes.", CriterionVerdict.PASSED),
        ("**yes**, see a.py", CriterionVerdict.PASSED),
        ("no - it is not", CriterionVerdict.FAILED),
        ("Nothing of it", CriterionVerdict.UNCERTAIN),
        ("I think yes", CriterionVerdict.UNCERTAIN),
        ("", CriterionVerdict.UNCERTAIN),
        ("…", CriterionVerdict.UNCERTAIN),
        ("> _Yes_.", CriterionVerdict.PASSED),
        ("✅ YES", CriterionVerdict.PASSED),
        ("no, it is missing; yes would be wrong", CriterionVerdict.FAILED),
        ("Yesterday it was there", CriterionVerdict.UNCERTAIN),
        ("Not yet", CriterionVerdict.UNCERTAIN),
        ("1. Yes", CriterionVerdict.UNCERTAIN),
        ("Ja", CriterionVerdict.UNCERTAIN),
        ("\0\ud800", CriterionVerdict.UNCERTAIN),
        ("*" * 1_000_000, CriterionVerdict.UNCERTAIN),
        ("yes" * 300_000, CriterionVerdict.UNCERTAIN),
    ],
    ids=lambda value: str(value)[:12],
)
def test_only_a_first_word_yes_or_no_settles(words: str, verdict: CriterionVerdict) -> None:
    """Any other answer leaves the criterion uncertain."""
    report = settled_by(REPORT, "unclear", words, may_override=False)
    assert report.criteria[1].verdict is verdict


def test_no_answer_is_surer_than_medium_and_none_undoes_a_rule() -> None:
    """C-22: only the operator's permission allows it."""
    unclear = settled_by(REPORT, "unclear", "yes", may_override=False)
    assert unclear.criteria[1].quality is MatchQuality.MEDIUM
    assert settled_by(unclear, "fails", "yes", may_override=False) == unclear
    allowed = settled_by(unclear, "fails", "yes", may_override=True)
    assert (allowed.valid, allowed.confidence) == (True, Confidence.MEDIUM)


def test_each_criterion_is_asked_about_once_before_one_is_asked_again() -> None:
    """An agent with no clear answer to the first may know about the second."""
    asked: dict[str, int] = {}
    names: list[str] = []
    while (name := next_question(REPORT, asked, of_failed=True)) is not None:
        names.append(name)
        asked[name] = asked.get(name, 0) + 1
    assert names == ["unclear", "fails"] * MOST_QUESTIONS


def test_an_answer_stands_in_the_report() -> None:
    """The report has it in one line, cut, with the earlier finding."""
    found = settled_by(REPORT, "unclear", "Yes,\n " + "x" * 1000, may_override=False).criteria[1]
    assert found.saw.startswith("an agent: Yes, xxx")
    assert found.saw.endswith("x (before: s)")
    assert len(found.saw) < 300


FOUND = st.builds(
    CriterionReport,
    st.sampled_from("abc"),
    st.sampled_from(CriterionVerdict),
    st.sampled_from(MatchQuality),
    st.just("k"),
    st.just("s"),
)


@given(
    st.lists(FOUND, max_size=4),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["yes", "no", "hm"])), max_size=6),
)
def test_an_agents_word_never_gives_high_confidence_and_never_heals_a_failure(
    found: list[CriterionReport], answers: list[tuple[str, str]]
) -> None:
    """It holds for any questions and answers."""
    before = after = ValidationReport.of(found)
    for criterion, words in answers:
        after = settled_by(after, criterion, words, may_override=False)
    assert set(before.failed_criteria) <= set(after.failed_criteria)
    assert before.confidence is Confidence.HIGH or after.confidence is not Confidence.HIGH


@pytest.mark.parametrize(
    ("criterion", "places"),
    [
        ("the parser accepts `--strict`", ["src/cli.py:2"]),
        ("the parser rejects nothing", ["docs.md:1", "docs.md:2", "src/parser.py:1"]),
        ("Der Zerteiler nimmt „--strict“ an", ["src/cli.py:2"]),
        ("Übersicht vorhanden", ["docs.md:4"]),
        ("src/parser.py handles it", ["docs.md:3"]),
        ("(a|b)* [ \\d `.*`", []),
        ("the file exists", []),
        ("", []),
        ("`", []),
    ],
)
def test_the_tree_is_searched_for_a_criterion(
    tmp_path: Path, criterion: str, places: list[str]
) -> None:
    """It is searched for its quotations, or for its words; in any language, never as a pattern."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "parser.py").write_text("class Parser:\n")
    (tmp_path / "src" / "cli.py").write_text("import os\nadd('--strict')\n")
    (tmp_path / "docs.md").write_text(
        "The parser.\nParser again.\nParser: see src/parser.py.\nÜbersicht\n"
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x").write_text("parser --strict")
    (tmp_path / "binary").write_bytes(b"\0parser --strict")
    assert [str(mention) for mention in find_mentions(tmp_path, criterion)] == places


def test_a_long_criterion_is_searched_for_within_limits(tmp_path: Path) -> None:
    """The search handles a page of words, and a missing folder."""
    (tmp_path / "a.txt").write_text("word1 word2\n" * 1000)
    assert len(find_mentions(tmp_path, " ".join(f"word{n}" for n in range(100_000)))) == 2
    assert find_mentions(tmp_path, "a-" * 500_000) == ()
    assert find_mentions(tmp_path / "missing", "word") == ()
