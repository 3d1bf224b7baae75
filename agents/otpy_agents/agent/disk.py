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
        while True:
            try:
                done = await work()
            except LedgerUnwritable as error:
                await asyncio.sleep(self._refused(error))
            else:
                self.written()
                return done

    def _refused(self, error: LedgerUnwritable) -> float:
        """Tell it if it is news, and return after how many seconds to try again."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
            what = "what works goes on, nothing new is begun until it can be written"
            self._tell("state.unwritable", "list", reason=f"{error.path}: {error.detail}; {what}")
        return min(max(now - self._since, _FIRST_DELAY), _LAST_DELAY)

    def written(self) -> None:
        """Something was written: tell that too, if it could not be before."""
        if self._since is not None:
            seconds = asyncio.get_running_loop().time() - self._since
            self._since = None
            self._tell("state.written", "list", seconds=round(seconds, 1))
