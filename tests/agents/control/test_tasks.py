"""Tasks and their files: read whole or refused whole, with the line to repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otpy_agents.control.task import ControlTask, TableCriterion
from otpy_agents.control.task_file import read_task_file
from otpy_agents.errors import InvalidTask

SMALLEST: dict[str, Any] = {
    "task_id": "task-001",
    "intent": "Add a greeting",
    "tool": "claude",
    "instructions": "Write hello.py",
    "acceptance_criteria": ["hello.py exists"],
}
FULL: dict[str, Any] = {
    **SMALLEST,
    "tool": "command",
    "command": ["sh", "-c", "cat"],
    "acceptance_criteria": [
        "hello.py exists",
        {"file": "a.json", "json_path": "scripts.test", "equals": None},
        {"command": ["python", "-m", "hello"]},
    ],
    "retry_policy": {"max_retries": 0},
    "status": "in_progress",
    "working_directory": "src",
    "required_artifacts": ["hello.py"],
    "test_command": "pytest",
    "tests_required": True,
    "writable_paths": [".pytest_cache"],
    "expected_json_schema": {"ok": "boolean"},
    "agent_mode": "opus",
    "task_type": "coding",
}


def test_a_task_has_the_documented_defaults() -> None:
    """CTL-26: three retries, pending."""
    task = ControlTask.of_json(SMALLEST)
    assert (task.max_retries, task.status, task.tests_required) == (3, "pending", False)


@pytest.mark.parametrize("value", [SMALLEST, FULL])
def test_what_is_read_is_written_as_it_was(value: dict[str, Any]) -> None:
    """CTL-27: other programs read the queue, so its entries have the form of the file."""
    task = ControlTask.of_json(value)
    written = task.to_json()
    assert ControlTask.of_json(json.loads(json.dumps(written))) == task
    assert {"retry_policy": {"max_retries": 3}, "status": "pending", **value} == written


def test_a_table_says_itself_as_its_file_does() -> None:
    """Reports name the criterion so."""
    assert str(TableCriterion(file="a", lines=3)) == '{"file": "a", "lines": 3}'


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"task_id": ""}, 'task_id: got "", wanted a text that is not empty'),
    ({"task_id": "a\nb"}, "task_id: .* wanted a text without control characters"),
    ({"intent": 3}, "intent: got 3, wanted a text"),
    ({"colour": 1}, "colour: got 1, wanted no such field"),
    ({"retry_policy": {"max_retries": -1}}, "retry_policy.max_retries: got -1, wanted"),
    ({"retry_policy": {"max_retries": True}}, "retry_policy.max_retries: got true, wanted a whole"),
    ({"status": "done"}, "status: got \"done\", wanted 'pending'"),
    (
        {"acceptance_criteria": [4]},
        r"acceptance_criteria\[0\]: got 4, wanted a sentence, or",
    ),
    ({"acceptance_criteria": []}, "acceptance_criteria: got \\[\\], wanted something that can be"),
    ({"acceptance_criteria": [{"file": "a", "size": 1}]}, r"acceptance_criteria\[0\].size: got 1"),
    ({"acceptance_criteria": [{"contains": "x"}]}, 'wanted a "file" that these checks look at'),
    ({"acceptance_criteria": [{}]}, 'wanted a "file" or a "command"'),
    ({"acceptance_criteria": [{"file": "a", "json_path": "b"}]}, '"json_path" and "equals" togeth'),
    (
        {"command": ["ls"]},
        "command: .* wanted the program and its arguments, if",
    ),
    ({"tool": "command"}, "command: got \\[\\], wanted the program"),
    ({"tests_required": True}, 'tests_required: got true, wanted a "test_command" beside it'),
]


@pytest.mark.parametrize(("change", "words"), WRONG)
def test_a_wrong_task_is_refused_by_its_field(change: dict[str, Any], words: str) -> None:
    """One line: the field, the value got, the value wanted."""
    with pytest.raises(InvalidTask, match=words) as error:
        ControlTask.of_json({**SMALLEST, **change})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", SMALLEST)
def test_a_missing_field_is_named(missing: str) -> None:
    """Every required field counts."""
    task = {name: value for name, value in SMALLEST.items() if name != missing}
    with pytest.raises(InvalidTask, match=f"{missing}: got nothing, wanted this field"):
        ControlTask.of_json(task)


def test_a_file_holds_one_task_or_an_array(tmp_path: Path) -> None:
    """CTL-28: tasks come in the order of the file."""
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps(SMALLEST))
    assert [task.task_id for task in read_task_file(file)] == ["task-001"]
    file.write_text(json.dumps([{**SMALLEST, "task_id": name} for name in "ba"]))
    assert [task.task_id for task in read_task_file(file)] == ["b", "a"]


FILES = [
    ('{"task_id": 1,\n\n"intent" 3}', 3, "got expecting ':' delimiter in column 10, wanted JSON"),
    ("[]", 1, "got an empty array, wanted at least one task"),
    ("3", 1, "got 3, wanted an object"),
    ('[\n{"task_id": NaN}]', None, "NaN, which is not a number in JSON"),
    (json.dumps([SMALLEST, {**SMALLEST, "tool": 1}], indent=1), 14, r"\[1\].tool: got 1"),
    (
        json.dumps([SMALLEST, SMALLEST], indent=1),
        12,
        r"\[1\].task_id: got .*, as task",
    ),
    (json.dumps([{**SMALLEST, "retry_policy": {"max": 1}}], indent="\t"), 11, r"policy.max: got 1"),
    (json.dumps({"intent": "x"}, indent=1), 1, "task_id: got nothing"),
]


@pytest.mark.parametrize(("text", "line", "words"), FILES)
def test_a_wrong_file_is_refused_whole_with_its_line(
    tmp_path: Path, text: str, line: int | None, words: str
) -> None:
    """CTL-28: the line is right for any indentation."""
    file = tmp_path / "tasks.json"
    file.write_text(text)
    place = f"{file}:{line}: " if line else f"{file}: "
    with pytest.raises(InvalidTask, match=words) as error:
        read_task_file(file)
    assert str(error.value).startswith(place), str(error.value)
    assert "\n" not in str(error.value)


IMPOSSIBLE: list[tuple[dict[str, Any], int, str]] = [
    (
        {"acceptance_criteria": [{"file": "a", "matches": "("}]},
        9,
        r'acceptance_criteria\[0\].matches: got "\(", wanted a regular expression \(',
    ),
    (
        {"acceptance_criteria": ["a", {"file": "a", "json_path": "a[", "equals": 1}]},
        10,
        r'acceptance_criteria\[1\].json_path: got "a\[", wanted a path such as',
    ),
    ({"acceptance_criteria": [{"file": "/etc/passwd"}]}, 8, r"\[0\].file: .* a path inside the pr"),
    ({"expected_json_schema": {"type": "objct", "properties": 3}}, 9, "wanted a JSON Schema, or"),
    ({"expected_json_schema": {"ok": "bool"}}, 9, "expected_json_schema: got .*wanted a JSON"),
    ({"working_directory": "../../x"}, 9, "working_directory: got .* a path inside the project"),
    ({"required_artifacts": ["a", "/etc/passwd"]}, 11, r"required_artifacts\[1\]: got .*passwd"),
    ({"writable_paths": ["a/../../b"]}, 10, r"writable_paths\[0\]: got .* a path inside the proj"),
]


@pytest.mark.parametrize(("change", "line", "words"), IMPOSSIBLE)
def test_what_no_work_can_fulfil_is_refused(
    tmp_path: Path, change: dict[str, Any], line: int, words: str
) -> None:
    """No agent is paid for it; a queue of another program still has it."""
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({**SMALLEST, **change}, indent=0))
    with pytest.raises(InvalidTask, match=words) as error:
        read_task_file(file)
    assert str(error.value).startswith(f"{file}:{line}: "), str(error.value)
    assert "\n" not in str(error.value)
    assert ControlTask.of_json({**SMALLEST, **change})


def test_what_work_can_fulfil_is_taken(tmp_path: Path) -> None:
    """The form of each field that can be wrong."""
    file = tmp_path / "tasks.json"
    tables = [
        {"file": "a/../b", "matches": r"(?i)^\w+$"},
        {"file": "..a.json", "json_path": '$.items[0]["a b"].id', "equals": 1},
    ]
    schema = {"type": "object", "properties": {"a": {"pattern": "^a"}}}
    task = {**FULL, "acceptance_criteria": tables, "expected_json_schema": schema}
    file.write_text(json.dumps(task))
    assert read_task_file(file) == (ControlTask.of_json(task),)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """The file may be missing, a folder, or not text."""
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "none", tmp_path, binary):
        with pytest.raises(InvalidTask, match=rf"^{file}: got .*, wanted"):
            read_task_file(file)
