"""The host of the agents' runs: the protocol that they need, and the real host."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol, final

from otpy_agents.completion import to_completion
from otpy_agents.errors import AgentsError, RunFinished, RunHeld, RunStateError, UnknownRun
from otpy_agents.run.decide.protocol import AnswerControl, RunControl
from otpy_agents.run.decide.result import Ending, RunResult
from otpy_agents.run.host.host import RunHost
from otpy_agents.run.host.order import RunOrder
from otpy_agents.store.runs import RunStore

__all__ = ["HostedRuns", "Run", "Runs", "ended"]


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

    async def ask(self, control: RunControl) -> AnswerControl:
        """Ask something of it."""
        ...


async def ended(run: Run) -> RunResult:
    """Return how a run ended.

    Cancellation:
        It is stopped in order; nothing of it is alive afterwards.
    """
    try:
        return await run.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(AgentsError):
            await to_completion(_stopped(run))
        raise


async def _stopped(run: Run) -> None:
    await run.ask(RunControl.STOP)
    await run.wait()


class Runs(Protocol):
    """Makes runs. Its facts reach the narrator of the workplace."""

    async def submit(self, order: RunOrder) -> Run:
        """Begin a new run."""
        ...

    async def find(self, label: str, last: str = "") -> Run | None:
        """Return the unfinished run with this label, of a dead host too; None if there is none.

        Without one it is the run `last`, if that has succeeded.
        """
        ...

    async def over(self, label: str) -> Run | None:
        """Return the newest run with this label if it is over; None if there is none, or it is not.

        For labels of which each is given to one run only.
        """
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

    async def find(self, label: str, last: str = "") -> Run | None:
        """Return the unfinished run with this label; one of a dead host is resumed (G-03).

        A killed mortal leaves its run at work, and so does a killed host: the next life takes the
        run up instead of beginning a second one. If the run succeeded before its host ended, and
        the result was not recorded, it is returned: finished work is not paid for twice. However
        it ended, its usage is told again.

        Args:
            label: What its runs are found by.
            last: Id of the run that worked for it last; empty if all is known that it came to.

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
        try:
            over = await self._host.ended(last) if last else None
        except (UnknownRun, RunStateError):  # it was forgotten, or is unreadable
            return None
        if over is None or over.order.label != label:  # that of another definition
            return None
        return over if over.state.ending is Ending.SUCCEEDED else None

    async def over(self, label: str) -> Run | None:
        """Return the newest run with this label if it is over; None if there is none, or it is not.

        For labels of which each is given to one run only.

        Raises:
            AgentsError: It cannot be read.
        """
        records = await self._store.runs(label=label)
        return await self._host.ended(records[0].id) if records else None
