"""The words for agents: prompts, guidelines, and the part of the project that a task needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.control.halts import Halt, HaltReason
from otpy_agents.control.project_folder import Mention
from otpy_agents.control.prompts import (
    TaskType,
    clarification_prompt,
    first_prompt,
    fix_prompt,
    question_prompt,
    read_task_types,
    shipped_task_types,
    take_snapshot,
    type_of,
)
from otpy_agents.control.report import (
    Confidence,
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.control.state import CompletedTask, ProjectState
from otpy_agents.control.task import ControlTask, TableCriterion
from otpy_agents.errors import InvalidControlTable

FOLDER = Path("/sandbox/shop")
STATE = ProjectState(
    description="Sell books",
    project_id="shop",
    completed_tasks=tuple(CompletedTask(f"task-{n}", f"2026-0{n}", {}) for n in range(1, 8)),
)


def task(
    intent: str = "Add a basket", instructions: str = "Write it.", **fields: Any
) -> ControlTask:
    return ControlTask(
        task_id="t-1", intent=intent, tool="claude", instructions=instructions, **fields
    )


WHOLE = task(
    "Add {{ 7 * 7 }}",
    "Use {% raw %} and <b>.",
    acceptance_criteria=("a.txt exists", TableCriterion(file="a.txt", lines=3)),
    required_artifacts=("a.txt",),
    test_command="make test",
    tests_required=True,
)
REPORT = ValidationReport.of(
    [
        CriterionReport("a holds", CriterionVerdict.PASSED, MatchQuality.EXACT, "k", "s"),
        CriterionReport(
            "b holds", CriterionVerdict.FAILED, MatchQuality.EXACT, "b is there", "x\ny", "b:1"
        ),
        CriterionReport("c holds", CriterionVerdict.UNCERTAIN, MatchQuality.LOW, "k", "no rule"),
    ]
)
QUESTION = Halt(HaltReason.ASKED_QUESTION, "p", "Which one?")


@pytest.mark.parametrize(
    "prompt",
    [
        first_prompt(WHOLE, {}),
        fix_prompt(WHOLE, REPORT),
        fix_prompt(WHOLE, REPORT, strict=True),
        clarification_prompt(WHOLE, QUESTION),
    ],
    ids=["first", "fix", "strict", "clarification"],
)
def test_each_prompt_has_the_whole_task(prompt: str) -> None:
    """CTL-29: an agent begins with nothing else; a task's text is never read as a template."""
    for said in (
        "## Task t-1: Add {{ 7 * 7 }}",
        "Use {% raw %} and <b>.",
        "- a.txt exists\n",
        '- {"file": "a.txt", "lines": 3}\n',
        "    make test\n",
        "which must end with exit code 0",
        "- Write whole code",
        "`BLOCKED:`",
    ):
        assert said in prompt
    assert "\n\n\n" not in prompt


def test_a_fix_prompt_says_what_failed_and_what_was_found() -> None:
    """Criteria that hold are not mentioned."""
    opening = fix_prompt(task(), REPORT).partition("## Task")[0]
    assert (
        "1. b holds\n   - Checked: b is there\n   - Failed: x\n     y\n   - Where: b:1\n" in opening
    )
    assert "2. c holds\n   - Checked: k\n   - Nobody can tell: no rule\n" in opening
    assert "a holds" not in opening


def test_a_strict_prompt_is_another_one() -> None:
    """The same failure twice needs another way, not the same words."""
    strict, lenient = fix_prompt(task(), REPORT, strict=True), fix_prompt(task(), REPORT)
    assert "Do not repeat what was done before" in strict
    assert "Do not repeat what was done before" not in lenient
    assert "Change nothing else" in strict


def test_a_report_of_another_program_has_names_only() -> None:
    """Such a report contains nothing else."""
    report = ValidationReport(False, Confidence.LOW, ("b holds",), ("c holds",))
    assert "1. b holds\n2. c holds\n" in fix_prompt(task(), report)


def test_a_clarification_quotes_what_was_asked() -> None:
    """A question and a doubt are told apart, and each is quoted."""
    assert "ended with a question:\n\n> Which one?\n" in clarification_prompt(task(), QUESTION)
    doubt = Halt(HaltReason.AMBIGUITY, "p", "The task is unclear.")
    assert "ended with a doubt about the task:\n\n> The task" in clarification_prompt(task(), doubt)


def test_a_schema_is_shown_and_nothing_else_is_asked_for() -> None:
    """An answer that must be JSON has no room for explanations."""
    asked = task(expected_json_schema={"größe": "integer"})
    for prompt in (first_prompt(asked, {}), clarification_prompt(asked, QUESTION)):
        assert '```json\n{\n  "größe": "integer"\n}\n```' in prompt
        assert "say in your final answer" not in prompt


def test_a_question_shows_what_was_found() -> None:
    """The prompt also tells that it is not the first question."""
    mentions = [Mention("src/a.py", 3, "def basket():")]
    asked = question_prompt(task(), "it is\npretty", mentions, number=2, limit=4)
    assert "> it is\n> pretty\n" in asked
    assert "- src/a.py:3: def basket():\n" in asked
    assert "This is question 2 of 4." in asked
    first = question_prompt(task(), "c", [], number=1, limit=4)
    assert "No text file in the folder has words of it." in first
    assert "You were asked before" not in first


@pytest.mark.parametrize(
    ("intent", "instructions", "name"),
    [
        ("Add a basket", "Write it, with tests.", "Implementation"),
        ("The basket", "Write tests for it.", "Implementation"),
        ("Add a basket", "Write it.", "Implementation"),
        ("Write tests for the basket", "Refactor nothing.", "Test"),
        ("Document the basket", "x", "Doc"),
        ("Rename Basket to Cart", "x", "Refactor"),
        ("Configure the linter", "x", "Config"),
        ("Show the latest city circle", "x", "Implementation"),
        ("Ein Korb", "Schreibe ihn.", "Implementation"),
        ("", "", "Implementation"),
    ],
)
def test_the_type_is_told_from_the_text(intent: str, instructions: str, name: str) -> None:
    """Only the intent decides; words count from their beginning, short ones whole."""
    assert type_of(task(intent, instructions), shipped_task_types()).name == name


@pytest.mark.parametrize(
    ("named", "name"),
    [("testing", "Test"), ("Documentation", "Doc"), ("coding", "Implementation"), ("?", "Doc")],
)
def test_a_task_may_name_its_type(named: str, name: str) -> None:
    """A name or an alias counts; for an unknown one the text decides."""
    assert type_of(task("Document it", task_type=named), shipped_task_types()).name == name


def test_guidelines_are_those_of_the_type() -> None:
    """CTL-31: the prompt has no guideline of another type."""
    prompt = first_prompt(task("Document the basket"), {})
    assert "- Change no code.\n" in prompt
    assert "no placeholders" not in prompt


def test_a_user_replaces_the_types(tmp_path: Path) -> None:
    """The user's file replaces them; the prompt has its guidelines."""
    file = tmp_path / "types.toml"
    file.write_text("[[task_type]]\nname = 'Any'\nguidelines = ['Be brief.']\n")
    types = read_task_types(file)
    assert types == (TaskType(name="Any", guidelines=("Be brief.",)),)
    assert "- Be brief.\n" in first_prompt(task(), {}, types=types)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[[", "wanted a TOML file"),
        ("x = 1", "x: got an unknown key, wanted [[task_type]]"),
        ("", "task_type: got nothing, wanted tables [[task_type]]"),
        ("task_type = [1]", "task_type 1: got 1, wanted a table [[task_type]]"),
        ("[[task_type]]", "task_type 1.name: got None, wanted a name"),
        ("[[task_type]]\nname = 'x'\nword = []", "task_type 1.word: got an unknown key, wanted"),
        ("[[task_type]]\nname = 'x'\nwords = ['']", "task_type 1.words: got [''], wanted a list"),
        ("[[task_type]]\nname = 'x'\nwords = 'x'", "task_type 1.words: got ['x'], wanted a list"),
        (
            "[[task_type]]\nname = 'x'\nneeds_goal = 1",
            "task_type 1.needs_goal: got 1, wanted true or false",
        ),
    ],
)
def test_a_bad_file_of_types_is_refused_in_one_line(
    tmp_path: Path, content: str, said: str
) -> None:
    """The line has the place, the value got and the value wanted."""
    file = tmp_path / "types.toml"
    file.write_text(content)
    with pytest.raises(InvalidControlTable) as caught:
        read_task_types(file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("intent", "instructions", "parts"),
    [
        ("Add a basket", "Write it.", {"goal"}),
        ("Fix the basket", "It is empty.", set[str]()),
        ("Fix the basket", "As the goal of the project says.", {"goal"}),
        ("Rename Basket to Cart", "Everywhere.", set[str]()),
        ("Add tests", "For the basket.", set[str]()),
        ("Document it", "In the README.", {"goal"}),
        ("Fix it", "The remaining tasks come later.", {"queue"}),
        ("Fix it", "As in task-3.", {"completed_tasks"}),
        ("Fix it", "Build on the previous work.", {"completed_tasks"}),
        ("Fix it", "Not as in task-33 or my-task-3x.", set[str]()),
    ],
)
def test_a_snapshot_has_what_the_task_needs(
    intent: str, instructions: str, parts: set[str]
) -> None:
    """CTL-30: the project is always in it, everything else by rules."""
    snapshot = take_snapshot(task(intent, instructions), STATE, FOLDER)
    assert snapshot["project"] == {"id": "shop", "sandbox_root": "/sandbox/shop"}
    assert snapshot.keys() - {"project"} == parts


def test_a_snapshot_names_few_completed_tasks() -> None:
    """They are those named in the text, or the last five, so a long project has a short prompt."""
    named = take_snapshot(task("Fix it", "As in task-2 and task-3."), STATE, FOLDER)
    assert [one["task_id"] for one in named["completed_tasks"]] == ["task-2", "task-3"]
    last = take_snapshot(task("Fix it", "As before."), STATE, FOLDER)
    assert [one["task_id"] for one in last["completed_tasks"]][0::4] == ["task-3", "task-7"]


def test_a_project_without_a_goal_has_none_in_its_snapshot() -> None:
    """An empty goal is left out."""
    assert take_snapshot(task(), ProjectState(), FOLDER).keys() == {"project"}


def test_a_snapshot_is_shown_as_json() -> None:
    """It is whole, and readable in any language."""
    snapshot = take_snapshot(task(), ProjectState(description="Bücher", project_id="p"), FOLDER)
    prompt = first_prompt(task(), snapshot)
    shown = prompt.partition("```json\n")[2].partition("```")[0]
    assert json.loads(shown) == snapshot
    assert "Bücher" in shown
