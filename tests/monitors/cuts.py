"""Running something and cutting it at any of its awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, final


@final
class Cut:
    """Awaits a coroutine, and cancels it at its await number `at`, counted from 0.

    Attributes:
        happened: Whether the coroutine reached that await.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, object], at: int) -> None:
        self.happened = False
        self._coroutine = coroutine
        self._at = at

    def __await__(self) -> Generator[Any, Any, None]:
        count = 0
        cut: BaseException | None = None
        while True:
            try:
                if cut is None:
                    waits = self._coroutine.send(None)
                else:
                    waits, cut = self._coroutine.throw(cut), None
            except (StopIteration, asyncio.CancelledError):
                return
            if count == self._at:
                self.happened = True
                if waits is not None:  # the coroutine no longer waits for that future
                    waits._asyncio_future_blocking = False
                    waits.cancel()
                cut = asyncio.CancelledError()
            else:
                yield waits
            count += 1


async def cut_everywhere(attempt: Callable[[int], Coroutine[Any, Any, bool]]) -> int:
    """Call `attempt` with 0, 1, 2, … until its cut does not happen; return the number of cuts."""
    at = 0
    while await attempt(at):
        at += 1
    return at
