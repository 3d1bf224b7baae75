"""An exception as part of a plan: a value that can be compared, printed, and raised many times."""

from __future__ import annotations

import copy
from typing import TypeAlias, cast

from otpy._core.reason import Exit

Shown: TypeAlias = tuple[type[BaseException], str]


def value_of(error: BaseException) -> Shown:
    """Return what `error` is compared by: its type and its arguments."""
    return type(error), text_of(error)


def text_of(value: object) -> str:
    """Return `value` as Python text; an exception as the call that makes it."""
    if isinstance(value, Exit):
        return f"Exit({value.reason!r})"
    if isinstance(value, BaseException):
        return f"{type(value).__name__}({', '.join(map(text_of, value.args))})"
    if type(value) in {list, tuple}:  # the errors of an exception group
        items = cast("list[object] | tuple[object, ...]", value)
        if any(isinstance(item, BaseException) for item in items):
            return f"[{', '.join(map(text_of, items))}]"
    return repr(value)


def fresh(error: BaseException) -> BaseException:
    """Return a copy of `error` to raise: each crash has a traceback and a context of its own."""
    cause = error.__cause__
    made = _copied(error)
    made.__traceback__ = made.__context__ = None
    made.__cause__ = cause
    made.__suppress_context__ = error.__suppress_context__
    return made


def _copied(error: BaseException) -> BaseException:
    for make in (copy.copy, _without_init):
        try:
            made: object = make(error)
        except Exception:  # noqa: BLE001, S112 - whatever its constructor objects to
            continue
        if type(made) is type(error) and text_of(made) == text_of(error):
            return made
    return error  # better the one given than another


def _without_init(error: BaseException) -> BaseException:
    """Copy an exception whose constructor does not take its `args`."""
    made = type(error).__new__(type(error), *error.args)
    made.__dict__.update(error.__dict__)
    made.args = error.args
    return made
