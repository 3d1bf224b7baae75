"""JSON in an agent's final words, and whether it fits what the task expects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen
from jsonschema import exceptions, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

__all__ = ["JsonOutput", "complaints", "find_json", "full_schema"]

# Types of the seed's form. `any` is ours, as is `[]` for a list of them.
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_FENCE: Final = re.compile(
    r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL
)
_OPENING: Final = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
# An answer may be long; where JSON could begin in it is tried so often.
_TRIES: Final = 50
_COMPLAINTS: Final = 5


@frozen
class JsonOutput:
    """The JSON value in an agent's answer."""

    value: Any


def find_json(words: str) -> JsonOutput | None:
    """Return the JSON in an agent's final words.

    That is the whole answer, or the last fenced block that is JSON, or what stands at the end from
    the beginning of a line on.
    """
    for text in _candidates(words):
        try:
            return JsonOutput(json.loads(text, parse_constant=_refuse))
        except (ValueError, RecursionError):
            continue
    return None


def _candidates(words: str) -> Iterator[str]:
    yield words.strip().removeprefix("\ufeff")
    blocks = [match[2] for match in _FENCE.finditer(words) if match[1] in {"", "json", "JSON"}]
    yield from list(reversed(blocks))[:_TRIES]
    for _, match in zip(range(_TRIES), _OPENING.finditer(words), strict=False):
        yield words[match.start() :].strip()


def _refuse(name: str) -> object:
    raise ValueError(name)


def full_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema for what a task expects.

    The seed's form, in which each value is the name of a type, means an object that has all of
    these fields and no other. Anything else is a JSON Schema already.
    """
    if any(key.startswith("$") or not isinstance(schema[key], str) for key in schema):
        return dict(schema)
    return {
        "type": "object",
        "properties": {name: _of_type(kind) for name, kind in schema.items()},
        "required": list(schema),
        "additionalProperties": False,
    }


def _of_type(name: str) -> dict[str, Any]:
    kind = name.strip()
    if kind.endswith("[]"):
        return {"type": "array", "items": _of_type(kind[:-2])}
    return {} if kind == "any" else {"type": kind}


def complaints(value: Any, schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return what does not fit, most important first, or None if `schema` is no schema.

    Nothing is fetched: a `$ref` to elsewhere makes it no schema.
    """
    full = full_schema(schema)
    kind = validators.validator_for(full, default=validators.Draft202012Validator)
    try:
        kind.check_schema(full)
        checker = kind(full, registry=Registry())
        errors = sorted(checker.iter_errors(value), key=exceptions.relevance, reverse=True)
    except (exceptions.SchemaError, Unresolvable, re.error, RecursionError):
        return None
    return tuple(f"{error.json_path}: {error.message}" for error in errors[:_COMPLAINTS])
