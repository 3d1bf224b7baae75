"""The note on a timeout that fired because the clock jumped, while a peer could still have spoken.

A `TimeoutError` is raised in the task that it is for, deep in a library, and often dealt with
there. So what raises it is covered as long as a virtual loop runs: `asyncio.timeout`,
`asyncio.wait_for` (before Python 3.12, from when on it uses the former) and `anyio.fail_after`.
Any other one is given its note where it leaves a test or `MockClock.run`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio


class Jump:
    """A jump to a timeout, over what peers might have said.

    Attributes:
        to: The moment that the clock jumped to, in loop time.
    """

    def __init__(self, since: float, to: float, patience: float, descriptors: list[int]) -> None:
        """Say whose word may have been jumped over, after so many real seconds of silence."""
        self.to = to
        which = ", ".join(str(number) for number in descriptors)
        self._note = (
            f"the mock clock jumped from {since} s to {to} s while a peer outside the loop could"
            f" have spoken (descriptor {which}), after {patience} real seconds of silence."
            " If it only takes longer: MockClock(patience=…), clock.patience, or"
            " `with clock.hold():`"
        )

    def note_on(self, error: BaseException) -> None:
        """Add what happened to an error, once."""
        if self._note not in getattr(error, "__notes__", ()):
            error.add_note(self._note)


@contextmanager
def noting(jump: Callable[[], Jump | None]) -> Generator[None]:
    """Add the jump there has just been, if any, to each `TimeoutError` that comes out."""
    try:
        yield
    except TimeoutError as error:
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
