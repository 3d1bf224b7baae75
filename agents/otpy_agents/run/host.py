"""The host of runs: a tree in which any number of runs are made, and the handles to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import final

from otpy import SupervisorSpec
from otpy.reports import ReportHook
from otpy_agents.run.facts import Listener
from otpy_agents.run.order import RunOrder
from otpy_agents.run.protocol import Answered, Control
from otpy_agents.run.result import RunResult
from otpy_agents.run.sandbox.behaviour import Sandbox
from otpy_agents.run.state import RunState
from otpy_agents.store.runs import RunStore

__all__ = ["RunHandle", "RunHost", "run_host"]


@final
class RunHandle:
    """One run of this host, from outside.

    It outlives the run, and the host.
    """

    @property
    def id(self) -> str:
        """Its id (RUN-02)."""
        raise NotImplementedError

    @property
    def state(self) -> RunState:
        """Where it stands, as last stored."""
        raise NotImplementedError

    @property
    def answer(self) -> str:
        """What the agent has answered in the last attempt so far."""
        raise NotImplementedError

    async def wait(self) -> RunResult:
        """Wait until the run is over and return its result; cancelling disturbs nothing.

        Raises:
            RunLost: Another host has taken it over.
            RunBroken: This host cannot go on with it; it is stored and can be resumed.
        """
        raise NotImplementedError

    async def ask(self, control: Control) -> Answered:
        """Ask something of the run, and return its answer as soon as that is stored (C-11).

        A run that is over refuses everything. Cancelling the caller takes nothing back.
        """
        raise NotImplementedError


@final
class RunHost:
    """A tree of runs; made by `run_host`, or put into a bigger tree by `spec`.

    Args:
        store: The open store of runs.
        listeners: Who is told the facts of all runs, in order.
        capacity: Runs that are worked on at the same time; more wait for their turn, in order
            (RUN-03). None is no limit.
        sandboxes: Sandboxes by name, before those that are built in.
        environment: What attempts inherit; None for that of this process.
        secrets: More secret values to keep out of what is shown or stored, by name.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        listeners: Iterable[Listener] = (),
        capacity: int | None = None,
        sandboxes: Mapping[str, Sandbox] | None = None,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        raise NotImplementedError

    def spec(self) -> SupervisorSpec:
        """Return the branch to be put into a tree; once, and while the store is open."""
        raise NotImplementedError

    @property
    def handles(self) -> Mapping[str, RunHandle]:
        """All runs that this host has, or had, by id."""
        raise NotImplementedError

    async def submit(self, order: RunOrder) -> RunHandle:
        """Begin a new run, or queue it.

        Raises:
            InvalidRunSetting: `cwd` is no folder, or there is no such sandbox.
            UnknownAdapter: No agent of the order has a CLI that is known.
            CliMissing: No agent of the order has a CLI that is installed, with the install hint.
            SandboxUnavailable: The sandbox does not work here (RUN-01).
            LedgerError: It cannot be stored.

            In all these cases nothing was stored and nothing was started.
        """
        raise NotImplementedError

    async def resume(self, run: str) -> RunHandle:
        """Go on with a stored run of a dead host, or one that this host could not go on with.

        What is left of its attempt is adopted if it is a container, and ended otherwise.

        Raises:
            UnknownRun: There is none.
            RunHeld: Another host works on it, and lives.
            RunFinished: It is over.
            RunStateError: Its state cannot be read.
            SandboxUnavailable: Its sandbox does not work here.
        """
        raise NotImplementedError

    async def recover(self) -> tuple[RunHandle, ...]:
        """Resume every unfinished run whose host is dead, oldest first.

        One that cannot be resumed is passed over; a `RunLeft` says why.
        """
        raise NotImplementedError


@asynccontextmanager
async def run_host(
    store: RunStore,
    *,
    listeners: Iterable[Listener] = (),
    capacity: int | None = None,
    sandboxes: Mapping[str, Sandbox] | None = None,
    environment: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    hooks: Iterable[ReportHook] | None = None,
) -> AsyncGenerator[RunHost]:
    """Run a host for as long as the block lasts.

    Leaving it stops all runs in order (`Control.STOP`), each within its grace and a few seconds. A
    cancellation while that is going on kills them; those stay unfinished in the store, and can be
    resumed. Nothing of any attempt is alive afterwards.

    Args:
        store: As for `RunHost`.
        listeners: As for `RunHost`.
        capacity: As for `RunHost`.
        sandboxes: As for `RunHost`.
        environment: As for `RunHost`.
        secrets: As for `RunHost`.
        hooks: Who gets the reports of the tree; the default logs them through structlog.
    """
    raise NotImplementedError
    yield  # pragma: no cover
