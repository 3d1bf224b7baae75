"""Files of an operator with tables of his own, in TOML: more halts, other types of tasks."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from otpy_agents.errors import InvalidControlTable

__all__ = ["read_tables"]


def read_tables(path: Path, name: str, keys: Collection[str]) -> list[dict[str, Any]]:
    """Return the tables `[[name]]` of a file, at least one.

    Args:
        path: The file.
        name: Of the tables; the file has no others.
        keys: What a table may say.

    Raises:
        InvalidControlTable: The file cannot be read, or says something else.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or "an error").lower()
        raise InvalidControlTable(path, "", reason, "a file that can be read") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidControlTable(path, "", str(error), "a TOML file") from error
    unknown = sorted(content.keys() - {name})
    if unknown:
        raise InvalidControlTable(path, unknown[0], "an unknown key", f"[[{name}]]")
    rows: object = content.get(name)
    if not isinstance(rows, list) or not rows:
        got = "nothing" if rows is None else f"{rows!r}"
        raise InvalidControlTable(path, name, got, f"tables [[{name}]]")
    tables = cast("list[object]", rows)
    return [_table(path, name, number, row, keys) for number, row in enumerate(tables, 1)]


def _table(
    path: Path, name: str, number: int, value: object, keys: Collection[str]
) -> dict[str, Any]:
    place = f"{name} {number}"
    if not isinstance(value, dict):
        raise InvalidControlTable(path, place, repr(value), f"a table [[{name}]]")
    row = cast("dict[str, Any]", value)
    unknown = sorted(row.keys() - set(keys))
    if unknown:
        wanted = ", ".join(sorted(keys))
        raise InvalidControlTable(path, f"{place}.{unknown[0]}", "an unknown key", wanted)
    return row
