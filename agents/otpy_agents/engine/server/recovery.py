"""Settles the workflows of dead hosts before anything else is done (ENG-10)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from otpy_agents.clock import CLOCK
from otpy_agents.completion import to_completion
from otpy_agents.engine.approval import ApprovalRules
from otpy_agents.engine.events import FailureCause
from otpy_agents.engine.limits import EngineLimits
from otpy_agents.engine.server.site import gate_sandbox, lock_of
from otpy_agents.engine.server.workflow import load_state
from otpy_agents.engine.workflow.machine import RoleRules, WorkflowMachine, WorkflowRules
from otpy_agents.engine.workflow.protocol import (
    SettleStep,
    StepSettled,
    StopWanted,
    TellEvents,
    WorkflowBegun,
    WorkflowNews,
)
from otpy_agents.engine.workflow.state import WorkflowState
from otpy_agents.errors import (
    AgentsError,
    AlreadyRunning,
    LedgerError,
    RunFinished,
    StepTreeTaken,
    StepTreeUnwritable,
)
from otpy_agents.log import Append, EventLog
from otpy_agents.run.host.dismissal import dismiss
from otpy_agents.sandbox.commands import CommandSandbox
from otpy_agents.store import RunStore
from otpy_agents.workspace import StepTrees

__all__ = ["dismiss_workers", "settle_dead"]

_GONE: Final = StopWanted(FailureCause.INTERRUPTED, "its host died")


async def settle_dead(
    log: EventLog,
    runs: RunStore,
    trees: StepTrees,
    repository: Path,
    environment: Mapping[str, str],
) -> tuple[str, ...]:
    """Settle the workflows of this repository whose hosts are dead.

    Workers and gates that a dead host has left are ended. Each step is completed if git has its
    commit, and failed if not; its work tree is gone then. Killed in the middle, the next call does
    the rest.

    Args:
        log: The event log, with the tables of the engine.
        runs: The store of runs.
        trees: The repository.
        repository: Its folder, as the log has it.
        environment: Where a sandbox finds what it is made of.

    Returns:
        A line for each workflow that was settled, or could not be, which holds up nothing else.

    Raises:
        LedgerError: The log cannot be used.
        GitFailed: The repository cannot be used.
    """
    await trees.settle_apply()
    said: list[str] = []
    unsettled: set[str] = set()
    for name, row in (await log.rows("workflows")).items():
        if row["status"] != "running" or row["repository"] != str(repository):
            continue
        lock = lock_of(runs.path, name)
        try:
            lock.acquire()
        except AlreadyRunning:
            continue
        try:
            state = await load_state(log, row["stream"])
            if state is not None and not state.is_over:
                commands = gate_sandbox(state.started.sandbox, environment)
                settling = _settle(log, runs, trees, commands, row["stream"], state)
                await to_completion(settling)
                said.append(f"{name}: its host died; what it left was settled")
            lock.remove()
        except LedgerError:
            raise
        except AgentsError as error:
            unsettled.add(name)
            said.append(f"{name}: its host died, and what it left is not settled: {error}")
        finally:
            lock.release()
    _remove_locks(runs.path)
    for tree in await trees.leftovers():
        if tree.workflow not in unsettled:
            try:
                await trees.settle(tree)
            except StepTreeTaken:  # another program settles it
                pass
            except StepTreeUnwritable as error:
                said.append(f"{tree.workflow}: what it left is not settled: {error}")
    return tuple(said)


def _remove_locks(state: Path) -> None:
    """Remove the locks of hosts that were killed before their first event, or after their last."""
    for file in state.parent.glob(f"{state.name}.wf-*.lock"):
        lock = lock_of(state, file.stem.removeprefix(f"{state.name}."))
        with contextlib.suppress(AlreadyRunning):
            lock.acquire()
            lock.remove()


async def _settle(
    log: EventLog,
    runs: RunStore,
    trees: StepTrees,
    commands: CommandSandbox,
    stream: str,
    state: WorkflowState,
) -> None:
    machine = WorkflowMachine(_no_rules(state))
    waiting: list[WorkflowNews] = [WorkflowBegun(state, _GONE)]
    while waiting:
        for effect in machine.handle(waiting.pop(0), CLOCK()):
            if isinstance(effect, TellEvents):
                await log.append(Append(stream, effect.events))
            elif isinstance(effect, SettleStep):
                await dismiss_workers(runs, state.id, effect.step)
                await commands.clear(f"{state.id}/{effect.step}")
                tree = await trees.find(state.id, effect.step)
                commit = (
                    await trees.applied(state.id, effect.step, since=state.started.base)
                    if tree is None
                    else await trees.settle(tree)
                )
                waiting.append(StepSettled(effect.step, commit or ""))


async def dismiss_workers(runs: RunStore, workflow: str, step: str) -> None:
    """End the workers of a step that a dead host has left."""
    for run in await runs.dead_runs():
        if run.label.startswith(f"{workflow}/{step}/"):
            with contextlib.suppress(RunFinished):  # somebody else was quicker
                await dismiss(runs, run.id)


def _no_rules(state: WorkflowState) -> WorkflowRules:
    """Return rules that settle: nothing is begun by them, whatever its roles are called."""
    names = {item.role for item in state.started.items}
    return WorkflowRules(
        roles=dict.fromkeys(names, RoleRules()), approval=ApprovalRules(), limits=EngineLimits()
    )
