"""The host of runs: a tree in which any number of runs are made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast, final

import otpy
from otpy import ChildSpec, DynamicSupervisor, Process, Strategy, Supervisor, SupervisorSpec
from otpy.errors import NotRunning
from otpy.reports import ReportHook
from otpy_agents.clock import Clock
from otpy_agents.completion import to_completion
from otpy_agents.errors import (
    AgentsError,
    InvalidRunSetting,
    RunFinished,
    RunHeld,
    UnknownRun,
)
from otpy_agents.log import CommandLog, Teller, log_beside
from otpy_agents.operator import operator_supervisor
from otpy_agents.run.host.admission import check, sandbox_of
from otpy_agents.run.host.controls import run_commands
from otpy_agents.run.host.creation import create, take_over, told_again
from otpy_agents.run.host.facts import Listener, LogLine, RunLeft
from otpy_agents.run.host.gate import RunGate, Turn
from otpy_agents.run.host.handle import RunHandle
from otpy_agents.run.host.job import Surroundings
from otpy_agents.run.host.live_run import LiveRun, Site
from otpy_agents.run.host.log_listener import told_to
from otpy_agents.run.host.order import RunOrder
from otpy_agents.run.host.pool import RUNS, pool_spec, run_spec
from otpy_agents.run.host.stored_form import StoredForm
from otpy_agents.sandbox.behaviour import Sandbox
from otpy_agents.store.runs import RunStore

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = ["RunHandle", "RunHost", "run_host"]


@final
class RunHost:
    """A tree of runs; made by `run_host`, or put into a bigger tree by `spec`.

    Args:
        store: The open store of runs.
        listeners: The listeners for the facts of all runs, in order.
        capacity: Runs that are worked on at the same time; more wait for their turn, in order
            (RUN-03). None is no limit.
        sandboxes: Sandboxes by name, before those that are built in.
        environment: What attempts inherit; None for that of this process.
        secrets: More secret values to keep out of what is shown or stored, by name.
        clock: Tells the time; None for that of this machine.
        turn: Asked before a run goes on that has waited for its account; None: it does.

    Raises:
        InvalidRunSetting: `capacity` is less than 1.
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
        clock: Clock | None = None,
        turn: Turn | None = None,
    ) -> None:
        if capacity is not None and capacity < 1:
            raise InvalidRunSetting("host.capacity", repr(capacity), "at least 1, or None")
        around = Surroundings(
            environment=os.environ if environment is None else environment, secrets=secrets or {}
        )
        self._site = Site(
            store=store,
            gate=RunGate(capacity),
            around=around,
            listeners=tuple(listeners),
            clock=Clock() if clock is None else clock,
            turn=turn,
        )
        self._sandboxes = dict(sandboxes or {})
        self._handles: dict[str, RunHandle] = {}
        self._runs: dict[str, LiveRun] = {}
        self._resuming = asyncio.Lock()
        self._pool: DynamicSupervisor | None = None
        store.on_astray(self.tell_all)

    def spec(self) -> SupervisorSpec:
        """Return the branch to be put into a tree; once, and while the store is open.

        When its supervisor stops it, all runs are stopped in order (`Control.STOP`).
        """
        store = self._site.store
        commands = run_commands(lambda: self.handles)
        path, clean = log_beside(store.path), self._site.around.own_redaction()
        return SupervisorSpec(
            "RunHost",
            [
                pool_spec(),
                ChildSpec("desk", self._desk),
                operator_supervisor(store.socket, commands, CommandLog(path, clean=clean)),
            ],
            strategy=Strategy.REST_FOR_ONE,
        )

    @property
    def handles(self) -> Mapping[str, RunHandle]:
        """The runs that this host works on, by id; those that are over are not among them."""
        return {run: self._handles[run] for run, one in self._runs.items() if not one.over}

    async def submit(self, order: RunOrder) -> RunHandle:
        """Begin a new run, or queue it.

        Raises:
            InvalidRunSetting: `cwd` is not a folder, `artifacts` cannot be made one, or there is no
                such sandbox.
            AdapterError: No agent of the order has a CLI that is known.
            CliMissing: No agent of the order has a CLI that is installed, with the install hint.
            SandboxUnavailable: The sandbox does not work here (RUN-01).
            LedgerError: It cannot be stored.
            NotRunning: The host is not started, or is ending.

            In all these cases nothing was started, and but for the last nothing was stored.

        Cancellation:
            The run is begun, or not; if it is, `handles` has it.
        """
        sandbox = sandbox_of(order.sandbox, self._sandboxes)
        await check(order, sandbox, self._site.around)
        self._running_pool()
        return await to_completion(self._begin(order, sandbox))

    async def resume(self, run: str) -> RunHandle:
        """Resume a stored run of a dead host, or one that this host could not continue.

        What is left of its attempt is adopted if it is a container, and ended otherwise. A run that
        this host works on is just returned.

        Raises:
            UnknownRun: There is none.
            RunHeld: Another host works on it, and lives.
            RunFinished: It is over.
            RunStateError: Its state cannot be read.
            InvalidRunSetting: There is no such sandbox.
            SandboxUnavailable: Its sandbox does not work here.
            NotRunning: The host is not started, or is ending.
        """
        async with self._resuming:  # a second one finds what the first has begun
            return await self._resume(run)

    async def _resume(self, run: str) -> RunHandle:
        known = self._runs.get(run)
        if known is not None and not known.over:
            return self._handles[run]
        if known is not None:
            await known.gone.wait()
        stored = await self._site.store.run(run)
        if stored.record.finished is not None:
            raise RunFinished(run, stored.record.status)
        form = StoredForm.from_json(stored.state)
        sandbox = sandbox_of(form.order.sandbox, self._sandboxes)
        await sandbox.check()
        self._running_pool()
        return await to_completion(self._go_on(run, sandbox))

    async def ended(self, run: str) -> RunHandle | None:
        """Return a stored run that is over, and tell its usage and result again.

        For those who were to take that in, and whose host ended before. None if it is not over.

        Raises:
            UnknownRun: There is none.
            RunStateError: Its state cannot be read.
            InvalidRunSetting: There is no such sandbox.
        """
        stored = await self._site.store.run(run)
        form = StoredForm.from_json(stored.state)
        if form.state.ending is None:
            return None
        sandbox = sandbox_of(form.order.sandbox, self._sandboxes)
        return RunHandle(told_again(self._site, stored, form, sandbox))

    async def recover(self) -> tuple[RunHandle, ...]:
        """Resume every unfinished run whose host is dead, oldest first.

        One that cannot be resumed is passed over; a `RunLeft` says why. One that another host has
        taken meanwhile is passed over silently.

        Raises:
            LedgerError: The store cannot be read.
        """
        found: list[RunHandle] = []
        for record in await self._site.store.dead_runs():
            try:
                found.append(await self.resume(record.id))
            except (RunHeld, RunFinished, UnknownRun):
                pass
            except AgentsError as error:
                self._site.tell(RunLeft(run=record.id, at=self._site.clock(), error=error))
        return tuple(found)

    def kill_attempts(self) -> None:
        """End all attempts at once, without grace; what follows is as it would be otherwise."""
        for run in self._runs.values():
            if run.flight is not None:
                run.flight.stop(kill=True)

    # --- beginning --------------------------------------------------------------------------------

    async def _begin(self, order: RunOrder, sandbox: Sandbox) -> RunHandle:
        return await self._start(await create(self._site, order, sandbox))

    async def _go_on(self, run: str, sandbox: Sandbox) -> RunHandle:
        return await self._start(await take_over(self._site, run, sandbox))

    async def _start(self, run: LiveRun) -> RunHandle:
        self._runs[run.id] = run
        self._handles[run.id] = handle = RunHandle(run)
        try:
            process = await self._running_pool().start_child(run_spec(run))
        except BaseException:
            self._forget(run)
            raise
        if process is not None:

            def ended(process: Process, reason: otpy.ExitReason) -> None:
                self._forget(run)
                run.abandon(process, reason)

            process.on_exit(ended)
        return handle

    def tell_all(self, line: str) -> None:
        """Tell a line in the log of each run."""
        for run in self._runs.values():
            run.tell(LogLine, text=f"[supervisor] {line}")

    def _forget(self, run: LiveRun) -> None:
        self._runs.pop(run.id, None)
        self._handles.pop(run.id, None)

    # --- the tree ---------------------------------------------------------------------------------

    async def _desk(self, *, task_status: TaskStatus[None]) -> None:
        """Know the pool for as long as it runs."""
        me = otpy.current()
        parent = cast("Supervisor", me.parent)
        self._pool = cast("DynamicSupervisor", parent.child(RUNS).supervisor)
        task_status.started()
        try:
            await me.stop_requested()
        finally:
            self._pool = None

    def _running_pool(self) -> DynamicSupervisor:
        if self._pool is None:
            raise NotRunning("RunHost")
        return self._pool


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
    cancellation while that is going on kills what still runs. Nothing of any attempt is alive
    afterwards. What happens to runs is told to the event log beside the store.

    Args:
        store: As for `RunHost`.
        listeners: As for `RunHost`.
        capacity: As for `RunHost`.
        sandboxes: As for `RunHost`.
        environment: As for `RunHost`.
        secrets: As for `RunHost`.
        hooks: The receivers of the tree's reports; the default logs them through structlog.

    Raises:
        InvalidRunSetting: `capacity` is less than 1.
        SupervisorFailed: The tree has failed.
    """
    around = Surroundings(
        environment=os.environ if environment is None else environment, secrets=secrets or {}
    )
    teller = Teller(
        log_beside(store.path),
        clean=around.own_redaction(),
        complain=lambda line: host.tell_all(f"events are not told: {line}"),
    )
    host = RunHost(
        store,
        listeners=[*listeners, told_to(teller)],
        capacity=capacity,
        sandboxes=sandboxes,
        environment=environment,
        secrets=secrets,
    )
    async with teller, otpy.start(host.spec(), hooks=hooks) as root:
        try:
            yield host
        finally:
            try:
                await root.stop()
            except asyncio.CancelledError:
                host.kill_attempts()
                raise
