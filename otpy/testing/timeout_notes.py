"""The note on a timeout that fired because the clock jumped, while a peer could still have spoken.

A `TimeoutError` is raised in the task that it is for, deep in a library, and often dealt with
there. So what raises it is covered as long as a virtual loop runs: `asyncio.timeout`,
`asyncio.wait_for` (before Python 3.12, from when on it uses the former), `anyio.fail_after`, and
the timer of aiohttp, which has one of its own. Any other one is given its note where it leaves a
test or `MockClock.run`, by itself or in a group.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio


class Jump:
    """A jump to a timeout, over what a peer or a thread might have said.

    Attributes:
        to: The moment that the clock jumped to, in loop time.
    """

    def __init__(
        self, since: float, to: float, patience: float, descriptors: list[int], threads: list[str]
    ) -> None:
        """Say whose word may have been jumped over, after so many real seconds of silence."""
        self.to = to
        numbers, names = ", ".join(map(str, descriptors)), ", ".join(threads)
        peer = f"a peer outside the loop could have spoken (descriptor {numbers})"
        thread = f"a thread that waits could have woken the loop ({names})"
        which = " and ".join([peer] * bool(descriptors) + [thread] * bool(threads))
        self._note = (
            f"the mock clock jumped from {since} s to {to} s while {which},"
            f" after {patience} real seconds of silence."
            " If it only takes longer: MockClock(patience=…), clock.patience, or"
            " `with clock.hold():`"
        )

    def note_on(self, error: BaseException) -> None:
        """Add what happened to a `TimeoutError`, or to each one in a group, once."""
        if isinstance(error, BaseExceptionGroup):
            for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
                self.note_on(one)
        elif isinstance(error, TimeoutError) and not _has_a_note(error):
            error.add_note(self._note)


def _has_a_note(error: BaseException) -> bool:
    return any(note.startswith("the mock clock jumped") for note in getattr(error, "__notes__", ()))


@contextmanager
def noting(jump: Callable[[], Jump | None]) -> Generator[None]:
    """Add the jump there has been, if any, to each `TimeoutError` that comes out."""
    try:
        yield
    except (TimeoutError, BaseExceptionGroup) as error:
        if (latest := jump()) is not None:
            latest.note_on(error)
        raise


@contextmanager
def covered(jump: Callable[[], Jump | None]) -> Generator[None]:
    """Let timeouts of this thread's loop be noted inside."""
    leave: Any = asyncio.Timeout.__aexit__
    fail_after, wait_for = anyio.fail_after, asyncio.wait_for

    async def __aexit__(self: asyncio.Timeout, *ended: Any) -> bool | None:  # noqa: N807
        with noting(jump):
            result: bool | None = await leave(self, *ended)
            return result

    @contextmanager
    def noted_fail_after(*args: Any, **kwargs: Any) -> Generator[anyio.CancelScope]:
        with noting(jump), fail_after(*args, **kwargs) as scope:
            yield scope

    async def noted_wait_for(awaited: Awaitable[Any], timeout: float | None) -> Any:
        with noting(jump):
            return await wait_for(awaited, timeout)

    covers: list[tuple[Any, str, Any]] = [
        (asyncio.Timeout, "__aexit__", __aexit__),
        (anyio, "fail_after", noted_fail_after),
    ]
    if (aiohttp := sys.modules.get("aiohttp.helpers")) is not None:
        end = aiohttp.TimerContext.__exit__

        def noted_end(self: Any, *ended: Any) -> bool | None:
            with noting(jump):
                result: bool | None = end(self, *ended)
                return result

        covers.append((aiohttp.TimerContext, "__exit__", noted_end))
    if sys.version_info < (3, 12):
        covers.append((asyncio, "wait_for", noted_wait_for))
    before: list[tuple[Any, str, Any]] = [
        (place, name, vars(place)[name]) for place, name, _ in covers
    ]
    for place, name, cover in covers:
        setattr(place, name, cover)
    try:
        yield
    finally:
        for place, name, what in before:
            setattr(place, name, what)
