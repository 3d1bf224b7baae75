"""Commands that a helper proposes: which of them run, and their effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otpy_agents.control.proposals import (
    MOST_COMMANDS,
    ProposedCommand,
    read_proposals,
    settled_by_commands,
)
from otpy_agents.control.report import (
    Confidence,
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.control.validation import CommandOutcome

PASSED, FAILED, UNCERTAIN = CriterionVerdict


def criterion(name: str, verdict: CriterionVerdict) -> CriterionReport:
    return CriterionReport(name, verdict, MatchQuality.EXACT, "c", "s")


REPORT = ValidationReport.of([criterion("open", UNCERTAIN), criterion("wrong", FAILED)])


def proposals(folder: Path, *commands: object, about: str = "open") -> list[str]:
    (folder / "a.py").touch()
    words = json.dumps([{"criterion": about, "command": command} for command in commands])
    return [str(one) for one in read_proposals(f"Here:\n{words}", REPORT, folder)]


@pytest.mark.parametrize(
    "command",
    [["grep", "-q", "x", "a.py"], ["sh", "-c", "grep x a.py"], ["python", "./a.py"]],
)
def test_a_command_that_names_a_file_of_the_project_is_run(
    tmp_path: Path, command: list[str]
) -> None:
    """The name may also stand within one argument."""
    assert len(proposals(tmp_path, command)) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["true"],
        ["a.py"],
        ["ls", "."],
        ["cat", "/etc/passwd"],
        ["cat", "../a.py"],
        ["sh", "-c", "exit 0 '"],
        "grep x a.py",
        [],
        ["grep", 1, "a.py"],
        ["grep", "", "a.py"],
        ["grep", "\0", "a.py"],
    ],
)
def test_a_command_that_shows_nothing_is_not_run(tmp_path: Path, command: object) -> None:
    """A command that leads out of the project, or is not a command, is not run either."""
    assert proposals(tmp_path, command) == []


@pytest.mark.parametrize("words", ["", "I think so.", "{}", "[1]", '[{"criterion": "open"}]'])
def test_an_answer_that_is_no_proposal_proposes_nothing(tmp_path: Path, words: str) -> None:
    """It brings neither an error nor a command."""
    assert read_proposals(words, REPORT, tmp_path) == ()


def test_only_what_is_uncertain_is_helped_with(tmp_path: Path) -> None:
    """C-22: a failed criterion stays failed, and no criterion is invented."""
    assert proposals(tmp_path, ["cat", "a.py"], about="wrong") == []
    assert proposals(tmp_path, ["cat", "a.py"], about="else") == []


def test_an_answer_has_so_many_commands_and_each_once(tmp_path: Path) -> None:
    """The limit holds for any length of answer."""
    same = [["cat", "a.py"]] * 9
    many = [["head", f"-{number}", "a.py"] for number in range(99)]
    assert len(proposals(tmp_path, *same, *many)) == MOST_COMMANDS


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        ([0], PASSED),
        ([0, 0], PASSED),
        ([0, 1], FAILED),
        ([1], FAILED),
        ([127], UNCERTAIN),
        ([0, None], UNCERTAIN),
        ([-9], UNCERTAIN),
        ([], UNCERTAIN),
    ],
)
def test_exit_codes_settle_what_was_uncertain(
    codes: list[int | None], verdict: CriterionVerdict
) -> None:
    """All must end with 0, or one with another code; a command that did not run settles nothing."""
    outcomes = {
        ProposedCommand("open", ("cat", str(number))): CommandOutcome(code, "it said")
        for number, code in enumerate(codes)
    }
    settled = settled_by_commands(REPORT, outcomes)
    assert [one.verdict for one in settled.criteria] == [verdict, FAILED]
    if verdict is not UNCERTAIN:
        assert "which a helper proposed: it said" in settled.criteria[0].saw
        assert settled.confidence is Confidence.MEDIUM
