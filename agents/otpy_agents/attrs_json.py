"""Frozen attrs values as JSON, and back.

Strict in both directions: what is read back has every field and no other, each of its own type. A
stored value that was half understood would be gone on with as another one.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import attrs

from otpy_agents.errors import RunStateCorrupt

__all__ = ["from_plain", "to_plain"]

T = TypeVar("T")

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def to_plain(value: object) -> Any:
    """Return `value` as objects, lists, text and numbers, as `json.dumps` takes them.

    A path becomes text.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if _is_attrs(kind):
        return {name: to_plain(getattr(value, name)) for name in _hints(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: to_plain(item) for key, item in items}
    return value


def from_plain(kind: type[T], plain: object, place: str) -> T:
    """Return the value of `kind` that `to_plain` made into `plain`.

    Args:
        kind: An attrs class whose fields are attrs classes, enums, tuples, mappings by text,
            numbers, text, paths, and any of these or None; `Any` is whatever JSON holds.
        plain: As `json.loads` returns it.
        place: Where it stands, for errors.

    Raises:
        RunStateCorrupt: It is no such value.
    """
    return cast("T", _read(kind, plain, place))


@cache
def _is_attrs(kind: Any) -> bool:
    return attrs.has(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {attribute.name: hints[attribute.name] for attribute in attrs.fields(kind)}


def _read(kind: Any, plain: object, place: str) -> object:
    if kind is Any:
        return plain
    origin = get_origin(kind)
    if origin in {types.UnionType, Union}:
        if plain is None:
            return None
        kind = next(part for part in get_args(kind) if part is not type(None))
        return _read(kind, plain, place)
    if origin is tuple:
        items = cast("list[object]", _of(list, plain, place))
        item_kind = get_args(kind)[0]
        return tuple(_read(item_kind, item, f"{place}[{n}]") for n, item in enumerate(items))
    if origin is Mapping:
        entries = cast("dict[str, object]", _of(dict, plain, place))
        item_kind = get_args(kind)[1]
        return {key: _read(item_kind, item, f"{place}.{key}") for key, item in entries.items()}
    if _is_attrs(kind):
        return _read_attrs(kind, plain, place)
    if issubclass(kind, Enum):
        try:
            return kind(plain)
        except ValueError:
            wanted = " or ".join(repr(member.value) for member in kind)
            raise RunStateCorrupt(place, repr(plain), wanted) from None
    if kind is Path:
        return Path(cast("str", _of(str, plain, place)))
    if kind is float:
        return float(cast("float", _of((int, float), plain, place)))
    return _of(kind, plain, place)


def _of(kind: type | tuple[type, ...], plain: object, place: str) -> object:
    # True is an int to Python alone.
    if not isinstance(plain, kind) or (isinstance(plain, bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(one.__name__ for one in kinds)
        raise RunStateCorrupt(place, f"{plain!r:.100}", names)
    return plain


def _read_attrs(kind: type, plain: object, place: str) -> object:
    entries = cast("dict[str, object]", _of(dict, plain, place))
    hints = _hints(kind)
    if entries.keys() != hints.keys():
        unknown = sorted(entries.keys() - hints.keys())
        missing = sorted(hints.keys() - entries.keys())
        got = f"unknown {unknown} and missing {missing}"
        raise RunStateCorrupt(place, got, f"the fields of {kind.__name__}")
    values = {name: _read(hints[name], entries[name], f"{place}.{name}") for name in hints}
    try:
        return kind(**values)
    except ValueError as error:
        raise RunStateCorrupt(place, str(error), f"a sound {kind.__name__}") from error
