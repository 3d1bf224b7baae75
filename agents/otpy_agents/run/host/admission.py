"""The checks before a run is stored (RUN-01)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from otpy_agents.adapters.registry import find_adapter
from otpy_agents.errors import AgentsError, CliMissing, InvalidRunSetting
from otpy_agents.run.decide.chain import AgentInstance
from otpy_agents.run.host.job import Surroundings, inherited
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.sandbox.behaviour import Sandbox
from otpy_agents.sandbox.bubblewrap import BubblewrapSandbox
from otpy_agents.sandbox.process import ProcessSandbox

__all__ = ["check", "make_artifacts", "sandbox_of"]

_BUILT_IN = ("process", "bubblewrap", "docker")


def sandbox_of(choice: SandboxChoice, given: Mapping[str, Sandbox]) -> Sandbox:
    """Return the sandbox that `choice` names.

    Args:
        choice: The choice.
        given: Sandboxes of the host, by name; they win over those that are built in.

    Raises:
        InvalidRunSetting: There is none of that name, or it lacks its image, or it cannot hold
            the network off.
    """
    if choice.name in given:
        return given[choice.name]
    match choice.name:
        case "process":
            if choice.hosts is not None:
                wanted = "None: 'process' has all of the network, bubblewrap and docker do without"
                raise InvalidRunSetting("order.sandbox.hosts", f"{choice.hosts}", wanted)
            return ProcessSandbox()
        case "bubblewrap":
            return BubblewrapSandbox()
        case "docker":
            if not choice.image:
                raise InvalidRunSetting("order.sandbox.image", "''", "the name of an image")
            from otpy_agents.sandbox.docker import (  # noqa: PLC0415 - imports an HTTP client
                DockerSandbox,
            )

            return DockerSandbox(choice.image)
        case _:
            names = " or ".join(dict.fromkeys((*given, *_BUILT_IN)))
            raise InvalidRunSetting("order.sandbox.name", repr(choice.name), names)


async def check(order: RunOrder, sandbox: Sandbox, around: Surroundings) -> None:
    """Find out whether a run can be begun at all; nothing is started that stays.

    The folder of artifacts is made, which is the only way to know that it can be.

    Raises:
        InvalidRunSetting: Its work directory is none, or its folder of artifacts cannot be one.
        AdapterError: No agent has a CLI that is known.
        CliMissing: No agent has a CLI that is installed. In a container nobody can tell before.
        SandboxUnavailable: Its sandbox does not work here.
    """
    if not await anyio.to_thread.run_sync(order.cwd.is_dir):
        raise InvalidRunSetting("order.cwd", f"'{order.cwd}'", "a folder that is there")
    problems: list[AgentsError] = []
    for agent in order.candidates:
        problem = _problem(agent, order, sandbox, around)
        if problem is None:
            break
        problems.append(problem)
    else:
        raise problems[0]
    await sandbox.check()
    if order.artifacts is not None:
        await anyio.to_thread.run_sync(make_artifacts, order.artifacts)


def make_artifacts(folder: Path, field: str = "order.artifacts") -> None:
    """Make a folder for artifacts, which is the only way to know that it can be.

    Args:
        folder: Which; it may be there.
        field: The name of the setting, for messages.

    Raises:
        InvalidRunSetting: It cannot be made, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        got = f"'{folder}' ({reason.lower()})"
        raise InvalidRunSetting(field, got, "a folder that can be made and written to")


def _problem(
    agent: AgentInstance, order: RunOrder, sandbox: Sandbox, around: Surroundings
) -> AgentsError | None:
    """Return why an agent cannot be started; None if nothing speaks against it."""
    try:
        adapter = find_adapter(agent.agent_cli)
    except AgentsError as error:
        return error
    program = adapter.executable or next(iter(order.argv), "")
    if not program:
        return InvalidRunSetting("order.argv", repr(order.argv), "a program and its arguments")
    path = inherited(order, around, inherits=True).get("PATH", os.defpath)
    where = str(order.cwd / program) if "/" in program else program
    if sandbox.inherits and shutil.which(where, path=path) is None:
        return CliMissing(program, adapter.install_hint)
    return None
