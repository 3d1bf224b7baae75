"""JSON in an agent's final words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from attrs import frozen

__all__ = ["JsonOutput", "find_json", "json_objects"]

_FENCE: Final = re.compile(
    r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL
)
_OPENING: Final = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
# An answer may be long; where JSON could begin in it is tried so often.
_TRIES: Final = 50
# Braces of code fail at once, so that many of them may be tried.
_BRACES: Final = 2_000


@frozen
class JsonOutput:
    """The JSON value in an agent's answer."""

    value: Any


def find_json(words: str) -> JsonOutput | None:
    """Return the JSON in an agent's final words.

    That is the whole answer, or the last fenced block that is JSON, or what stands at the end from
    the beginning of a line on.
    """
    return next(_values(words), None)


def json_objects(words: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in an agent's final words, the likeliest to be its answer first.

    Those are what `find_json` looks at, and then, last first, objects with words around them.
    """
    for found in (*_values(words), *reversed([*_scattered(words)])):
        value: object = found.value
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)


def _values(words: str) -> Iterator[JsonOutput]:
    for text in _candidates(words):
        try:
            yield JsonOutput(json.loads(text, parse_constant=_refuse))
        except (ValueError, RecursionError):
            continue


def _candidates(words: str) -> Iterator[str]:
    yield words.strip().removeprefix("\ufeff")
    blocks = [match[2] for match in _FENCE.finditer(words) if match[1] in {"", "json", "JSON"}]
    yield from list(reversed(blocks))[:_TRIES]
    for _, match in zip(range(_TRIES), _OPENING.finditer(words), strict=False):
        yield words[match.start() :].strip()


def _scattered(words: str) -> Iterator[JsonOutput]:
    """Yield the objects anywhere in `words`, without those nested in others."""
    decoder, at = json.JSONDecoder(parse_constant=_refuse), 0
    for _ in range(_BRACES):
        at = words.find("{", at)
        if at < 0:
            return
        try:
            value, at = decoder.raw_decode(words, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            yield JsonOutput(value)


def _refuse(name: str) -> object:
    raise ValueError(name)
