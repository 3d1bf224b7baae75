"""Tasks of the control plane, as their operator writes them (CTL-26, CTL-27)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, final

from attrs import asdict, field, frozen
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from otpy_agents.errors import InvalidTask

__all__ = ["COMMAND", "TableCriterion", "ControlTask", "Status", "shown_json"]

COMMAND: Final = "command"
"""The tool whose program the task itself names."""

Status: TypeAlias = Literal["pending", "in_progress", "completed", "blocked", "failed"]
"""What became of a task, in the words of its file."""


@final
@frozen(kw_only=True)
class TableCriterion:
    """An acceptance criterion as a table: it names its check exactly.

    Attributes:
        file: Path inside the project that the other checks look at.
        exists: Whether the file is to be there; None if that is not asked.
        contains: Text that stands in it.
        matches: Regular expression that matches somewhere in it.
        lines: Number of lines it has, exactly.
        json_path: Dotted path of a value in it, such as `scripts.test` or `items.0.id`.
        equals: What that value is; with `json_path` only.
        command: Arguments of a command that is to exit with 0.
    """

    file: str | None = None
    exists: bool | None = None
    contains: str | None = None
    matches: str | None = None
    lines: int | None = None
    json_path: str | None = None
    equals: JsonValue = None
    command: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the table as a task file has it."""
        said = asdict(self, filter=lambda _, value: value is not None and value != ())
        if self.command:
            said["command"] = list(self.command)
        if self.json_path is not None:
            said["equals"] = self.equals
        return said

    def __str__(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False)


@final
@frozen(kw_only=True)
class ControlTask:
    """One task, as its operator has written it.

    Attributes:
        task_id: Unique in its project.
        intent: What it is for, in a few words.
        tool: Name of the adapter that does it; `command` for a program.
        instructions: The task, as the agent is told it.
        acceptance_criteria: What is to hold, all of it: sentences and tables.
        max_retries: Attempts after the first, at most; `retry_policy.max_retries` in the file.
        status: As the file says; the loop goes by the state.
        working_directory: Where it is done; None for the folder of the project (CTL-13).
        required_artifacts: Files that are to be there, relative to where it is done.
        test_command: A command line that tests what was done; None for none.
        tests_required: Whether it is to exit with 0.
        writable_paths: What the commands that check it may write, relative to where it is done
            (C-44); all else is read-only for them.
        expected_json_schema: Schema of the JSON that the agent answers; None if it need not.
        agent_mode: Mode or model of the tool, such as `auto`; None for its own default.
        command: Program and arguments, for the tool `command`.
        task_type: What kind of task it is; None to tell it from its text (CTL-31).
    """

    task_id: str
    intent: str
    tool: str
    instructions: str
    acceptance_criteria: tuple[str | TableCriterion, ...] = ()
    max_retries: int = 3
    status: Status = "pending"
    working_directory: str | None = None
    required_artifacts: tuple[str, ...] = ()
    test_command: str | None = None
    tests_required: bool = False
    writable_paths: tuple[str, ...] = ()
    expected_json_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    agent_mode: str | None = None
    command: tuple[str, ...] = ()
    task_type: str | None = None

    @classmethod
    def of_json(cls, value: object) -> ControlTask:
        """Return the task that JSON says; the form of a task file, and of a queue.

        Raises:
            InvalidTask: It is none; it names the first field to mend.
        """
        try:
            form = _Form.model_validate(value, strict=True)
        except ValidationError as error:
            raise _explained(error) from None
        return form.task()

    def to_json(self) -> dict[str, Any]:
        """Return the task in the form of a task file, without fields at their defaults."""
        optional = {
            "working_directory": self.working_directory,
            "required_artifacts": list(self.required_artifacts) or None,
            "test_command": self.test_command,
            "tests_required": self.tests_required or None,
            "writable_paths": list(self.writable_paths) or None,
            "expected_json_schema": self.expected_json_schema,
            "agent_mode": self.agent_mode,
            "command": list(self.command) or None,
            "task_type": self.task_type,
        }
        return {
            "task_id": self.task_id,
            "intent": self.intent,
            "tool": self.tool,
            "instructions": self.instructions,
            "acceptance_criteria": [
                one if isinstance(one, str) else one.to_json() for one in self.acceptance_criteria
            ],
            "retry_policy": {"max_retries": self.max_retries},
            "status": self.status,
            **{name: value for name, value in optional.items() if value is not None},
        }


_Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
_Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid")


class _Table(_Strict):
    file: _Text | None = None
    exists: bool | None = None
    contains: str | None = None
    matches: str | None = None
    lines: Annotated[int, Field(ge=0)] | None = None
    json_path: _Text | None = None
    equals: JsonValue = None
    command: list[_Text] = []

    def criterion(self) -> TableCriterion:
        return TableCriterion(
            file=self.file,
            exists=self.exists,
            contains=self.contains,
            matches=self.matches,
            lines=self.lines,
            json_path=self.json_path,
            equals=self.equals,
            command=tuple(self.command),
        )


class _RetryPolicy(_Strict):
    max_retries: Annotated[int, Field(ge=0, le=1000)] = 3


class _Form(_Strict):
    task_id: _Id
    intent: _Text
    tool: _Text
    instructions: _Text
    acceptance_criteria: list[_Text | _Table]
    retry_policy: _RetryPolicy = _RetryPolicy()
    status: Status = "pending"
    working_directory: _Text | None = None
    required_artifacts: list[_Text] = []
    test_command: _Text | None = None
    tests_required: bool = False
    writable_paths: list[_Text] = []
    expected_json_schema: dict[str, JsonValue] | None = None
    agent_mode: _Text | None = None
    command: list[_Text] = []
    task_type: _Text | None = None

    def task(self) -> ControlTask:
        for number, table in enumerate(self.acceptance_criteria):
            if isinstance(table, _Table):
                _check(table, f"acceptance_criteria[{number}]")
        if (self.tool == COMMAND) != bool(self.command):
            wanted = 'the program and its arguments, if "tool" is "command", and else nothing'
            raise InvalidTask("command", json.dumps(self.command), wanted)
        if not (
            self.acceptance_criteria
            or self.required_artifacts
            or self.test_command
            or self.expected_json_schema
        ):
            raise InvalidTask("acceptance_criteria", "[]", "something that can be checked")
        if self.tests_required and self.test_command is None:
            raise InvalidTask("tests_required", "true", 'a "test_command" beside it')
        return ControlTask(
            task_id=self.task_id,
            intent=self.intent,
            tool=self.tool,
            instructions=self.instructions,
            acceptance_criteria=tuple(
                one if isinstance(one, str) else one.criterion() for one in self.acceptance_criteria
            ),
            max_retries=self.retry_policy.max_retries,
            status=self.status,
            working_directory=self.working_directory,
            required_artifacts=tuple(self.required_artifacts),
            test_command=self.test_command,
            tests_required=self.tests_required,
            writable_paths=tuple(self.writable_paths),
            expected_json_schema=self.expected_json_schema,
            agent_mode=self.agent_mode,
            command=tuple(self.command),
            task_type=self.task_type,
        )


def _check(table: _Table, key: str) -> None:
    """Refuse a table that says nothing, or that no check can be made of."""
    got = json.dumps(table.model_dump(exclude_unset=True), ensure_ascii=False)
    of_file = (table.exists, table.contains, table.matches, table.lines, table.json_path)
    if table.file is None and any(one is not None for one in of_file):
        raise InvalidTask(key, got, 'a "file" that these checks look at')
    if table.file is None and not table.command:
        raise InvalidTask(key, got, 'a "file" or a "command"')
    if (table.json_path is None) != ("equals" not in table.model_fields_set):
        raise InvalidTask(key, got, '"json_path" and "equals" together')


_SHOWN: Final = 80

_WANTED: Final = {
    "missing": "this field",
    "extra_forbidden": "no such field",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "string_pattern_mismatch": "a text without control characters",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
}


def _explained(error: ValidationError) -> InvalidTask:
    """Return the first thing to mend, in one line."""
    problems = error.errors(include_url=False)
    # Of a criterion that is neither a text nor a table both are told; the deepest says the most.
    first = max(
        (one for one in problems if one["loc"][:2] == problems[0]["loc"][:2]),
        key=lambda one: len(one["loc"]),
    )
    names = [part for part in first["loc"] if not _is_branch(part)]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in names)
    got = "nothing" if first["type"] == "missing" else shown_json(first["input"])
    wanted = _WANTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    match names:
        case ["acceptance_criteria", int()] if not isinstance(first["input"], str):
            wanted = 'a sentence, or a table such as {"file": …, "contains": …}'
        case _:
            pass
    return InvalidTask(key.removeprefix("."), got, wanted)


def _is_branch(part: object) -> bool:
    """Whether a part of a place only says which form of a union was tried."""
    return isinstance(part, str) and (part.startswith("constrained-") or part == "_Table")


def shown_json(value: object) -> str:
    """Return a value as a task file has it, cut."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
