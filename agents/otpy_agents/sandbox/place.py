"""Files and folders of an attempt on the host, before it starts and after it has ended."""

from __future__ import annotations

import os
import shutil

import anyio.to_thread

from otpy_agents.errors import SpawnFailed
from otpy_agents.sandbox.behaviour import Job

__all__ = ["artifacts_of", "prepare", "require_program"]


async def prepare(job: Job) -> None:
    """Make the folder of artifacts and write the files of the launch.

    Raises:
        SpawnFailed: One of them cannot be written.
    """
    if job.launch.files or job.artifacts is not None:
        await anyio.to_thread.run_sync(_prepare, job)


def _prepare(job: Job) -> None:
    try:
        if job.artifacts is not None:
            job.artifacts.mkdir(parents=True, exist_ok=True)
        for path, text in job.launch.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpawnFailed(job.launch.argv[0], str(error)) from error


async def artifacts_of(job: Job) -> tuple[str, ...]:
    """Return the names of the files in the folder of artifacts, relative to it, sorted.

    A folder that was removed or cannot be read holds none.
    """
    return () if job.artifacts is None else await anyio.to_thread.run_sync(_names, job.artifacts)


def _names(folder: os.PathLike[str]) -> tuple[str, ...]:
    found = (
        os.path.relpath(os.path.join(at, name), folder)  # noqa: PTH118 - as `walk` gives it
        for at, _, names in os.walk(folder)
        for name in names
    )
    return tuple(sorted(found))


def require_program(job: Job) -> None:
    """Find the program as the system would, for a command that something else will start.

    Raises:
        SpawnFailed: There is none that may be executed, which the something else would only say on
            the error stream.
    """
    program = job.launch.argv[0]
    path = job.variables.get("PATH", os.defpath)
    where = str(job.cwd / program) if "/" in program else program
    if shutil.which(where, path=path) is None:
        there = shutil.which(where, os.F_OK, path) is not None
        raise SpawnFailed(program, "Permission denied" if there else "No such program")
