"""Waiting for a disk that takes no writes: nothing new is begun, and nobody is at fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

from otpy_agents.errors import LedgerUnwritable

__all__ = ["Disk"]

T = TypeVar("T")

_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 30.0


@final
class Disk:
    """What a project writes to; whoever cannot write waits here, and a person is told once.

    Args:
        tell: Called as `tell(name, id, **detail)`.
    """

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._since: float | None = None

    async def until_written(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` again and again, after 1 to 30 seconds, until the disk takes it.

        What `work` wrote before it failed is not undone: it must bear to be done again.

        Raises:
            Exception: What `work` raises, but for `LedgerUnwritable`.

        Cancellation:
            That of `work`; between two tries nothing is left to do.
        """
        delay = _FIRST_DELAY
        while True:
            try:
                done = await work()
            except LedgerUnwritable as error:
                self._refused(error)
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LAST_DELAY)
            else:
                self._taken()
                return done

    def _refused(self, error: LedgerUnwritable) -> None:
        if self._since is None:
            self._since = asyncio.get_running_loop().time()
            what = "what works goes on, nothing new is begun until it can be written"
            self._tell("state.unwritable", "list", reason=f"{error.path}: {error.detail}; {what}")

    def _taken(self) -> None:
        if self._since is not None:
            seconds = asyncio.get_running_loop().time() - self._since
            self._since = None
            self._tell("state.written", "list", seconds=round(seconds, 1))
