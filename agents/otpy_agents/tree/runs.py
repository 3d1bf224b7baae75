"""Where mortals have their runs made: what they need of a host of runs, and the real one."""

from __future__ import annotations

from typing import Protocol, final

from otpy_agents.errors import RunFinished, RunHeld, UnknownRun
from otpy_agents.run.host import RunHost
from otpy_agents.run.order import RunOrder
from otpy_agents.run.protocol import Answered, Control
from otpy_agents.run.result import RunResult
from otpy_agents.store.runs import RunStore

__all__ = ["HostedRuns", "Run", "Runs"]


class Run(Protocol):
    """One run, from outside; `RunHandle` is one."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def answer(self) -> str:
        """What its agent has answered in the last attempt so far."""
        ...

    async def wait(self) -> RunResult:
        """Wait until it is over; cancelling disturbs nothing."""
        ...

    async def ask(self, control: Control) -> Answered:
        """Ask something of it."""
        ...


class Runs(Protocol):
    """Makes runs. Its facts reach the narrator of the workplace."""

    async def submit(self, order: RunOrder) -> Run:
        """Begin a new run."""
        ...

    async def find(self, label: str) -> Run | None:
        """Return the unfinished run with this label, of a dead host too; None if there is none."""
        ...


@final
class HostedRuns:
    """The runs of a `RunHost`.

    Args:
        host: The host; it stands in the same tree.
        store: Its store.
    """

    def __init__(self, host: RunHost, store: RunStore) -> None:
        self._host = host
        self._store = store

    async def submit(self, order: RunOrder) -> Run:
        """Begin a new run; errors are those of `RunHost.submit`."""
        return await self._host.submit(order)

    async def find(self, label: str) -> Run | None:
        """Return the unfinished run with this label; one of a dead host is resumed (G-03).

        A mortal that was killed leaves its run at work, and so does a host: whoever comes after
        takes it up instead of beginning a second one.

        Raises:
            AgentsError: It cannot be resumed; see `RunHost.resume`.
        """
        for handle in self._host.handles.values():
            if handle.order.label == label:
                return handle
        for record in await self._store.runs(unfinished=True, label=label):
            try:
                return await self._host.resume(record.id)
            except (RunFinished, RunHeld, UnknownRun):
                continue  # it has ended, or somebody else works on it: not ours any more
        return None
