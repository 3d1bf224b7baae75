"""Exceptions of a child: their exit reasons, and the objects that they must not keep alive."""

from __future__ import annotations

import sys
from dis import opmap
from typing import TYPE_CHECKING, Final, cast

from otpy._core.reason import Crashed, Exit, Ignore
from otpy.errors import CallFailed, StepOverran

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    from otpy._core.child import Child
    from otpy._core.reason import ExitReason

_YIELD: Final = opmap["YIELD_VALUE"]


def reason_for(error: BaseException) -> ExitReason:
    """Return the exit reason of a child that raised `error`."""
    if isinstance(error, BaseExceptionGroup):
        error = _sole(cast("BaseException", error))
    return error.reason if isinstance(error, Exit) else Crashed(error)


def call_failed(path: str, reason: ExitReason) -> CallFailed:
    """Return the error of a question to a server that has ended, or is about to, for `reason`."""
    error = CallFailed(path, reason)
    error.__cause__ = reason.error if isinstance(reason, Crashed) else None
    return error


def _sole(error: BaseException) -> BaseException:
    """Return the sole `Exit`, `Ignore` or `StepOverran` in a task group's `error`; else `error`."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", inner)
        inner, *others = group.exceptions
        if others:
            return error
    return inner if isinstance(inner, Exit | Ignore | StepOverran) else error


def let_go(error: BaseException, *, shown: bool = False) -> None:
    """Clear the variables of the frames that `error` keeps alive; its traceback still prints.

    They would else live as long as the next life, which begins by making the same things: what
    fits into memory once would have to fit twice. And a child that holds its process, or why it
    was restarted, in a variable would keep every crash before its own alive.

    Args:
        error: What came out of a child.
        shown: Whether others have seen it, and may have looked at the variables.
    """
    _clear(error.__traceback__, shown=shown)
    if _is_chained(error):
        for one in _chain(error):
            _clear(one.__traceback__, shown=shown)


def part(error: BaseException, last: BaseException, child: Child) -> None:
    """Let the causes of a crash lead back to the life before, and no further.

    A child may raise its error `from` why it was restarted: each crash would else keep all before
    it alive, and be printed with them. The crash of two lives ago is taken out of the causes of
    the last one, which has been reported with it. What the last life itself raised stays. Of an
    error that is raised again in each life, the traceback shows the first time and the last.

    Args:
        error: What came out of the child just now.
        last: What came out of it before that.
        child: Whose errors they are.
    """
    if error is last:
        _fold(error.__traceback__)
    earlier = None if child.restart_state is None else child.restart_state.earlier
    if earlier is not None:
        for one in _chain(last, without=earlier):
            if one.__cause__ is earlier:
                one.__cause__ = None
            if one.__context__ is earlier:
                one.__context__ = None
    if _is_chained(error) and any(one is last for one in _chain(error)):
        child.ensure_restart_state().earlier = last
    elif child.restart_state is not None:
        child.restart_state.earlier = None


def _fold(trace: TracebackType | None) -> None:
    """Leave out all passages through the child's outermost function but the first and the last.

    Python adds the frames of each raise in front of those of the raises before.
    """
    begins: list[TracebackType] = []
    one = trace
    while one is not None:
        if not begins or one.tb_frame.f_code is begins[0].tb_frame.f_code:
            begins.append(one)
        one = one.tb_next
    if len(begins) > 2:  # noqa: PLR2004 - the latest, those between, and the first
        end = begins[0]
        while end.tb_next is not None and end.tb_next is not begins[1]:
            end = end.tb_next
        end.tb_next = begins[-1]


def _is_chained(error: BaseException) -> bool:
    """Whether there is more than `error` to `_chain`."""
    if error.__context__ is not None or error.__cause__ is not None:
        return True
    return isinstance(error, BaseExceptionGroup)


def _chain(error: BaseException, without: BaseException | None = None) -> Iterator[BaseException]:
    """Yield `error` and its causes, up to `without`."""
    seen: set[int] = set()
    errors: list[BaseException | None] = [error]
    while errors:
        one = errors.pop()
        if one is None or one is without or id(one) in seen:
            continue
        seen.add(id(one))
        errors += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            errors += cast("BaseExceptionGroup[BaseException]", one).exceptions
        yield one


def _clear(trace: TracebackType | None, *, shown: bool) -> None:
    while trace is not None:  # at every restart: `walk_tb` and `suppress` would double its time
        frame, trace = trace.tb_frame, trace.tb_next
        if not _is_suspended(frame):
            try:
                frame.clear()
            except RuntimeError:  # it is running
                continue
            if shown and sys.version_info < (3, 13):
                frame.f_locals  # noqa: B018 - the copy made for who looked: it follows suit now


def _is_suspended(frame: FrameType) -> bool:
    """Whether a coroutine waits in `frame`: to clear it would end the coroutine, without a word.

    The same error may have been raised elsewhere too, by code that caught it and lives on: by a
    caller that was told of a failed start, or waited for the same future. Python 3.13 refuses.
    """
    return frame.f_code.co_code[frame.f_lasti] == _YIELD
