"""Checks the JSON in an agent's final words against the task's schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from jsonschema import exceptions, validators
from referencing import Registry
from referencing.exceptions import Unresolvable

__all__ = ["complaints", "full_schema"]

# Types of the seed's form. `any` is ours, as is `[]` for a list of them.
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_COMPLAINTS: Final = 5


def full_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a task's expected output.

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
    """Return what does not fit, most important first, or None if `schema` is not a schema.

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
