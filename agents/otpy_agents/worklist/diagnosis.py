"""Where in a TOML file a mistake is, and how to say so in one line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from attrs import frozen
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from otpy_agents.errors import InvalidWorkList

__all__ = ["KeyPath", "ListProblem", "earliest", "explain", "key_lines", "not_toml"]

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value sits in a TOML document, for example `("assignment", 3, "deadline")`."""

_SHOWN: Final = 60
_AT: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@frozen
class ListProblem:
    """One mistake: the place, the value got and the value wanted, as a person would write them."""

    path: KeyPath
    got: str
    wanted: str


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, on which each key of a TOML text begins.

    `tomllib` keeps no positions. A prefix of the text that parses ends between two statements, so a
    key that is there for the first time belongs to the statement that began right after the prefix
    that parsed before. Keys inside an array or an inline table share the line of their statement.

    Takes time in the square of the number of lines; meant for the one message about a bad file.

    Args:
        text: A text that `tomllib` accepts.

    Returns:
        Every table, key and item of an array, in the order of the file.
    """
    found: dict[KeyPath, int] = {}
    lines = text.split("\n")
    begun = 1
    for count in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("\n".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        for path in _paths(document, ()):
            found.setdefault(path, begun)
        begun = count + 1
    return found


def _paths(value: object, above: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of everything below `value`, outer before inner."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(cast("dict[str | int, object]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[object]", value)))
    for key, below in items:
        yield (*above, key)
        yield from _paths(below, (*above, key))


def earliest(
    problems: Sequence[ListProblem], text: str, raw: Mapping[str, Any], file: Path
) -> InvalidWorkList:
    """Return the error for the problem that comes first in the file.

    Args:
        problems: At least one.
        text: The file's text, which is valid TOML.
        raw: The text, parsed.
        file: Its name for the message.
    """
    lines = key_lines(text)

    def line(problem: ListProblem) -> int:
        # A missing key has no line; the nearest table around it has one.
        path = problem.path
        while path and path not in lines:
            path = path[:-1]
        return lines.get(path, 1)

    first = min(problems, key=line)
    return InvalidWorkList(file, line(first), _spoken(first.path, raw), first.got, first.wanted)


def explain(details: ErrorDetails, tables: Mapping[str, type[BaseModel]]) -> ListProblem:
    """Turn one finding of pydantic into a problem.

    Args:
        details: The finding.
        tables: The model of each kind of table by its name, that of the whole document by "". The
            description of a field is what is wanted of it.
    """
    # pydantic marks the name of a variable, as opposed to its value, by a part of its own.
    path = tuple(part for part in details["loc"] if part != "[key]")
    own = 1 if path[0] == "list" else 2
    table, keys = (tables[str(path[0])], path[own:]) if path[own:] else (tables[""], path)
    fields = {field.alias or name: field for name, field in table.model_fields.items()}
    if details["type"] == "extra_forbidden":
        return ListProblem(path, "an unknown key", "one of " + ", ".join(fields))
    wanted = fields[str(keys[0])].description or "a table"
    if details["type"] == "missing":
        return ListProblem(path, "nothing", wanted)
    # What a variable holds may be a secret, so of those only the type is told (G-04).
    hidden = keys[0] == "env" and len(keys) > 1 and "[key]" not in details["loc"]
    value = details["input"]
    got = f"a value of type {type(value).__name__}" if hidden else _shown(value)
    return ListProblem(path, got, wanted)


def not_toml(error: tomllib.TOMLDecodeError, text: str, file: Path) -> InvalidWorkList:
    """Return the error for a text that is not TOML, with the line out of tomllib's message."""
    message = str(error)
    at = _AT.search(message)
    if at is None:
        return InvalidWorkList(file, 1, "", message, "TOML")
    # At the end of the document: the last line with something in it is the one left unfinished.
    line = int(at[1]) if at[1] else text.rstrip().count("\n") + 1
    got = message[: at.start()]
    return InvalidWorkList(file, line, "", got[:1].lower() + got[1:], "TOML")


def _spoken(path: KeyPath, raw: Mapping[str, Any]) -> str:
    """Return `path` as a person would say it: `assignment 'zip'.argv[1]`."""
    parts: list[str] = []
    rest = path
    if len(path) > 1 and path[0] in {"assignment", "gang"} and isinstance(path[1], int):
        entry: object = raw[path[0]][path[1]]
        table = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        name = table.get("id", table.get("name"))
        number = f"#{path[1] + 1}"
        # A name that is itself the mistake does not tell which table is meant.
        named = isinstance(name, str) and path[2:] not in {("id",), ("name",)}
        parts.append(f"{path[0]} {name!r}" if named else f"{path[0]} {number}")
        rest = path[2:]
    for part in rest:
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part}" if parts else part)
    return "".join(parts)


def _shown(value: object) -> str:
    """Return a value as it would stand in the file, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
