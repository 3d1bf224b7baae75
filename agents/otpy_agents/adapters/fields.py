"""Reads values out of JSON of uncertain shape: a value of a wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

__all__ = ["JsonObject", "integer", "items", "number", "obj", "objects", "text"]

JsonObject: TypeAlias = Mapping[str, object]
"""A parsed JSON object."""


def obj(value: object, *path: str) -> JsonObject:
    """Return the object at `path` below `value`; an empty one if there is none."""
    for name in path:
        value = cast("JsonObject", value).get(name) if isinstance(value, Mapping) else None
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def text(value: JsonObject, *names: str) -> str:
    """Return the first string among the fields `names` that is not empty; "" if there is none."""
    for name in names:
        found = value.get(name)
        if isinstance(found, str) and found:
            return found
    return ""


def number(value: JsonObject, *names: str) -> float:
    """Return the first number among the fields `names`; 0 if there is none."""
    for name in names:
        found = value.get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found
    return 0


def integer(value: JsonObject, *names: str) -> int:
    """Return the first number among the fields `names`, whole; 0 if there is none."""
    found = number(value, *names)
    # JSON of the standard library may hold NaN and infinity, which no integer is.
    return int(found) if abs(found) < 1 << 62 else 0


def items(value: JsonObject, name: str) -> list[object]:
    """Return the list in the field `name`; an empty one if there is none."""
    found = value.get(name)
    return cast("list[object]", found) if isinstance(found, list) else []


def objects(value: JsonObject, name: str) -> list[JsonObject]:
    """Return the objects among the list in the field `name`."""
    return [cast("JsonObject", item) for item in items(value, name) if isinstance(item, Mapping)]
