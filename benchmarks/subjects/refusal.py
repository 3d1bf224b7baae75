"""Refusing a workload of which one child crashes, for projects that restart none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from benchmarks.subject import Boom, Unsupported

if TYPE_CHECKING:
    from benchmarks.subject import Body


@final
class Refusal:
    """Cancels the workload when a child crashes, which would wait for its restart."""

    def __init__(self, subject: str) -> None:
        """Speak for the project `subject`, in the task of the workload."""
        self._subject = subject
        self._workload = asyncio.current_task()
        self._crashed = False

    async def run(self, body: Body) -> None:
        """Be a child."""
        try:
            await body()
        except Boom:
            self._crashed = True
            if self._workload is not None:
                self._workload.cancel()

    def check(self) -> None:
        """Refuse, if a child has crashed."""
        if self._crashed:
            if self._workload is not None:
                self._workload.uncancel()
            raise Unsupported(f"{self._subject} has no restart of one child")
