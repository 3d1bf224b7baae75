"""The tree inside the applications of the frameworks."""

from __future__ import annotations

import asyncio
from typing import TypeAlias, final

from anyio.abc import TaskStatus

import otpy
from otpy import ChildSpec, Supervisor, SupervisorSpec
from tests.runtime.children import Boom

Tree: TypeAlias = otpy.Lifespan[Supervisor]


@final
class Kettle:
    """A child that takes `seconds` to start, has tea, and crashes when told to.

    Attributes:
        log: `+` when it is ready, `-` when it has ended.
        boils_over: Set it, and the tree gives up.
    """

    def __init__(self, seconds: float = 3) -> None:
        self._seconds = seconds
        self.log: list[str] = []
        self.boils_over = asyncio.Event()

    async def live(self, *, task_status: TaskStatus[str]) -> None:
        await asyncio.sleep(self._seconds)
        self.log.append("+")
        task_status.started("tea")
        try:
            await self.boils_over.wait()
        finally:
            self.log.append("-")
        raise Boom("boiled over")

    def lifespan(self) -> Tree:
        """Return a lifespan with the kettle only."""
        spec = SupervisorSpec("web", [ChildSpec("kettle", self.live)], intensity=0)
        return otpy.lifespan(spec)


def tea(root: Supervisor) -> str:
    """Return the answer of every handler."""
    return str(root.child("kettle").value)
