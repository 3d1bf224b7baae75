"""Reading the state of a project: each load says which field is wrong (CTL-10, CTL-23)."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final, TypeVar, cast, final

from attrs import evolve

from otpy_agents.control.state import (
    OWN,
    RETRY_COUNT,
    VERSION,
    BlockedTask,
    CompletedTask,
    ExecutionMode,
    InHand,
    ProjectState,
    ProjectStatus,
    PromptKind,
    is_folder_name,
)
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import CorruptState, InvalidTask, MissingStateField

__all__ = ["read_state"]

E = TypeVar("E", bound=StrEnum)


def read_state(text: str | bytes) -> ProjectState:
    """Return the state that was written down.

    Raises:
        CorruptState: It is not JSON, or a field is of the wrong kind.
        MissingStateField: A field that must be there is not.
    """
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptState("", str(error), "a JSON object") from None
    return _read(_Section(_object(value, "")))


def _object(value: object, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CorruptState(key, value, "a JSON object")
    return cast("dict[str, Any]", value)


@final
class _Section:
    """One object of a state; each field is taken out of it once, and the rest is unknown."""

    def __init__(self, value: dict[str, Any], key: str = "") -> None:
        self.unknown: Final = dict(value)
        self._key = key

    def _name(self, name: str) -> str:
        return f"{self._key}.{name}" if self._key else name

    def anything(self, name: str) -> object:
        """Return a field; None if it is not there."""
        return self.unknown.pop(name, None)

    def _there(self, name: str) -> object:
        if name not in self.unknown:
            raise MissingStateField(self._name(name))
        return self.unknown.pop(name)

    def _is_there(self, name: str) -> bool:
        if self.unknown.get(name) is not None:
            return True
        self.unknown.pop(name, None)  # null is as good as missing
        return False

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        value = self._there(name)
        if not isinstance(value, str):
            raise CorruptState(self._name(name), value, "a text")
        return value

    def perhaps_text(self, name: str) -> str | None:
        return self.text(name) if self._is_there(name) else None

    def number(self, name: str) -> int:
        """Return a whole number from 0 that must be there."""
        value = self._there(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise CorruptState(self._name(name), value, "a whole number from 0")
        return value

    def perhaps_number(self, name: str) -> int | None:
        return self.number(name) if self._is_there(name) else None

    def flag(self, name: str) -> bool:
        """Return true or false, which must be there."""
        value = self._there(name)
        if not isinstance(value, bool):
            raise CorruptState(self._name(name), value, "true or false")
        return value

    def object(self, name: str) -> dict[str, Any]:
        """Return an object that must be there."""
        return _object(self._there(name), self._name(name))

    def perhaps_object(self, name: str) -> dict[str, Any] | None:
        return self.object(name) if self._is_there(name) else None

    def section(self, name: str) -> _Section:
        """Return an object that must be there, to be read field by field."""
        return _Section(self.object(name), self._name(name))

    def array(self, name: str) -> list[Any]:
        """Return an array that must be there."""
        value = self._there(name)
        if not isinstance(value, list):
            raise CorruptState(self._name(name), value, "a JSON array")
        return [*value]

    def items(self, name: str) -> list[_Section]:
        """Return the objects of an array; none if it is not there."""
        return [
            _Section(_object(item, key), key)
            for number, item in enumerate(self.array(name) if self._is_there(name) else ())
            for key in (f"{self._name(name)}[{number}]",)
        ]

    def one_of(self, name: str, values: type[E]) -> E:
        """Return a word that must be there, and is one of some."""
        text = self.text(name)
        try:
            return values(text)
        except ValueError:
            wanted = " or ".join(values)
            raise CorruptState(self._name(name), text, wanted) from None

    def task(self, name: str) -> ControlTask | None:
        """Return a task; None if there is none."""
        value = self.perhaps_object(name)
        if value is None:
            return None
        try:
            return ControlTask.of_json(value)
        except InvalidTask as error:
            key = f"{self._name(name)}.{error.key}".rstrip(".")
            raise CorruptState(key, error.got, error.wanted) from None

    def tasks(self, name: str) -> dict[str, ControlTask]:
        """Return tasks by their ids; none if there are none."""
        by_id = _Section(self.perhaps_object(name) or {}, self._name(name))
        return {key: task for key in list(by_id.unknown) if (task := by_id.task(key)) is not None}

    def counts(self) -> dict[str, int]:
        """Return the retries by task, whose fields are named after their ids (CTL-18)."""
        names = [name for name in self.unknown if name.startswith(RETRY_COUNT)]
        return {name.removeprefix(RETRY_COUNT): self.number(name) for name in names}


def _read(whole: _Section) -> ProjectState:
    supervisor, goal, queue = (whole.section(name) for name in ("supervisor", "goal", "queue"))
    # Both places of the report are in use; the one beside the sections is the younger form.
    report, older = (one.perhaps_object("last_validation_report") for one in (whole, supervisor))
    own = _Section(whole.perhaps_object(OWN) or {}, OWN)
    version = own.perhaps_number("version")
    if version not in {None, VERSION}:
        raise CorruptState(f"{OWN}.version", version, f"{VERSION}; a newer otpy has written it")
    blocked = own.tasks("blocked")
    state = ProjectState(
        status=supervisor.one_of("status", ProjectStatus),
        iteration=supervisor.number("iteration"),
        last_task_id=supervisor.perhaps_text("last_task_id"),
        halt_reason=supervisor.perhaps_text("halt_reason"),
        halt_details=_details(supervisor),
        retry_counts=supervisor.counts(),
        retry_task=supervisor.task("retry_task"),
        description=goal.text("description"),
        project_id=_project(goal),
        goal_completed=goal.flag("completed"),
        exhausted=queue.flag("exhausted"),
        completed_tasks=tuple(
            CompletedTask(
                one.text("task_id"),
                one.text("completed_at"),
                one.perhaps_object("validation_report") or {},
            )
            for one in whole.items("completed_tasks")
        ),
        blocked_tasks=tuple(
            BlockedTask(
                task_id,
                one.text("blocked_at"),
                one.text("reason"),
                blocked.get(task_id),
            )
            for one in whole.items("blocked_tasks")
            for task_id in (one.text("task_id"),)
        ),
        last_validation_report=report if report is not None else older,
        execution_mode=whole.one_of("execution_mode", ExecutionMode),
        last_updated=whole.text("last_updated"),
        in_hand=_in_hand(own),
        fencing=own.perhaps_number("fencing") or 0,
    )
    parts = {"": whole, "supervisor": supervisor, "goal": goal, "queue": queue, OWN: own}
    unknown = {name: part.unknown for name, part in parts.items() if part.unknown}
    return evolve(state, unknown=unknown)


def _project(goal: _Section) -> str | None:
    """Return the name of the project; a name that leads out of the sandbox is refused (CTL-60)."""
    name = goal.perhaps_text("project_id")
    if name is not None and not is_folder_name(name):
        raise CorruptState("goal.project_id", name, "a name for a folder")
    return name


def _details(supervisor: _Section) -> str | None:
    """Return the details of a halt; another program may have written any JSON there."""
    value = supervisor.anything("halt_details")
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _in_hand(own: _Section) -> InHand | None:
    value = own.perhaps_object("in_hand")
    if value is None:
        return None
    one = _Section(value, f"{OWN}.in_hand")
    task = one.task("task")
    if task is None:
        raise MissingStateField(f"{OWN}.in_hand.task")
    return InHand(
        task=task,
        taken_at=one.text("taken_at"),
        attempt=one.number("attempt"),
        dispatches=one.number("dispatches"),
        cut=one.flag("cut"),
        kind=one.one_of("kind", PromptKind),
        strict=one.flag("strict"),
        doubt=one.text("doubt"),
        failed=tuple(map(str, one.array("failed"))),
        asked={name: int(count) for name, count in one.object("asked").items()},
    )
