"""Finds JSON in a CLI's output, however it is broken into lines, and despite noise.

A line is an event, unless it is not JSON. Then it is noise, or the beginning of a document that was
written over several lines, or two events written into each other.
"""

from __future__ import annotations

import json
import re
from typing import Final, cast, final

from otpy_agents.adapters.fields import JsonObject

__all__ = ["JsonLines", "plain"]

_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_EVENT: Final = '{"type":'
_SALVAGE: Final = 8
_decoder: Final = json.JSONDecoder()


def plain(text: str) -> str:
    """Return `text` without colours and other terminal escapes."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


def _loads(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None


def _as_objects(value: object) -> list[JsonObject]:
    if isinstance(value, dict):
        return [cast("JsonObject", value)]
    if isinstance(value, list):
        found = cast("list[object]", value)
        return [cast("JsonObject", item) for item in found if isinstance(item, dict)]
    return []


def _salvage(line: str) -> list[JsonObject]:
    """Return events that stand inside a damaged line, at most a few from its end."""
    found: list[JsonObject] = []
    end = len(line)
    for _ in range(_SALVAGE):
        start = line.rfind(_EVENT, 0, end)
        if start < 0:
            break
        try:
            value, _stop = cast("tuple[object, int]", _decoder.raw_decode(line, start))
        except (ValueError, RecursionError):
            value = None
        found = _as_objects(value) + found
        end = start
    return found


@final
class JsonLines:
    """Turns lines into JSON objects."""

    def __init__(self) -> None:
        self._document: list[str] | None = None

    def feed(self, line: str) -> list[JsonObject]:
        """Return the objects that `line` completes; none if it is not JSON.

        Args:
            line: One line, without its line feed; a carriage return, colours and a byte order mark
                are taken off.
        """
        line = plain(line).rstrip("\r").removeprefix("\ufeff")
        if self._document is not None:
            return self._continue(self._document, line)
        stripped = line.strip()
        if stripped in {"{", "["}:
            self._document = [stripped]
            return []
        if not stripped.startswith(("{", "[")):
            # Noise; perhaps with an event behind it that lacks its own line.
            return _salvage(stripped) if stripped.endswith("}") else []
        value = _loads(stripped)
        return _as_objects(value) if value is not None else _salvage(stripped)

    def _continue(self, document: list[str], line: str) -> list[JsonObject]:
        if line.startswith(_EVENT) or line in {"{", "["}:
            # What began never ended; what comes now is whole.
            self._document = None
            return self.feed(line)
        document.append(line)
        # Only a bracket in the first column closes: each document is parsed once.
        if line.rstrip() not in {"}", "]"}:
            return []
        value = _loads("\n".join(document))
        self._document = None
        return _as_objects(value)
