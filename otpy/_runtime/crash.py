"""What came out of a child: which exit reason it stands for, and what it must not keep alive."""

from __future__ import annotations

from dis import opmap
from typing import TYPE_CHECKING, Final, cast

from otpy._core.reason import Crashed, Exit, Ignore
from otpy.errors import CallFailed

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from otpy._core.reason import ExitReason

_YIELD: Final = opmap["YIELD_VALUE"]


def reason_for(error: BaseException) -> ExitReason:
    """Return the exit reason of a child out of which `error` came."""
    if isinstance(error, BaseExceptionGroup):
        error = _sole(cast("BaseException", error))
    return error.reason if isinstance(error, Exit) else Crashed(error)


def call_failed(path: str, reason: ExitReason) -> CallFailed:
    """Return the error of a question to a server that has ended, or is about to, for `reason`."""
    error = CallFailed(path, reason)
    error.__cause__ = reason.error if isinstance(reason, Crashed) else None
    return error


def _sole(error: BaseException) -> BaseException:
    """Return the `Exit` or `Ignore` that `error` wraps, as a task group does; else `error`."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", inner)
        inner, *others = group.exceptions
        if others:
            return error
    return inner if isinstance(inner, Exit | Ignore) else error


def let_go(error: BaseException, package: str = "") -> None:
    """Clear the variables of the frames that `error` keeps alive; its traceback still prints.

    A child that holds its process, or why it was restarted, in a variable would else keep the
    crash before this one alive by its own crash, and that the one before, for ever.

    Args:
        error: What came out of a child.
        package: Whose frames to clear, as a name begins; those of all if none is given.
    """
    _clear(error.__traceback__, package)
    if not (error.__context__ or error.__cause__ or isinstance(error, BaseExceptionGroup)):
        return
    seen: set[int] = set()
    errors: list[BaseException | None] = [error]
    while errors:
        one = errors.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        _clear(one.__traceback__, package)
        errors += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            errors += cast("BaseExceptionGroup[BaseException]", one).exceptions


def _clear(trace: TracebackType | None, package: str) -> None:
    while trace is not None:  # at every restart: `walk_tb` and `suppress` would double its time
        frame, trace = trace.tb_frame, trace.tb_next
        if package and not str(frame.f_globals.get("__name__")).startswith(package):
            continue
        if not _is_suspended(frame):
            try:  # noqa: SIM105
                frame.clear()
            except RuntimeError:  # it is running
                pass


def _is_suspended(frame: FrameType) -> bool:
    """Whether a coroutine waits in `frame`: to clear it would end the coroutine, without a word.

    The same error may have been raised elsewhere too, by code that caught it and lives on: whoever
    was told that a child did not start, or waited for the same future. Python 3.13 refuses.
    """
    return frame.f_code.co_code[frame.f_lasti] == _YIELD
