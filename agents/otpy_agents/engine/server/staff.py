"""Chooses the agent of an attempt, and has it work: one run, one fresh context (ENG-01, ENG-33)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import final

from otpy_agents.adapters.vendor_hosts import vendor_hosts
from otpy_agents.agent.runs import Runs
from otpy_agents.clock import CLOCK
from otpy_agents.engine.circuits import CircuitKey, CircuitRules, CircuitStore
from otpy_agents.engine.limits import EngineLimits
from otpy_agents.engine.roles import WorkerRole
from otpy_agents.engine.routes import (
    History,
    Route,
    RouteRecord,
    chance_of,
    recalculated,
    route,
)
from otpy_agents.engine.server.recovery import dismiss_workers
from otpy_agents.engine.server.site import Definitions, EngineSettings
from otpy_agents.engine.task_types import infer_task_type
from otpy_agents.engine.workers import WorkerResult, do_work, worker_order
from otpy_agents.log import EventLog
from otpy_agents.run.decide.protocol import RunControl
from otpy_agents.run.host.host import RunHost
from otpy_agents.run.host.walls import OPEN, choice_of
from otpy_agents.sandbox.behaviour import Mount
from otpy_agents.store import RunStore

__all__ = ["Staff"]


@final
class Staff:
    """The agents that the steps of a repository can have.

    Args:
        host: Of the runs of this program.
        runs: Makes runs; those of the host, unless somebody plays the agents.
        store: Where they are kept.
        log: The event log, for what agents have achieved, and for circuits.
        settings: The settings of the person who starts workflows.
    """

    def __init__(
        self,
        host: RunHost,
        runs: Runs,
        store: RunStore,
        log: EventLog,
        settings: EngineSettings,
    ) -> None:
        self._host, self._runs, self._store = host, runs, store
        self._log, self._settings = log, settings
        self._history: History = {}

    async def route(
        self, role: WorkerRole, task: str, definitions: Definitions, *parts: str
    ) -> Route:
        """Choose the agent for an attempt (ENG-33, ENG-34).

        Args:
            role: The role of the worker.
            task: The task.
            definitions: Has the rules.
            parts: Its purpose: workflow, step and attempt.
        """
        rules = definitions.adaptive
        self._history = recalculated(self._history, await self._achieved(), rules)
        return route(
            role,
            infer_task_type(task),
            rules,
            self._history,
            chance_of(self._settings.seed, *parts),
            await self._resting(role.name, definitions.limits),
        )

    async def _achieved(self) -> History:
        found: dict[tuple[str, str], RouteRecord] = {}
        for row in (await self._log.rows("metrics")).values():
            if row["kind"] != "worker":
                continue
            key = row["task_type"], row["cli"]
            known = found.get(key, RouteRecord())
            found[key] = RouteRecord(
                attempts=known.attempts + row["count"],
                good=known.good + row["good"],
                seconds=known.seconds + row["seconds"],
            )
        return found

    async def _resting(self, step: str, limits: EngineLimits) -> frozenset[str]:
        circuits = await self._circuits(limits).circuits()
        return frozenset(
            f"{key.agent}:{key.model}" if key.model else key.agent
            for key, circuit in circuits.items()
            if key.step == step and not circuit.admits(CLOCK())
        )

    def _circuits(self, limits: EngineLimits) -> CircuitStore:
        rules = CircuitRules(
            failures=limits.circuit_failures,
            window=limits.circuit_window,
            reset=limits.circuit_reset,
        )
        return CircuitStore(self._log, self._settings.repository, rules)

    async def work(
        self,
        role: WorkerRole,
        agent: str,
        prompt: str,
        folder: Path,
        *,
        mounts: Sequence[Mount],
        label: str,
        limits: EngineLimits,
    ) -> WorkerResult:
        """Have an agent make one attempt, unless its circuit is open (C-33).

        Args:
            role: As whom.
            agent: `vendor:model`.
            prompt: Its prompt.
            folder: Where.
            mounts: What else it sees in a sandbox.
            label: Of this attempt, and of no other.
            limits: When circuits open.

        Cancellation:
            The agent is stopped in order; nothing of it is alive afterwards.
        """
        circuits, key = self._circuits(limits), CircuitKey.of(agent, role.name)
        if not await circuits.admit(key, within=role.config.timeout):
            wanted = f"wait, or `otpy-agents engine circuits --reset {key}`"
            return WorkerResult(failure=f"the circuit {key} is open: {wanted}")
        cli = agent.partition(":")[0]
        # Who is let out to nobody needs no proxy, and no program in its image that reaches one.
        hosts = (*vendor_hosts(cli), *self._settings.hosts)
        network = None if self._settings.sandbox == OPEN else hosts or False
        sandbox = choice_of(
            self._settings.sandbox,
            (cli,),
            network=network,
            environment=self._settings.environment,
            field="--sandbox",
        )
        order = worker_order(
            role,
            agent,
            prompt,
            folder,
            sandbox=sandbox,
            mounts=mounts,
            label=label,
            secrets=self._settings.secrets,
        )
        result = await do_work(self._runs, order, role.output)
        if result.is_agents_fault:
            await circuits.failed(key, result.failure or result.fault)
        elif not result.failure:
            await circuits.succeeded(key)
        return result

    async def count_failure(
        self, role: WorkerRole, agent: str, reason: str, limits: EngineLimits
    ) -> None:
        """Count a failure of an agent whose attempt was stopped because of it (C-33)."""
        await self._circuits(limits).failed(CircuitKey.of(agent, role.name), reason)

    async def dismiss(self, workflow: str, step: str) -> None:
        """End the workers of a step that an earlier life, in this host or another, has left."""
        for handle in list(self._host.handles.values()):
            if handle.order.label.startswith(f"{workflow}/{step}/"):
                await handle.ask(RunControl.STOP)
                await handle.wait()
        await dismiss_workers(self._store, workflow, step)
