"""Types of tasks and their guidelines: data, which a user can replace (CTL-31)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from attrs import frozen

from otpy_agents.control.table_file import read_tables
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import InvalidControlTable

__all__ = ["TaskType", "read_task_types", "shipped_task_types", "type_of"]

_SHIPPED: Final = Path(__file__).with_name("task_types.toml")
_KEYS: Final = ("name", "aliases", "words", "needs_goal", "guidelines")


@frozen(kw_only=True)
class TaskType:
    """A type of task.

    Attributes:
        name: Its name.
        aliases: What a task may call it in `task_type`.
        words: Beginnings of words by which a text is told to be of this type.
        needs_goal: Whether the goal of the project helps with it.
        guidelines: What an agent is told.
    """

    name: str
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    needs_goal: bool = True
    guidelines: tuple[str, ...] = ()

    def is_named(self, name: str) -> bool:
        """Whether a task that calls its type `name` means this one."""
        return name.casefold() in {word.casefold() for word in (self.name, *self.aliases)}

    def is_in(self, text: str) -> bool:
        """Whether one of its words occurs in a text."""
        return any(
            re.search(rf"(?<!\w){re.escape(word)}{_ending(word)}", text, re.IGNORECASE)
            for word in self.words
        )


def _ending(word: str) -> str:
    # "ci" begins "city" and "circle"; so short a word is a whole one.
    return r"(?!\w)" if len(word) <= _SHORT else ""


_SHORT: Final = 3


def type_of(task: ControlTask, types: tuple[TaskType, ...]) -> TaskType:
    """Return the type that a task names, or else the type that its intent suggests.

    An intent that speaks of none has the last type. Instructions are not asked: nearly all of
    them speak of tests and settings somewhere.
    """
    named = [one for one in types if task.task_type and one.is_named(task.task_type)]
    intended = [one for one in types if one.is_in(task.intent)]
    return [*named, *intended, types[-1]][0]


@cache
def shipped_task_types() -> tuple[TaskType, ...]:
    """Return the types that come with otpy."""
    return read_task_types(_SHIPPED)


def read_task_types(path: Path) -> tuple[TaskType, ...]:
    """Return the types in a TOML file with tables `[[task_type]]`, in place of ours.

    Raises:
        InvalidControlTable: The file cannot be read, or says something it must not.
    """
    rows = read_tables(path, "task_type", _KEYS)
    return tuple(_task_type(path, number, row) for number, row in enumerate(rows, 1))


def _task_type(path: Path, number: int, row: dict[str, Any]) -> TaskType:
    place = f"task_type {number}"
    name, needs_goal = row.get("name"), row.get("needs_goal", True)
    if not isinstance(name, str) or not name:
        raise InvalidControlTable(path, f"{place}.name", repr(name), "a name")
    if not isinstance(needs_goal, bool):
        raise InvalidControlTable(path, f"{place}.needs_goal", repr(needs_goal), "true or false")
    lists = {key: _texts(path, f"{place}.{key}", row.get(key, [])) for key in _LISTS}
    return TaskType(name=name, needs_goal=needs_goal, **lists)


_LISTS: Final = ("aliases", "words", "guidelines")


def _texts(path: Path, place: str, value: object) -> tuple[str, ...]:
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in items):
        raise InvalidControlTable(path, place, repr(items), "a list of texts that are not empty")
    return tuple(cast("list[str]", items))
