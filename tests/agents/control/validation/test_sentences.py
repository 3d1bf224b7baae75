"""The checks that a sentence asks for, and the quality of their rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.control.report import MatchQuality
from otpy_agents.control.validation.sentences import (
    SENTENCE_RULES,
    SentenceRule,
    read_sentence,
    rules_table,
)

EXACT, HIGH, MEDIUM, LOW = MatchQuality
OF_CODE = ("OrderService", "MAX_ITEMS", "config/app.yaml", ".env")
# Words that rules match, to build sentences close to theirs.
OUR_WORDS = (
    *("a.b", "'x'", "`y`", "src/", "the", "file", "no", "and", "in", "exists", "contains"),
    *(",", ";", "("),
)


@pytest.mark.parametrize("rule", SENTENCE_RULES, ids=lambda rule: rule.name)
def test_each_rule_reads_its_example(rule: SentenceRule) -> None:
    """CTL-38: no rule hides the one after it."""
    reading = read_sentence(rule.example)
    assert reading is not None
    assert (reading.rule, reading.quality) == (rule.name, rule.quality)


@pytest.mark.parametrize(
    ("sentence", "quality", "checks"),
    [
        ("File hello.txt exists.", EXACT, ["hello.txt is there"]),
        ("- [ ] The file hello exists", EXACT, ["hello is there"]),
        ("`a b.txt` must exist", EXACT, ["a b.txt is there"]),
        ("src/ exists", EXACT, ["src/ is there as a folder"]),
        ("Übersicht.md exists", EXACT, ["Übersicht.md is there"]),
        ("日本語.txt exists", EXACT, ["日本語.txt is there"]),
        ("Create hello.py", HIGH, ["hello.py is there"]),
        ("The file build.log has been removed", EXACT, ["build.log is not there"]),
        ("hello.txt contains 'it's fine'", EXACT, ['hello.txt has the text "it\'s fine"']),
        ("hello.txt contains “Hi”", EXACT, ["hello.txt has the text 'Hi'"]),
        (
            "a.py contains 'x', 'y' and 'z'",
            EXACT,
            ["a.py has the text 'x'", "a.py has the text 'y'", "a.py has the text 'z'"],
        ),
        (
            "a.py exists and contains 'x and y'",
            EXACT,
            ["a.py is there", "a.py has the text 'x and y'"],
        ),
        (
            "file a.txt does not exist and b.txt exists",
            EXACT,
            ["a.txt is not there", "b.txt is there"],
        ),
        ("a.py must not contain `eval(`", EXACT, ["a.py does not have the text 'eval('"]),
        ("poem.txt is 1,200 lines long", EXACT, ["poem.txt has exactly 1,200 lines"]),
        ('version in package.json is "1.0"', EXACT, ['package.json has "1.0" at version']),
        ("`private` in package.json is true", EXACT, ["package.json has true at private"]),
        (
            "the class Parser is defined in src/parser.py",
            HIGH,
            ["src/parser.py has a definition of the class Parser"],
        ),
        ("There are no FIXME comments in src", HIGH, ["src does not have the text 'FIXME'"]),
        ("no TODOs remain", HIGH, ["the project does not have the text 'TODO'"]),
        ("No `console.log` calls left in the code", HIGH, None),
        (
            "`pytest -q` passes and `ruff check` succeeds",
            HIGH,
            ["`pytest -q` ends with exit code 0", "`ruff check` ends with exit code 0"],
        ),
        (
            "All unit tests pass and README mentions the installation",
            MEDIUM,
            [
                "the task's test command ends with exit code 0",
                "README has the word 'installation'",
            ],
        ),
        ("hello.txt contains hello", LOW, ["hello.txt has the word 'hello'"]),
        ("the command supports `--strict`", LOW, ["there is a sign of '--strict'"]),
        (
            "OrderService reads MAX_ITEMS from config/app.yaml and .env",
            LOW,
            [f"there is a sign of '{name}'" for name in OF_CODE],
        ),
        ("OrderService created", MEDIUM, ["the project has a definition of OrderService"]),
        (
            "grep -n 'a|b' x.ts | grep -v c returns at least 2 lines (both are used)",
            HIGH,
            ["the lines that `grep -n 'a|b' x.ts | grep -v c` writes are at least 2"],
        ),
        (
            "`git status --short` shows no more than 1 line",
            HIGH,
            ["the lines that `git status --short` writes are at least 0 and at most 1"],
        ),
        ("`rg x` returns 0 matches", HIGH, ["the lines that `rg x` writes are 0"]),
    ],
)
def test_what_a_sentence_asks_for(
    sentence: str, quality: MatchQuality, checks: list[str] | None
) -> None:
    """Many wordings are read; of several checks the weakest rule counts."""
    reading = read_sentence(sentence)
    assert reading is not None
    assert reading.quality is quality
    if checks is not None:
        assert [str(check) for check in reading.checks] == checks


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "It is pretty",
        "All order screens implemented",
        "No OrderService is used",
        "hello.txt contains 'a' or nothing at all, depending on the flag, but not eval",
        "The code is not using `eval`",
        "The code works without `numpy`",
        "`foo` was renamed",
        "no print statements left",
        "README is up to date",
        "Die Datei darf `eval` nicht enthalten",
        "Der Server läuft ohne `root`",
        "x" * 1_000_000,
        "hello.txt contains '" + "x" * 5000 + "'",
    ],
    ids=lambda sentence: sentence[:40],
)
def test_what_no_rule_reads(sentence: str) -> None:
    """No rule guesses: alternatives, conditions, negations, other languages, pages of text."""
    assert read_sentence(sentence) is None


@pytest.mark.parametrize(
    "sentence",
    [
        "a.txt or b.txt exists",
        "hello.txt exists unless the flag is given",
        "`grep -c x a.txt` returns 2 lines",
        "version.txt matches /(/",
        "Die Datei hallo.txt existiert",
    ],
)
def test_what_rules_only_see_signs_of(sentence: str) -> None:
    """The named file is a sign; the rest of the sentence is not read."""
    reading = read_sentence(sentence)
    assert reading is not None
    assert reading.quality is LOW


@pytest.mark.parametrize("text", ["(a|b)*", "[", "a.c", "\\d+", "$^", "{x}", "{text}", "a+?"])
def test_a_text_with_the_signs_of_a_pattern_is_a_text(text: str) -> None:
    """Only `matches` has a pattern."""
    for sentence in (f"f.txt contains '{text}'", f"file '{text}' exists", f"no '{text}' in src/"):
        reading = read_sentence(sentence)
        assert reading is not None
        assert repr(text) in str(reading.checks[0]) or text in str(reading.checks[0])


@given(st.text(max_size=300))
def test_any_text_is_read_or_not(sentence: str) -> None:
    """No sentence raises an error."""
    read_sentence(sentence)


@given(st.lists(st.sampled_from(OUR_WORDS)))
def test_any_order_of_our_own_words_is_read_or_not(words: list[str]) -> None:
    """Sentences close to those of a rule raise no error either."""
    read_sentence(" ".join(words))


@pytest.mark.parametrize(
    "piece", ["a", "a.", "/", "`", "'a", " ", "a b ", "no ", "a, ", "a.b, ", "file ", "- ", "a.a/"]
)
def test_a_long_sentence_is_read_at_once(piece: str) -> None:
    """No rule backtracks over a sentence until the test times out."""
    read_sentence((piece * 1000)[:1000])


def test_the_table_prints_itself() -> None:
    """Each rule has one line, with its quality and an example."""
    lines = rules_table().splitlines()
    assert len(lines) == len(SENTENCE_RULES) + 1
    assert lines[0].split() == ["CHECK", "QUALITY", "FOR", "EXAMPLE"]
    assert any(line.endswith("EXACT    poem.txt has exactly 3 lines") for line in lines)
