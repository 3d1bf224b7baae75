"""An exception as it can be printed: nothing in it fails while it is, and none of it is endless."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

from otpy._core.text import has_text, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MESSAGE_LIMIT: Final = 10_000
"""Characters of an exception's message that are printed, and of each of its notes."""
CHAIN_LIMIT: Final = 20
"""Exceptions that are printed of one with its causes, contexts and members."""
FRAME_LIMIT: Final = 100
"""Frames that are printed of one traceback."""
_OUTER: Final = 20  # of them from where it begins


def printable(error: BaseException) -> BaseException:
    """Return `error`, or a stand-in where it cannot be printed or has too much to print.

    A stand-in has the type's name, the text and the traceback, each cut, and so have those of its
    causes and members. It is an instance of another class: an error that prints well stays itself.
    """
    return error if _prints_well(error) else _stand_in(error, {}) or error


def _prints_well(error: BaseException) -> bool:
    errors, seen = [error], {id(error)}
    for one in errors:  # which grows meanwhile
        if len(errors) > CHAIN_LIMIT or not _is_short(one):
            return False
        new = [other for other in (_earlier(one), *_members(one)) if other is not None]
        errors += [other for other in new if id(other) not in seen]
        seen.update(map(id, new))
    return True


def _is_short(error: BaseException) -> bool:
    return (
        has_text(error, MESSAGE_LIMIT)
        and all(isinstance(note, str) and len(note) <= MESSAGE_LIMIT for note in _notes(error))
        and sum(1 for _ in _steps(error.__traceback__)) <= FRAME_LIMIT
    )


def _earlier(error: BaseException) -> BaseException | None:
    """Return the error that is printed before `error`, as its cause."""
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _members(error: BaseException) -> Sequence[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).exceptions
    return ()


def _notes(error: BaseException) -> Sequence[object]:
    notes: Any = getattr(error, "__notes__", ())
    return cast("Sequence[object]", notes) if isinstance(notes, list | tuple) else (notes,)


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _stand_in(error: BaseException, made: dict[int, BaseException | None]) -> BaseException | None:
    """Return the stand-in for `error`; None if there are enough `made` already."""
    if id(error) in made or len(made) >= CHAIN_LIMIT:
        return made.get(id(error))
    made[id(error)] = None  # an error may have led to itself
    trace, left_out = _shortened(error.__traceback__)
    notes = [text_of(note, MESSAGE_LIMIT) for note in _notes(error)[:CHAIN_LIMIT]]
    if left_out:
        notes.append(f"({left_out:,} frames after the first {_OUTER} are not shown)")
    earlier, members = _earlier(error), _members(error)
    before = None if earlier is None else _stand_in(earlier, made)
    inside = [one for one in (_stand_in(member, made) for member in members) if one is not None]
    hidden = len(members) - len(inside) + (earlier is not None and before is None)
    if hidden:
        notes.append(f"({hidden:,} more exceptions that led here are not shown)")
    stand_in = made[id(error)] = _named_alike(error, inside).with_traceback(trace)
    stand_in.__cause__ = before if error.__cause__ is not None else None
    stand_in.__context__ = before
    stand_in.__suppress_context__ = error.__suppress_context__
    for note in notes:
        stand_in.add_note(note)
    return stand_in


def _named_alike(error: BaseException, members: Sequence[BaseException]) -> BaseException:
    """Return an exception of the type name and with the text of `error`, but of another class."""
    kind, text = type(error), text_of(error, MESSAGE_LIMIT)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    base: type[BaseException] = _Group if members else Exception
    make = cast("Callable[..., BaseException]", type(kind.__name__, (base,), names))
    return make(text, members) if members else make(text)


class _Group(BaseExceptionGroup[BaseException]):
    def __str__(self) -> str:
        return self.message  # which says already how many members there were


def _shortened(trace: TracebackType | None) -> tuple[TracebackType | None, int]:
    """Return `trace` with its outermost and innermost frames only, and how many were left out."""
    steps = list(_steps(trace))
    left_out = max(0, len(steps) - FRAME_LIMIT)
    if not left_out:
        return trace, 0
    short: TracebackType | None = None
    for step in reversed(steps[:_OUTER] + steps[_OUTER + left_out :]):
        short = TracebackType(short, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return short, left_out
