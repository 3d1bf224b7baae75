"""One run of a host, from outside."""

from __future__ import annotations

from typing import final

from otpy.errors import CallFailed
from otpy_agents.run.decide.protocol import AnswerControl, RunControl
from otpy_agents.run.decide.result import RunResult
from otpy_agents.run.decide.state import RunState
from otpy_agents.run.host.live_run import LiveRun
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.task import RunTask
from otpy_agents.sandbox.behaviour import Identity

__all__ = ["RunHandle"]


@final
class RunHandle:
    """One run of this host, from outside; it outlives the run, and the host."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run

    @property
    def id(self) -> str:
        """Its id (RUN-02)."""
        return self._run.id

    @property
    def order(self) -> RunOrder:
        """Its order."""
        return self._run.order

    @property
    def state(self) -> RunState:
        """Where it stands, as last stored."""
        return self._run.state

    @property
    def answer(self) -> str:
        """The agent's answer in the last attempt so far."""
        return self._run.answer

    @property
    def identity(self) -> Identity | None:
        """The process or container of the attempt that runs; None between two (RUN-64)."""
        return None if self._run.flight is None else self._run.flight.identity

    def crash_attempt(self) -> bool:
        """Kill the attempt that runs with SIGKILL, for chaos; return whether there is one.

        The run takes it for what it looks like, a crash, and does what its policy says.
        """
        return self._run.flight is not None and self._run.flight.crash()

    async def wait(self) -> RunResult:
        """Wait until the run is over and return its result; cancelling disturbs nothing.

        Raises:
            RunLost: Another host has taken it over.
            RunBroken: This host cannot go on with it; it is stored and can be resumed.
        """
        await self._run.wait()
        if self._run.error is not None:
            raise self._run.error
        if self._run.result is None:
            raise RuntimeError("got a run that is over, wanted one with a result")
        return self._run.result

    async def ask(self, control: RunControl) -> AnswerControl:
        """Ask something of the run, and return its answer as soon as that is stored (C-11).

        A run that is over refuses everything. Cancelling the caller takes nothing back. If the task
        of the run dies of it, the next one is asked.
        """
        while not self._run.over:
            birth, task = self._run.birth, self._run.task
            if task is not None:
                try:
                    return await RunTask.at(task).call(control, timeout=None)
                except CallFailed:
                    pass
            await birth.wait()
        ending = self._run.state.ending
        why = f"the run is over: {ending}" if ending is not None else str(self._run.error)
        return AnswerControl(False, why)
