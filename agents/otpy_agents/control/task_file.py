"""Task files: one task or an array of them, in JSON; a wrong file is refused whole (CTL-28)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast, final

from otpy_agents.adapters.registry import adapter_names
from otpy_agents.control.task import ControlTask
from otpy_agents.control.validation import refuse_impossible
from otpy_agents.errors import InvalidTask

__all__ = ["read_task_file"]

_BLANK: Final = " \t\r\n"


def read_task_file(path: Path) -> tuple[ControlTask, ...]:
    """Return the tasks of a file, in its order: one object, or an array of them (CTL-28).

    Raises:
        InvalidTask: The file cannot be read, or one of its tasks is wrong: nothing of it is taken.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        value = json.loads(text, parse_constant=_no_number)
    except IsADirectoryError:
        raise InvalidTask("", "a folder", "a file", file=path) from None
    except OSError as error:
        reason = (error.strerror or "an error").lower()
        raise InvalidTask("", reason, "a file that can be read", file=path) from None
    except UnicodeDecodeError:
        raise InvalidTask("", "bytes that are not text", "JSON in UTF-8", file=path) from None
    except json.JSONDecodeError as error:
        got = f"{error.msg.lower()} in column {error.colno}"
        raise InvalidTask("", got, "JSON", file=path, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise InvalidTask("", str(error), "JSON", file=path) from None
    tasks: list[ControlTask] = []
    known: dict[str, int] = {}
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if not items:
        raise InvalidTask("", "an empty array", "at least one task", file=path, line=1)
    for number, item in enumerate(items):
        of = f"[{number}]" if isinstance(value, list) else ""
        try:
            task = ControlTask.of_json(item)
            if task.tool not in adapter_names():
                raise InvalidTask("tool", f"'{task.tool}'", f"one of {', '.join(adapter_names())}")
            refuse_impossible(task)
            if task.task_id in known:
                got = f"'{task.task_id}', as task [{known[task.task_id]}] has it"
                raise InvalidTask("task_id", got, "another id for each task")
        except InvalidTask as error:
            key = f"{of}.{error.key}" if of and error.key else of or error.key
            line = _line(text, key)
            raise InvalidTask(key, error.got, error.wanted, file=path, line=line) from None
        known[task.task_id] = number
        tasks.append(task)
    return tuple(tasks)


def _no_number(text: str) -> object:
    raise ValueError(f"{text}, which is not a number in JSON")


def _line(text: str, key: str) -> int:
    """Return the line of a value; if it is missing, that of the object it is missing in."""
    lines = dict(_Places(text).of_value(""))
    while key not in lines:
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return lines[key]


@final
class _Places:
    """Where the values of a JSON text stand, which is known to be right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder()

    def of_value(self, key: str) -> Iterator[tuple[str, int]]:
        """Yield the key and the line of the value that follows, and of each below it."""
        opening = self._next()
        yield key, self._text.count("\n", 0, self._at) + 1
        if opening not in "{[":
            self._skip()
            return
        self._at += 1
        number = 0
        while self._next() not in "}]":
            name = f"[{number}]"
            if opening == "{":
                name = f".{self._skip()}" if key else f"{self._skip()}"
                self._next()
                self._at += 1  # the colon
            yield from self.of_value(f"{key}{name}")
            number += 1
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _next(self) -> str:
        while self._text[self._at] in _BLANK:
            self._at += 1
        return self._text[self._at]

    def _skip(self) -> object:
        value, self._at = cast("tuple[object, int]", self._decoder.raw_decode(self._text, self._at))
        return value
