"""How a spec refuses a value: owner, field, the value got and the value wanted."""

from __future__ import annotations

import math
from enum import Enum
from typing import NoReturn, TypeGuard

from otpy._core.text import shown
from otpy.errors import InvalidSpec


def refuse(who: str, what: str, got: object, wanted: str) -> NoReturn:
    """Raise `InvalidSpec` in the one form that all specs use."""
    msg = f"{who}: {what} is {shown(got)}, wanted {wanted}"
    raise InvalidSpec(msg)


def refuse_unseen(who: str, what: str, got: object, wanted: str) -> NoReturn:
    """Raise `InvalidSpec` without showing `got`, which may hold secrets."""
    msg = f"{who}: {what} is of type {type(got).__name__}, wanted {wanted}"
    raise InvalidSpec(msg)


def is_number(got: object) -> TypeGuard[float]:
    """Whether `got` is a number that fits a float; True and False are not numbers."""
    if isinstance(got, float):
        return True
    if not isinstance(got, int) or isinstance(got, bool):
        return False
    try:
        float(got)
    except OverflowError:
        return False
    return True


def check_number(
    who: str, what: str, got: object, wanted: str, *, least: float, above: bool = False
) -> None:
    """Refuse a value that is not a number of at least, or above, `least`; NaN is never one."""
    if not is_number(got) or not (got > least if above else got >= least):
        refuse(who, what, got, wanted)


def check_timeout(who: str, timeout: object) -> None:
    """Raise `ValueError` unless the value is a number of seconds or None.

    NaN comes from a division or a metric that is missing. It is earlier than no time and later
    than none, so one of it would hold up the deadlines of everybody else.
    """
    if timeout is None or (isinstance(timeout, int | float) and not math.isnan(timeout)):
        return
    msg = f"{who}: timeout is {timeout!r}, wanted seconds, or None"
    raise ValueError(msg)


def check_member(who: str, what: str, got: object, enum: type[Enum]) -> None:
    """Refuse a value that is not a member of `enum`."""
    if not isinstance(got, enum):
        refuse(who, what, got, " or ".join(f"{enum.__name__}.{m.name}" for m in enum))


def check_word(who: str, what: str, got: object, enum: type[Enum]) -> None:
    """Refuse a value that `member` found to be neither a member of `enum` nor the word for one."""
    if not isinstance(got, enum):
        words = ", ".join(repr(m.value) for m in enum)
        refuse(who, what, got, f"one of {words}, or a member of {enum.__name__}")


def member(got: object, enum: type[Enum]) -> object:
    """Return the member of `enum` that the text `got` stands for; anything else as it is."""
    if isinstance(got, str):
        for one in enum:
            if one.value == got:
                return one
    return got


def check_kind(who: str, what: str, got: object, kind: type, wanted: str) -> None:
    """Refuse a value that is not of `kind`."""
    if not isinstance(got, kind):
        refuse(who, what, got, wanted)


def check_optional(who: str, what: str, got: object, kind: type) -> None:
    """Refuse a value that is neither None nor of `kind`."""
    if got is not None and not isinstance(got, kind):
        refuse(who, what, got, f"{kind.__name__}, or None")


def check_whole_seconds(who: str, what: str, got: object) -> None:
    """SUP-106: whole seconds, because a restart window counts in those."""
    if not is_number(got) or not (got >= 1 and got % 1 == 0):
        refuse(who, what, got, "whole seconds of at least 1")
