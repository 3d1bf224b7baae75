"""From an assignment to the order of a run."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve

from otpy_agents.run.decide.chain import AgentInstance, AgentSelection, SelectionMode
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.run.host.walls import choice_of
from otpy_agents.sandbox import Mount
from otpy_agents.store.sessions import RestartContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otpy_agents.agent.desk import Desk
    from otpy_agents.run.decide.result import VendorSession
    from otpy_agents.worklist.assignment import AgentWork, Assignment

__all__ = ["order_of", "sandbox_for", "selection_of"]

_ACCOUNT_REST: Final = 300.0
"""Seconds after which agents try again whose account has failed; a list waits as long as needed."""


def selection_of(work: AgentWork) -> AgentSelection:
    """Return the agents that may work on it, the first one first (C-02)."""
    clis = work.clis
    return AgentSelection(
        agents=tuple(
            AgentInstance(
                agent_id=cli, agent_cli=cli, model=work.model if cli == work.cli else None
            )
            for cli in clis
        ),
        selection_mode=SelectionMode.FALLBACK,
        agent_fallbacks=dict(pairwise(clis)),
    )


def sandbox_for(
    own: SandboxChoice, assignment: Assignment, work: AgentWork, environment: Mapping[str, str]
) -> SandboxChoice:
    """Return where the attempts of an agent are made: as its list says, else its workplace.

    Args:
        own: That of the workplace.
        assignment: Its assignment.
        work: The part of it that is the agent's work.
        environment: That of the host.

    Raises:
        InvalidRunSetting: What it has to write there is not there.
    """
    if not work.sandbox:
        return own
    choice = choice_of(
        work.sandbox,
        work.clis,
        network=work.network,
        environment={**environment, **assignment.env},
        field="sandbox",
    )
    return evolve(choice, limits=own.limits, mounts=(*own.mounts, *choice.mounts))


def order_of(
    desk: Desk,
    assignment: Assignment,
    work: AgentWork,
    *,
    prompt: str,
    cwd: Path,
    session: VendorSession | None,
    mounts: tuple[Mount, ...] = (),
) -> RunOrder:
    """Return the order of the next run of an agent.

    Args:
        desk: The desk of its list.
        assignment: Its assignment.
        work: The part of it that is the agent's work.
        prompt: Its prompt this time.
        cwd: Where.
        session: The session to continue; None for a new one.
        mounts: More mounts of its sandbox.

    Raises:
        InvalidRunSetting: Its sandbox cannot be had, see `sandbox_for`.
    """
    workplace, name = desk.workplace, assignment.id
    folder = desk.folders.work(name)
    sandbox = sandbox_for(workplace.sandbox, assignment, work, os.environ)
    # Who works elsewhere has to see its notes all the same.
    seen = () if cwd == folder else (Mount(folder, writable=True),)
    own = {
        "OTPY_ASSIGNMENT": name,
        "OTPY_CHECKPOINT": str(desk.folders.checkpoint(name)),
        "OTPY_NOTES": str(desk.folders.notes(name)),
        "OTPY_WORK": str(folder),
    }
    return RunOrder(
        prompt=prompt,
        cwd=cwd,
        selection=selection_of(work),
        policy=evolve(
            workplace.policy,
            resume=work.context is not RestartContext.FRESH,
            max_wait=None,
            account_rest=_ACCOUNT_REST,
        ),
        access=work.access,
        argv=work.argv,
        sandbox=evolve(
            sandbox,
            limits=evolve(sandbox.limits, grace=assignment.grace),
            mounts=(*sandbox.mounts, *seen, *mounts),
        ),
        passed=tuple(dict.fromkeys((*assignment.needs_env, *work.secrets))),
        secrets=work.secrets,
        artifacts=work.artifacts,
        environment={**assignment.env, **own},
        session=None if work.context is RestartContext.FRESH else session,
        label=desk.memory.label(assignment),
    )
