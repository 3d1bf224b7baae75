"""The resources of one repository's workflows, and their settings in `.supervisor`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, final

from attrs import field, frozen

from otpy_agents.engine.approval import ApprovalRules, load_approval
from otpy_agents.engine.circuits import CIRCUITS, CircuitChanged
from otpy_agents.engine.events import ENGINE_EVENTS, EngineEvent
from otpy_agents.engine.gates import Gate, gate_commands, load_gates
from otpy_agents.engine.limits import EngineLimits, load_limits
from otpy_agents.engine.outputs import OutputKind
from otpy_agents.engine.projections import PROJECTIONS, STREAMS, place_of
from otpy_agents.engine.roles import RoleBook, WorkerRole, load_roles
from otpy_agents.engine.routes import AdaptiveRules, read_adaptive
from otpy_agents.engine.supervisor_files import FOLDER, read_supervisor_text
from otpy_agents.engine.workflow.machine import RoleRules, WorkflowRules
from otpy_agents.log import EventLog
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox.commands import CommandSandbox
from otpy_agents.store.lock import HostLock
from otpy_agents.workspace import StepTrees

__all__ = ["Definitions", "EngineSettings", "engine_log", "gate_sandbox", "lock_of", "stream_of"]

_YAML: Final = ".yaml"


@final
@frozen(kw_only=True)
class EngineSettings:
    """Settings by the person who starts workflows.

    Attributes:
        repository: Top folder of the repository; absolute.
        state: The store of runs; the event log lies beside it.
        sandbox: Where workers and gates run, as it was asked for: `docker:IMAGE`, `bubblewrap` or
            `process` (C-24).
        hosts: What workers reach of the network, beside the hosts of their own vendor; without
            effect in `process`.
        secrets: Names of more variables whose values are kept out of what is shown or stored.
        environment: What workers and gates inherit.
        seed: Of the chance by which agents are chosen; None for one of its own (ENG-34).
        listen: Called with each event that is told; must not block.
        note: Called with each line that is not an event.
    """

    repository: Path
    state: Path
    sandbox: str
    hosts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(factory=lambda: os.environ)
    seed: int | None = None
    listen: Callable[[EngineEvent], object] = lambda _: None
    note: Callable[[str], object] = lambda _: None


def stream_of(repository: Path, workflow: str) -> str:
    """Return the stream of a workflow in the event log."""
    return f"{STREAMS}{place_of(repository)}/{workflow}"


def lock_of(state: Path, workflow: str) -> HostLock:
    """Return the lock of a workflow, which dies with the host that works on it."""
    return HostLock(state.with_name(f"{state.name}.{workflow}"))


def gate_sandbox(
    sandbox: str, environment: Mapping[str, str], note: Callable[[str], object] = lambda _: None
) -> CommandSandbox:
    """Return where the gates of a workflow run.

    Args:
        sandbox: Where its workers run, as it was asked for.
        environment: Of this host.
        note: Is given one line if nothing holds gates off the host.
    """
    name, _, image = sandbox.partition(":")
    return gate_commands(SandboxChoice(name=name, image=image), environment, note)


def engine_log(path: Path, *, clean: Callable[[str], str] = str) -> EventLog:
    """Return an event log with the tables of the engine (ENG-06, ENG-07).

    Args:
        path: The log.
        clean: Takes secrets out of a text before it is written (G-04).
    """
    types, tables = (*ENGINE_EVENTS, CircuitChanged), (*PROJECTIONS, CIRCUITS)
    return EventLog(path, types=types, projections=tables, clean=clean)


@final
@frozen(kw_only=True)
class Definitions:
    """What `.supervisor` says at the commit a workflow begins at.

    A file that git knows counts as that commit has it, whatever lies in the work tree, where a
    worker might have written; one that git does not know counts as it lies there.

    Attributes:
        commit: That commit.
        roles: Roles, the shipped ones included.
        gates: Gates, the shipped ones included.
        approval: The rules for asking a person.
        limits: Seconds, and when circuits open.
        adaptive: How agents are chosen.
        changed: Files that lie there otherwise than the commit has them.
    """

    commit: str
    roles: RoleBook
    gates: Mapping[str, Gate]
    approval: ApprovalRules
    limits: EngineLimits
    adaptive: AdaptiveRules
    changed: tuple[str, ...] = ()

    @classmethod
    async def at(cls, trees: StepTrees, commit: str, repository: Path) -> Definitions:
        """Read them.

        Raises:
            InvalidEngineFile: One of them is wrong.
            GitFailed: Git refuses.
        """
        below = await trees.texts_below(commit, FOLDER)
        texts = {name: text for name, text in below.items() if name.endswith(_YAML)}
        lying = _lying(repository / FOLDER)
        known = {**lying, **texts}
        changed = tuple(sorted(name for name, text in texts.items() if lying.get(name) != text))
        roles = {
            Path(name).stem: (f"{FOLDER}/{name}", text)
            for name, text in known.items()
            if name.startswith("roles/")
        }

        def of(name: str) -> tuple[str | None, str]:
            return known.get(name), f"{FOLDER}/{name}"

        return cls(
            commit=commit,
            roles=load_roles(roles),
            gates=load_gates(*of("gates.yaml")),
            approval=load_approval(*of("approval.yaml")),
            limits=load_limits(*of("limits.yaml")),
            adaptive=read_adaptive(*of("adaptive.yaml")),
            changed=changed,
        )

    def rules(self, roles: frozenset[str]) -> WorkflowRules:
        """Return what of it the machine of a workflow has to know.

        Args:
            roles: Those its items name.

        Raises:
            UnknownRole: There is no such role.
        """
        return WorkflowRules(
            roles={name: _rules_of(self.roles.role(name)) for name in roles},
            approval=self.approval,
            limits=self.limits,
        )


def _rules_of(role: WorkerRole) -> RoleRules:
    return RoleRules(
        writes=role.output is OutputKind.IMPLEMENTATION,
        proposes=role.output is OutputKind.PLAN,
        has_gates=bool(role.gates),
        max_retries=role.config.max_retries,
    )


def _lying(folder: Path) -> dict[str, str]:
    """Return the texts that lie in a folder, by their path in it; no link is followed."""
    found: dict[str, str] = {}
    for place, names, files in os.walk(folder) if not folder.is_symlink() else ():
        names.sort()
        for name in files:
            path = Path(place, name)
            if not name.endswith(_YAML) or path.is_symlink() or not path.is_file():
                continue
            said = path.relative_to(folder).as_posix()
            text = read_supervisor_text(folder.parent, said)
            if text is not None:
                found[said] = text[1]
    return found
