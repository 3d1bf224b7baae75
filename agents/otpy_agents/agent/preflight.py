"""What can be known to be wrong before a worker is started (TREE-40, TREE-41)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from otpy_agents.adapters.adapter import Access
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.agent.order import selection_of
from otpy_agents.errors import AdapterError, PreflightFailed
from otpy_agents.run.decide.prices import Unheld, unheld
from otpy_agents.worklist.assignment import Assignment, WorkList

__all__ = ["Needs", "check", "needs_of", "obstacles", "unheld_agents"]

_ROOM: Final = 10_000_000  # bytes without which no agent can work


@frozen(kw_only=True)
class Needs:
    """What must be there for a worker to be started.

    Attributes:
        program: Program it is, found by the worker's `PATH`, or by a path from its directory; empty
            if `cli` says all.
        helpers: More programs, found in the same way.
        cli: Name of the adapter of an agent CLI, which must be installed; empty if it is none.
        write: Whether it must be able to write in its directory.
        disk_bytes: Free space that must be there for it.
        variables: Names that must be in its environment, and not be empty.
        budget_left: What is left of its budget, in whatever that is counted in; None if nothing
            keeps it from spending. There must be something left.
    """

    program: str = ""
    helpers: tuple[str, ...] = ()
    cli: str = ""
    write: bool = False
    disk_bytes: int = 0
    variables: tuple[str, ...] = ()
    budget_left: float | None = None


def needs_of(assignment: Assignment) -> Needs:
    """Return the needs of an assignment's worker."""
    work, variables = assignment.agent, assignment.needs_env
    if work is None:
        return Needs(program=assignment.argv[0], variables=variables)
    variables = tuple(dict.fromkeys((*variables, *work.secrets)))
    return Needs(
        # A chain whose first agent is missing goes on with the next one, so the first will do.
        program=work.argv[0] if work.argv else "",
        # A path that starts from its directory may lead to what only the agent makes.
        helpers=tuple(one for one in work.verify[:1] if os.sep not in one or one.startswith("/")),
        cli="" if work.fallback else work.cli,
        write=work.access is not Access.READ,
        disk_bytes=_ROOM,
        variables=variables,
    )


def obstacles(needs: Needs, cwd: Path, environment: Mapping[str, str]) -> list[str]:
    """Return one sentence for each thing that keeps a worker from starting.

    Looks at the file system and starts nothing. An empty list is not a promise: things change.

    Args:
        needs: What must be there.
        cwd: The directory it would be started in: its own, or the work directory made for it.
        environment: Its environment; `PATH` is where programs are looked for.

    Returns:
        In the order of the checks: directory, access to it, space, program, agent CLI, variables,
        budget.
    """
    return [
        *_directory(needs, cwd),
        *_space(needs, cwd),
        *_program(needs, cwd, environment),
        *_cli(needs, environment),
        *(
            f"got no variable {name!r} in the environment, wanted it set"
            for name in needs.variables
            if not environment.get(name)
        ),
        *_budget(needs),
    ]


def unheld_agents(work: WorkList) -> Iterator[tuple[str, Unheld]]:
    """Yield agents that may exceed a limit in dollars, because a price is unknown (G-08).

    Each comes with the id of its assignment. Without such a limit there are none.
    """
    for assignment in work.assignments:
        agent = assignment.agent
        if agent is not None and (work.cost_usd is not None or agent.cost_usd is not None):
            for one in unheld(selection_of(agent).agents):
                yield assignment.id, one


def check(
    assignment: Assignment,
    cwd: Path,
    environment: Mapping[str, str],
    needs: Needs | None = None,
) -> None:
    """Raise if the worker cannot be started as things stand.

    Args:
        assignment: The assignment to start.
        cwd: As for `obstacles`.
        environment: As for `obstacles`.
        needs: What must be there; None for `needs_of` the assignment.

    Raises:
        PreflightFailed: With all obstacles at once. It is not a restart and is not counted as one.
    """
    found = obstacles(needs_of(assignment) if needs is None else needs, cwd, environment)
    if found:
        raise PreflightFailed(assignment.id, found)


def _directory(needs: Needs, cwd: Path) -> Iterator[str]:
    if not cwd.is_dir():
        yield f"got working directory {str(cwd)!r}, wanted a folder that exists"
    elif not os.access(cwd, os.R_OK | os.X_OK):
        yield f"got working directory {str(cwd)!r}, wanted one that can be entered"
    elif needs.write and not os.access(cwd, os.W_OK):
        yield f"got working directory {str(cwd)!r}, wanted one that can be written to"


def _space(needs: Needs, cwd: Path) -> Iterator[str]:
    # Where it would be made, if it is not there.
    there = next((folder for folder in (cwd, *cwd.parents) if folder.is_dir()), None)
    if needs.disk_bytes <= 0 or there is None:
        return
    free = shutil.disk_usage(there).free
    if free < needs.disk_bytes:
        yield f"got {free} bytes free for {str(cwd)!r}, wanted {needs.disk_bytes}"


def _program(needs: Needs, cwd: Path, environment: Mapping[str, str]) -> Iterator[str]:
    for program in (needs.program, *needs.helpers):
        # A name with a slash is looked up by the system after it has changed into the directory.
        name = str(cwd / program) if os.sep in program else program
        if program and not _runs(name, environment):
            yield f"got program {program!r}, wanted one that exists and can be run"


def _cli(needs: Needs, environment: Mapping[str, str]) -> Iterator[str]:
    if not needs.cli:
        return
    try:
        adapter = find_adapter(needs.cli)
    except AdapterError as error:
        yield str(error)
        return
    program = adapter.executable
    if program and not _runs(program, environment):
        hint = f" ({adapter.install_hint})" if adapter.install_hint else ""
        yield f"got no program {program!r} on the PATH, wanted {needs.cli} installed{hint}"


def _budget(needs: Needs) -> Iterator[str]:
    # Not `<= 0`: NaN means that nothing is left, too.
    if needs.budget_left is not None and not needs.budget_left > 0:
        yield f"got {needs.budget_left:g} left of the budget, wanted more than nothing"


def _runs(program: str, environment: Mapping[str, str]) -> bool:
    return shutil.which(program, path=environment.get("PATH", os.defpath)) is not None
