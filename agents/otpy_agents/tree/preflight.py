"""What can be known to be wrong before a worker is started (TREE-40, TREE-41)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from otpy_agents.errors import PreflightFailed
from otpy_agents.tree.assignment import Assignment

__all__ = ["check", "obstacles"]


def obstacles(assignment: Assignment, cwd: Path, environment: Mapping[str, str]) -> list[str]:
    """Return one sentence for each thing that keeps the worker from starting.

    Looks at the file system and starts nothing. An empty list is no promise: things change.

    Args:
        assignment: What is to be started.
        cwd: The directory it would be started in: its own, or the work directory made for it.
        environment: Its environment; `PATH` is where the program is looked for.

    Returns:
        In the order of the checks: directory, access to it, program.
    """
    found: list[str] = []
    if not cwd.is_dir():
        found.append(f"got working directory {str(cwd)!r}, wanted a folder that exists")
    elif not os.access(cwd, os.R_OK | os.X_OK):
        found.append(f"got working directory {str(cwd)!r}, wanted one that can be entered")
    program = assignment.argv[0]
    # A name with a slash is looked up by the system after it has changed into the directory.
    name = str(cwd / program) if os.sep in program else program
    if shutil.which(name, path=environment.get("PATH", os.defpath)) is None:
        found.append(f"got program {program!r}, wanted one that exists and can be run")
    return found


def check(assignment: Assignment, cwd: Path, environment: Mapping[str, str]) -> None:
    """Raise if the worker cannot be started as things stand; arguments as for `obstacles`.

    Raises:
        PreflightFailed: With all obstacles at once. It is no restart and is not counted as one.
    """
    found = obstacles(assignment, cwd, environment)
    if found:
        raise PreflightFailed(assignment.id, found)
