"""A call that is due later, at most one at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class Alarm:
    """Calls a function later, in whatever loop runs when it is set.

    A loop that is closed before keeps its timer: the next one that runs gets a timer of its own.
    """

    __slots__ = ("_call", "_loop", "_timer")

    def __init__(self, call: Callable[[], object]) -> None:
        """Call `call`, as soon as this is set and due."""
        self._call = call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Call after `seconds`, unless the call is due already; never, where no loop runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(seconds, self._due)

    def unset(self) -> None:
        """Stop calling."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = self._timer = None

    def _due(self) -> None:
        self._loop = self._timer = None
        self._call()
