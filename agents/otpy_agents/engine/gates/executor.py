"""Runs gates on a work tree, each where it can do no harm (ENG-12, ENG-27, ENG-30 to ENG-32)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

from anyio.to_thread import run_sync
from attrs import evolve

from otpy_agents.engine.gates.cache import CachedPass, GateCache
from otpy_agents.engine.gates.gate import Gate, GateResult, GateStatus
from otpy_agents.engine.gates.gate_file import GATES_FILE
from otpy_agents.engine.gates.keys import gate_keys, replayable
from otpy_agents.engine.gates.order import due_gates, needed_gates
from otpy_agents.engine.gates.scratch import Scratch
from otpy_agents.engine.gates.verdict import is_required, skipped, status_of
from otpy_agents.engine.roles import GateUse
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox.behaviour import Mount, Sandbox, SandboxLimits
from otpy_agents.sandbox.bubblewrap import BubblewrapSandbox
from otpy_agents.sandbox.commands import CommandSandbox, SandboxCommand

__all__ = ["GATE_LIMITS", "GateExecutor", "gate_commands"]

GATE_LIMITS: Final = SandboxLimits(memory=4 * 1024**3, cpus=2.0, pids=512)
"""The limits of a gate; `cpus` in containers only."""

_SIDE_BY_SIDE: Final = 4
"""Gates at the same time, also where there are fewer processors: many wait most of the time."""

_HANDED_ON: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV"}
)
_CONTAINER: Final = {"HOME": "/tmp"}  # noqa: S108 - its user may have none


def gate_commands(
    choice: SandboxChoice, environment: Mapping[str, str], tell: Callable[[str], object]
) -> CommandSandbox:
    """Return what runs the gates of a workflow.

    Args:
        choice: Where its workers run. With `process` gates run in bubblewrap where that works. With
            an image they run in it as the user of this host, so that what they write can be
            removed.
        environment: Of this host. Gates get what programs need from it, and nothing secret.
        tell: Is given one line, with the word `unisolated`, if nothing holds gates off the host.
    """
    sandbox: Sandbox | None = None
    if choice.name == "docker":
        from otpy_agents.sandbox.docker import (  # noqa: PLC0415 - imports an HTTP client
            DockerSandbox,
        )

        sandbox = DockerSandbox(choice.image, user=f"{os.getuid()}:{os.getgid()}")
    elif choice.name == "bubblewrap":
        sandbox = BubblewrapSandbox()
    inherited = {
        name: value
        for name, value in environment.items()
        if name in _HANDED_ON or name.startswith("LC_")
    }
    return CommandSandbox(tell, inherited=inherited, sandbox=sandbox, limits=GATE_LIMITS)


def _ignored(_: object) -> None:
    """Ignore a result that was not asked for."""


@final
class GateExecutor:
    """Runs gates on one work tree, whose worker has ended.

    They find the work tree read-only, but for what they may write: copies that the gates of one
    run share and that are thrown away. So nothing that they write is in the work tree behind them.

    Args:
        folder: The top of the work tree.
        commands: Where they run.
        cache: Passes of earlier runs; None to run each.
        label: Their owner, for people and for `CommandSandbox.clear`.
        mounts: More of the host that they see and cannot change, such as the git folder of the
            repository.
    """

    def __init__(
        self,
        folder: Path,
        commands: CommandSandbox,
        *,
        cache: GateCache | None = None,
        label: str = "gates",
        mounts: Sequence[Mount] = (),
    ) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._commands = commands
        self._cache = cache
        self._label = label
        self._mounts = tuple(evolve(mount, writable=False) for mount in mounts)

    async def run(
        self,
        gates: Mapping[str, Gate],
        uses: Sequence[GateUse],
        *,
        on_start: Callable[[Gate], object] = _ignored,
        on_result: Callable[[GateResult], object] = _ignored,
    ) -> tuple[GateResult, ...]:
        """Run gates, and those they depend on, in their order and as far as it goes side by side.

        Args:
            gates: All gates by name.
            uses: Those that are wanted.
            on_start: Is told of each that is started, at once.
            on_result: Is told of each result, at once.

        Returns:
            All results, in the order in which they became known.

        Raises:
            UnknownGate: There is none of a name that is wanted.
            GateCycle: Some depend on each other in a circle.
            SandboxUnavailable: The sandbox that was asked for does not work here.

        Cancellation:
            Those that run are ended, with all they have started.
        """
        chosen = needed_gates(gates, [use.name for use in uses])
        said = {use.name: use for use in uses}
        sandbox = await self._commands.sandbox()
        keys = await self._keys(chosen, sandbox)
        passes = await run_sync(self._passes, chosen, keys)
        results: dict[str, GateResult] = {}
        running: dict[str, asyncio.Task[GateResult]] = {}

        def take(result: GateResult) -> None:
            name = result.name
            results[name] = evolve(result, required=is_required(said.get(name)))
            on_result(results[name])

        rest = [gate for name, gate in chosen.items() if name not in passes]
        most = max(_SIDE_BY_SIDE, os.cpu_count() or 1)
        async with (
            Scratch(self._folder, rest, whole=sandbox.name == "process") as copies,
            asyncio.TaskGroup() as group,
        ):
            while len(results) < len(chosen):
                due = due_gates(chosen, results, running, most)
                for gate in due:
                    settled = _settled(gate, results, passes)
                    if settled is not None:
                        take(settled)
                        continue
                    on_start(gate)
                    running[gate.name] = group.create_task(self._one(gate, copies, sandbox))
                if not due:
                    await asyncio.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
                for name in [name for name, task in running.items() if task.done()]:
                    take(running.pop(name).result())
        await self._keep(chosen, keys, results, sandbox)
        return tuple(results.values())

    async def _one(self, gate: Gate, copies: Scratch, sandbox: Sandbox) -> GateResult:
        flaw = await run_sync(copies.flaw_of, gate)
        if flaw:
            return _unstarted(gate, flaw)
        loop = asyncio.get_running_loop()
        began = loop.time()
        command = SandboxCommand(
            argv=gate.command,
            folder=copies.folder,
            label=self._label,
            deadline=gate.timeout,
            cwd=copies.folder / gate.working_dir,
            environment={**({} if sandbox.inherits else _CONTAINER), **gate.env},
            mounts=(*self._mounts, *copies.mounts_of(gate)),
        )
        outcome = await self._commands.run(command)
        if not outcome.is_started:
            return _unstarted(gate, outcome.output)
        return GateResult(
            name=gate.name,
            status=status_of(gate, outcome.exit_code),
            output=outcome.output,
            seconds=loop.time() - began,
            exit_code=outcome.exit_code,
        )

    async def _keys(self, chosen: Mapping[str, Gate], sandbox: Sandbox) -> dict[str, str]:
        if self._cache is None:
            return {}
        variables = self._commands.variables(sandbox)
        return await run_sync(
            partial(gate_keys, chosen, self._folder, str(sandbox), variables),
            abandon_on_cancel=True,
        )

    def _passes(self, chosen: Mapping[str, Gate], keys: Mapping[str, str]) -> dict[str, CachedPass]:
        if self._cache is None:
            return {}
        found = {name: self._cache.get(key) for name, key in keys.items()}
        passes = {name: one for name, one in found.items() if one is not None}
        return {name: passes[name] for name in replayable(chosen, passes)}

    async def _keep(
        self,
        chosen: Mapping[str, Gate],
        keys: Mapping[str, str],
        results: Mapping[str, GateResult],
        sandbox: Sandbox,
    ) -> None:
        """Keep the new passes, unless their inputs were changed meanwhile."""
        fresh = {
            name: CachedPass(one.output, one.seconds)
            for name, one in results.items()
            if one.status is GateStatus.PASSED and not one.cached and name in keys
        }
        if not fresh or self._cache is None:
            return
        now = await self._keys(chosen, sandbox)
        for name, passed in fresh.items():
            if now.get(name) == keys[name]:
                await run_sync(self._cache.put, keys[name], passed)


def _settled(
    gate: Gate, results: Mapping[str, GateResult], passes: Mapping[str, CachedPass]
) -> GateResult | None:
    """Return the result of a gate that need not run; None if it must run."""
    if gate.skip_on_dependency_failure:
        for name in gate.depends_on:
            if results[name].is_hold_up:
                return skipped(gate, name)
    passed = passes.get(gate.name)
    if passed is None:
        return None
    return GateResult(
        name=gate.name,
        status=GateStatus.PASSED,
        output=passed.output,
        seconds=passed.seconds,
        cached=True,
        exit_code=0,
    )


def _unstarted(gate: Gate, why: str) -> GateResult:
    wanted = f"mend that, or say another command for {gate.name} in {GATES_FILE}"
    return GateResult(
        name=gate.name,
        status=status_of(gate, None),
        output=f"it could not be run: {why}; {wanted}",
        is_started=False,
    )
