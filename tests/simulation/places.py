"""Odd places for a request to the tree: deep in a recursion, in a thread, outside of a task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from otpy import OtpyError

if TYPE_CHECKING:
    from tests.simulation.ledger import Ledger

_T = TypeVar("_T")

Place = Callable[[Callable[[], Any]], Any]
"""Calls what it is given at some place, and returns what that returned."""


def here(call: Callable[[], _T]) -> _T:
    """Make the call right here."""
    return call()


def near_the_limit(left: int) -> Place:
    """Return the place from which only `left` more calls fit into the recursion limit."""
    return lambda call: _below(frames_left() - left, call)


def frames_left(found: int = 0) -> int:
    """Return how many more calls fit into the recursion limit, by trying, because C counts too."""
    try:
        return frames_left(found + 1)
    except RecursionError:
        return found


def _below(depth: int, call: Callable[[], _T]) -> _T:
    return call() if depth <= 1 else _below(depth - 1, call)


def in_a_thread(call: Callable[[], _T]) -> _T:
    """Make the call in another thread, and wait for the end of that thread."""
    outcome: list[Any] = [None, None]
    context = copy_context()

    def run() -> None:
        try:
            outcome[0] = context.run(call)
        except BaseException as error:  # noqa: BLE001 - it is raised below
            outcome[1] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if outcome[1] is not None:
        raise outcome[1]
    return cast("_T", outcome[0])


def begin(ledger: Ledger, errand: Coroutine[Any, Any, object], place: Place = here) -> None:
    """Take the first step of `errand` at `place`; a separate task goes on with it.

    Raises:
        BaseException: The error of the first step.
    """
    try:
        awaited = place(partial(errand.send, None))
    except StopIteration:
        return
    context = ledger.tree.context.copy()  # not a child's, or it would end with that
    task = ledger.loop.create_task(_carried_on(errand, awaited), name="errand", context=context)
    ledger.errands.append(task)


async def _carried_on(errand: Coroutine[Any, Any, object], awaited: object) -> None:
    with suppress(OtpyError, TimeoutError):
        await _rest(errand, awaited)


@coroutine
def _rest(errand: Coroutine[Any, Any, object], awaited: object) -> Generator[Any, Any, object]:
    """Go on with a coroutine that was begun elsewhere, and that waits for `awaited`."""
    while True:
        step: Callable[[], object]
        try:
            step = partial(errand.send, (yield awaited))
        except BaseException as error:  # noqa: BLE001 - the errand hears of it
            step = partial(errand.throw, error)
        try:
            awaited = step()
        except StopIteration as end:
            return end.value
