"""Files of the folder `.supervisor`: YAML read with the line of each value, and merged.

A text comes from the disk or from a commit, so reading one takes the text, and a name for messages.
Keys that begin with `x-` are the user's own and are passed over everywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from attrs import field, frozen

from otpy_agents.errors import InvalidEngineFile
from otpy_monitors.yaml_text import KeyPath, YamlError, YamlText

__all__ = ["FOLDER", "YamlTable", "merged", "read_supervisor_text", "read_yaml"]

FOLDER: Final = ".supervisor"
"""The folder, in the top of a repository, that holds what the user says about the engine."""

LARGEST_FILE: Final = 1024 * 1024
"""Bytes that a file may have. A person does not write a larger one."""

_OWN: Final = "x-"
_SHOWN: Final = 60

_D = TypeVar("_D")
_E = TypeVar("_E", bound=StrEnum)


@frozen
class YamlTable:
    """A mapping in a YAML file, which knows where each of its values stands.

    Each reader takes a default for a key that is not there, and raises `InvalidEngineFile` for a
    value of another kind than its own; `null` is a value.

    Attributes:
        file: The file, as messages name it.
        values: The mapping, without the keys that begin with `x-`.
        path: Where it stands in the file; empty for the whole of it.
    """

    file: str
    values: Mapping[str, object]
    path: KeyPath
    _source: YamlText = field(repr=False, eq=False)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def line(self, *keys: str | int) -> int:
        """Return the line, from 1, of a value in it, or of itself."""
        return self._source.line((*self.path, *keys))

    def wrong(self, *keys: str | int, wanted: str, got: str | None = None) -> InvalidEngineFile:
        """Return the error for a value in it.

        Args:
            keys: Where the value stands in it; none for the table itself.
            wanted: What would have been accepted.
            got: What is there; None for the value itself.
        """
        shown = _shown(self._at(keys)) if got is None else got
        place = "".join(
            f"[{key}]" if isinstance(key, int) else f".{key}" for key in (*self.path, *keys)
        )
        return InvalidEngineFile(self.file, self.line(*keys), shown, wanted, key=place.lstrip("."))

    def only(self, *known: str) -> None:
        """Refuse keys that are not known.

        Raises:
            InvalidEngineFile: For the first of them in the file.
        """
        for key in self.values:
            if key not in known:
                wanted = f"one of {', '.join(known)}, or a key of your own as x-{key}"
                raise self.wrong(key, got=f"the unknown key {key!r}", wanted=wanted)

    def require(self, *keys: str) -> None:
        """Refuse a table without one of these keys.

        Raises:
            InvalidEngineFile: At the line of the table.
        """
        for key in keys:
            if key not in self.values:
                raise self.wrong(got=f"nothing for {key!r}", wanted=f"the key {key!r}")

    def text(self, key: str, default: _D) -> str | _D:
        """Return a text that holds something."""
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, wanted="a text")
        return value

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts that hold something."""
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, list):
            raise self.wrong(key, wanted="a list of texts")
        items = cast("list[object]", value)
        for number, item in enumerate(items):
            if not isinstance(item, str) or not item.strip():
                raise self.wrong(key, number, wanted="a text")
        return tuple(cast("list[str]", items))

    def flag(self, key: str, default: _D) -> bool | _D:
        """Return true or false."""
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, bool):
            raise self.wrong(key, wanted="true or false")
        return value

    def number(
        self,
        key: str,
        default: _D,
        *,
        wanted: str = "seconds as a number above 0",
        above: float = 0.0,
        most: float = math.inf,
    ) -> float | _D:
        """Return a finite number.

        Args:
            key: The key.
            default: Its value if it is not there.
            wanted: What the error says is wanted.
            above: It is greater than this.
            most: It is no greater than this.
        """
        if key not in self.values:
            return default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, wanted=wanted)
        if not (math.isfinite(value) and above < value <= most):
            raise self.wrong(key, wanted=wanted)
        return float(value)

    def whole(self, key: str, default: _D, *, least: int = 0) -> int | _D:
        """Return a whole number that is at least `least`."""
        if key not in self.values:
            return default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, wanted=f"a whole number from {least}")
        return value

    def choice(self, key: str, default: _E) -> _E:
        """Return a member of the enum of the default, named by its value."""
        if key not in self.values:
            return default
        names = [str(member) for member in type(default)]
        if self.values[key] not in names:
            raise self.wrong(key, wanted=f"one of {', '.join(names)}")
        return type(default)(str(self.values[key]))

    def table(self, key: str) -> YamlTable:
        """Return a mapping in it; an empty one if the key is not there."""
        return self.row(key)

    def tables(self, key: str) -> dict[str, YamlTable]:
        """Return the mappings in a mapping, by their keys."""
        table = self.table(key)
        return {name: table.table(name) for name in table}

    def items(self, key: str) -> tuple[object, ...]:
        """Return a list of whatever there is; `row` reads those of its items that are mappings."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, wanted="a list")
        return tuple(cast("list[object]", value))

    def row(self, *keys: str | int) -> YamlTable:
        """Return a mapping somewhere in it; an empty one if there is nothing."""
        value = self._at(keys, {})
        if not isinstance(value, dict):
            raise self.wrong(*keys, wanted="a mapping of keys to values")
        table = _known(cast("object", value))
        return YamlTable(self.file, table, (*self.path, *keys), self._source)

    def _at(self, keys: tuple[str | int, ...], default: object = None) -> object:
        value: Any = self.values
        for key in keys:
            value = value[key] if isinstance(key, int) else value.get(key, default)
        return value


def read_yaml(file: Path | str, text: str) -> YamlTable:
    """Return the mapping that a text holds; an empty one for an empty text.

    Args:
        file: The file, as messages name it, for example `.supervisor/gates.yaml`.
        text: What is in it.

    Raises:
        InvalidEngineFile: The text is not YAML that we read: see `otpy_monitors.yaml_text`.
    """
    if "\0" in text:
        raise InvalidEngineFile(file, None, "a binary file", "YAML")
    try:
        source = YamlText(text)
    except YamlError as error:
        raise InvalidEngineFile(file, error.line, error.got, error.wanted) from error
    except RecursionError as error:
        got = "lists or mappings that are nested hundreds of times"
        raise InvalidEngineFile(file, None, got, "YAML that a person can read") from error
    value: object = {} if source.value is None else source.value
    if not isinstance(value, dict):
        wanted = "a mapping of keys to values"
        raise InvalidEngineFile(file, source.line(()), _shown(value), wanted)
    return YamlTable(str(file), _known(source.value or {}), (), source)


def read_supervisor_text(repository: Path, name: str) -> tuple[str, str] | None:
    """Return how messages name a file of `.supervisor`, and its text; None if it is not there.

    Args:
        repository: The top of the work tree.
        name: The file in the folder, for example `gates.yaml` or `roles/dba.yaml`.

    Raises:
        InvalidEngineFile: It is there and cannot be read.
    """
    shown = f"{FOLDER}/{name}"
    path = repository / FOLDER / name
    try:
        # A pipe would never end, and what is larger takes minutes to parse.
        if not path.is_file():
            if not path.is_symlink() and not path.exists():
                return None
            raise InvalidEngineFile(shown, None, "something that is not a file", "a YAML file")
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise InvalidEngineFile(shown, None, f"{size} bytes", f"at most {LARGEST_FILE}")
        return shown, path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidEngineFile(shown, None, "a file that is not UTF-8", "UTF-8") from error
    except OSError as error:
        reason = str(error.strerror)
        raise InvalidEngineFile(shown, None, reason, "a file that can be read") from error


def merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Return one mapping laid over another (ENG-26).

    Mappings are merged key by key, a list is appended to the list below it without what that has
    already, and every other value takes the place of the one below it. Neither mapping changes.
    """
    result: dict[str, object] = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            result[key] = merged(cast("dict[str, object]", below), cast("dict[str, object]", value))
        elif isinstance(below, list) and isinstance(value, list):
            result[key] = _appended(cast("list[object]", below), cast("list[object]", value))
        else:
            result[key] = value
    return result


def _appended(below: list[object], items: list[object]) -> list[object]:
    result = list(below)
    for item in items:
        if item not in result:
            result.append(item)
    return result


def _known(values: object) -> dict[str, object]:
    table = cast("dict[str, object]", values)
    return {key: value for key, value in table.items() if not key.startswith(_OWN)}


def _shown(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
