"""Finds what a task demands and no work can fulfil, before an agent is paid for it."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import normpath
from pathlib import PurePath

import regex

from otpy_agents.control.task import ControlTask, TableCriterion, shown_json
from otpy_agents.control.validation.checks import OperatorPattern, is_json_path
from otpy_agents.control.validation.json_output import complaints
from otpy_agents.errors import InvalidTask

__all__ = ["refuse_impossible"]


def refuse_impossible(task: ControlTask) -> None:
    """Refuse a task whose paths, patterns or schema can never hold.

    Raises:
        InvalidTask: It names the first of them.
    """
    for key, path in _paths(task):
        plain = PurePath(normpath(path))
        if plain.is_absolute() or plain.parts[:1] == ("..",):
            raise InvalidTask(key, shown_json(path), "a path inside the project, relative to it")
    for key, table in _tables(task):
        if table.matches is not None:
            try:
                OperatorPattern(table.matches)
            except regex.error as error:
                wanted = f"a regular expression ({error})"
                raise InvalidTask(f"{key}.matches", shown_json(table.matches), wanted) from None
        if table.json_path is not None and not is_json_path(table.json_path):
            wanted = 'a path such as "scripts.test" or "items[0].id"'
            raise InvalidTask(f"{key}.json_path", shown_json(table.json_path), wanted)
    schema = task.expected_json_schema
    if schema is not None and complaints({}, schema) is None:
        wanted = "a JSON Schema, or an object of names and types"
        raise InvalidTask("expected_json_schema", shown_json(schema), wanted)


def _tables(task: ControlTask) -> Iterator[tuple[str, TableCriterion]]:
    for number, one in enumerate(task.acceptance_criteria):
        if isinstance(one, TableCriterion):
            yield f"acceptance_criteria[{number}]", one


def _paths(task: ControlTask) -> Iterator[tuple[str, str]]:
    if task.working_directory is not None:
        yield "working_directory", task.working_directory
    for number, path in enumerate(task.required_artifacts):
        yield f"required_artifacts[{number}]", path
    for number, path in enumerate(task.writable_paths):
        yield f"writable_paths[{number}]", path
    for key, table in _tables(task):
        if table.file is not None:
            yield f"{key}.file", table.file
