"""What came out of a child: which exit reason it stands for, and what it must not keep alive."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, cast

from otpy._core.reason import Crashed, Exit, Ignore

if TYPE_CHECKING:
    from otpy._core.reason import ExitReason


def reason_for(error: BaseException) -> ExitReason:
    """Return the exit reason of a child out of which `error` came."""
    if isinstance(error, BaseExceptionGroup):
        error = _sole(cast("BaseException", error))
    return error.reason if isinstance(error, Exit) else Crashed(error)


def _sole(error: BaseException) -> BaseException:
    """Return the `Exit` or `Ignore` that `error` wraps, as a task group does; else `error`."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", inner)
        inner, *others = group.exceptions
        if others:
            return error
    return inner if isinstance(inner, Exit | Ignore) else error


def let_go(error: BaseException) -> None:
    """Clear the variables of the frames that `error` keeps alive; its traceback still prints.

    A child that holds its process, or why it was restarted, in a variable would else keep the
    crash before this one alive by its own crash, and that the one before, for ever.
    """
    traceback.clear_frames(error.__traceback__)
    if not (error.__context__ or error.__cause__ or isinstance(error, BaseExceptionGroup)):
        return
    seen: set[int] = set()
    errors: list[BaseException | None] = [error]
    while errors:
        one = errors.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        errors += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            errors += cast("BaseExceptionGroup[BaseException]", one).exceptions
