"""Final answers that halt the loop, that ask for another attempt, or that do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.attempt.transcript import Transcript
from otpy_agents.control.halts import (
    HALTS,
    Halt,
    HaltReason,
    HaltRule,
    find_halt,
    halts_table,
    read_halts,
)
from otpy_agents.errors import InvalidControlTable
from tests.agents.control.halts.final_answers import HALTING, INNOCENT

ROOT = Path(__file__).resolve().parents[4]
CLI_OUTPUTS = ROOT / "tests" / "agents" / "cli_outputs"


@pytest.mark.parametrize("rule", HALTS, ids=lambda rule: rule.example)
def test_each_rule_finds_its_example(rule: HaltRule) -> None:
    """No rule is hidden by the one before it."""
    halt = find_halt(f"I have looked at the code.\n\n{rule.example}")
    assert halt == Halt(rule.reason, rule.pattern, rule.example)


@pytest.mark.parametrize(("reason", "words"), HALTING)
def test_what_an_agent_says_is_found(reason: HaltReason, words: str) -> None:
    """It is found inside Markdown, and with curly apostrophes."""
    halt = find_halt(words)
    assert halt is not None
    assert halt.reason is reason


@pytest.mark.parametrize("words", INNOCENT)
def test_what_an_agent_only_speaks_about_is_no_halt(words: str) -> None:
    """Code, diffs, quotations, other meanings, answered questions and polite offers do not halt."""
    assert find_halt(words) is None


def test_real_answers_raise_no_false_alarm() -> None:
    """CTL-42: every recorded output of the four CLIs, as an answer and as a raw stream."""
    recorded = sorted(CLI_OUTPUTS.rglob("*.stdout"))
    assert len(recorded) > 50
    for file in recorded:
        text = file.read_text(encoding="utf-8", errors="replace")
        assert find_halt(text) is None, file
        parser = find_adapter(file.relative_to(CLI_OUTPUTS).parts[0]).parser()
        transcript = Transcript()
        for line in text.splitlines():
            transcript.add(parser.feed(line))
        assert find_halt(transcript.answer or "") is None, file


def test_the_gravest_reason_is_told() -> None:
    """A question after a block is not answered: the block comes first."""
    halt = find_halt("The task is ambiguous.\nI am blocked.\nShould I go on?")
    assert halt is not None
    assert (halt.reason, halt.critical) == (HaltReason.BLOCKED, True)


def test_three_reasons_halt_at_once() -> None:
    """CTL-40: the other two ask for another attempt."""
    critical = {reason for reason in HaltReason if reason.critical}
    assert critical == {
        HaltReason.CURSOR_EXEC_FAILURE,
        HaltReason.BLOCKED,
        HaltReason.OUTPUT_FORMAT_INVALID,
    }


@pytest.mark.parametrize(
    "words",
    [
        "x" * 1_000_000,
        "could I " * 125_000,
        "which you " * 100_000 + "?",
        '"' * 1_000_000,
        "```\n" * 250_000,
        "* " * 500_000,
        "Should I?\n" * 100_000 + "Done.",
        "I can " * 166_000,
        "\0\ud800\u202e" * 300_000,
    ],
    ids=lambda words: words[:10],
)
def test_a_megabyte_is_read(words: str) -> None:
    """Any megabyte is read well within the limit of a test."""
    assert find_halt(words) is None


def test_an_excerpt_is_a_line_that_a_person_reads() -> None:
    """The whole answer is in the prompt log."""
    halt = find_halt("BLOCKED: " + "x" * 5000)
    assert halt is not None
    assert len(halt.excerpt) == 200


def test_an_operator_adds_patterns(tmp_path: Path) -> None:
    """The patterns of a file come after the built-in ones."""
    file = tmp_path / "halts.toml"
    file.write_text(
        "[[halt]]\nreason = 'BLOCKED'\npattern = '^Ich komme nicht weiter'\n"
        "[[halt]]\nreason = 'ASKED_QUESTION'\npattern = '^Soll ich .*\\?$'\nlast = true\n"
    )
    table = read_halts(file)
    assert table[: len(HALTS)] == HALTS
    halt = find_halt("Fertig.\nSoll ich weitermachen?", table)
    assert halt is not None
    assert halt.reason is HaltReason.ASKED_QUESTION
    assert find_halt("Soll ich weitermachen?\nJa.", table) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[[halt", "wanted a TOML file"),
        ("x = 1", "x: got an unknown key, wanted [[halt]]"),
        ("halt = 1", "halt: got 1, wanted tables [[halt]]"),
        ("halt = [1]", "halt 1: got 1, wanted a table [[halt]]"),
        ("[[halt]]\nreason = 'X'\npattern = 'x'", "halt 1.reason: got 'X', wanted CURSOR_EXEC"),
        (
            "[[halt]]\nreason = 'BLOCKED'\npattern = '('",
            "halt 1.pattern: got '(', wanted a regular",
        ),
        ("[[halt]]\nreason = 'BLOCKED'", "halt 1.pattern: got None, wanted a regular"),
        ("[[halt]]\nreason = ['BLOCKED']\npattern = 'x'", "halt 1.reason: got ['BLOCKED']"),
        (
            "[[halt]]\nreason = 'BLOCKED'\npattern = 'x'\nlast = 1",
            "halt 1.last: got 1, wanted true or false",
        ),
        (
            "[[halt]]\nreason = 'BLOCKED'\npattern = 'x'\nlst = true",
            "halt 1.lst: got an unknown key, wanted example, last, pattern, reason",
        ),
    ],
)
def test_a_bad_file_of_patterns_is_refused_in_one_line(
    tmp_path: Path, content: str, said: str
) -> None:
    """The line has the place, the value got and the value wanted."""
    file = tmp_path / "halts.toml"
    file.write_text(content)
    with pytest.raises(InvalidControlTable) as caught:
        read_halts(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidControlTable):
        read_halts(tmp_path / "missing.toml")


def test_the_table_prints_itself() -> None:
    """Each rule has one line: reason, effect, an example."""
    lines = halts_table().splitlines()
    assert len(lines) == len(HALTS)
    assert "BLOCKED                halts  I cannot proceed without the API key." in lines
    assert "AMBIGUITY              asks   The requirements are ambiguous." in lines
