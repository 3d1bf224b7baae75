"""Runs the commands of a validation where they can do no harm (C-44)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

from otpy_agents.control.project_folder import locate
from otpy_agents.control.validation import CommandOutcome
from otpy_agents.errors import AgentsError, SandboxUnavailable
from otpy_agents.sandbox import BubblewrapSandbox, ProcessSandbox
from otpy_agents.sandbox.behaviour import Job, Mount, Sandbox
from otpy_agents.sandbox.launch import Launch

__all__ = ["SafeCommands", "programs_below"]

_OUTPUT_LIMIT: Final = 10 * 1024 * 1024

_OWN_TMP: Final = Path("/tmp")  # noqa: S108 - in bubblewrap an empty one lies over it


def programs_below(folder: Path, environment: Mapping[str, str]) -> Iterator[Mount]:
    """Yield what is to be seen of a folder that a sandbox hides: programs, and our interpreter.

    A virtual environment may be there, and a command that tests what was done needs it.
    """
    named = (Path(entry) for entry in environment.get("PATH", "").split(os.pathsep))
    bins = [Path(sys.prefix, "bin"), *(entry for entry in named if entry.is_absolute())]
    places = (place if place.parent == folder else place.parent for place in bins)
    for place in dict.fromkeys(places):
        if place != folder and place.is_relative_to(folder) and place.is_dir():
            yield Mount(place)


@final
class SafeCommands:
    """Runs commands without a network, with the project read-only.

    Where bubblewrap does not work they run as plain processes, which is told once.

    Args:
        deadline: Seconds that one may take.
        tell: Is given one line if they are not isolated.
    """

    def __init__(self, deadline: float, tell: Callable[[str], object]) -> None:
        self._deadline = deadline
        self._tell = tell
        self._sandbox: Sandbox | None = None
        self._count = 0

    async def run(
        self, argv: tuple[str, ...], folder: Path, label: str, *, writes: Sequence[str] = ()
    ) -> CommandOutcome:
        """Run a command in a folder, and return how it ended.

        Args:
            argv: Program and arguments.
            folder: The project; absolute.
            label: Of the attempt whose work is validated.
            writes: Paths in the folder that it may write; one that is not there is made as a
                folder.

        Cancellation:
            The command is ended, with all it has started.
        """
        try:
            open_to_it = [Mount(_writable(folder, name), writable=True) for name in writes]
        except OSError as error:
            return CommandOutcome(None, f"writable_paths: {error}")
        sandbox = self._sandbox = self._sandbox or await self._chosen()
        self._count += 1
        job = Job(
            run_id=f"validation-{os.getpid()}",
            attempt=self._count,
            launch=Launch(argv=argv),
            cwd=folder,
            environment=dict(os.environ),
            marker={"OTPY_VALIDATION": f"{label}/{os.getpid()}/{self._count}"},
            network=False,
            mounts=(*programs_below(_OWN_TMP, os.environ), Mount(folder), *open_to_it),
            output_limit=_OUTPUT_LIMIT,
        )
        lines: list[str] = []
        try:
            async with sandbox.run(job, on_stdout=lines.append, on_stderr=lines.append) as running:
                try:
                    async with asyncio.timeout(self._deadline):
                        ended = await running.wait()
                except TimeoutError:
                    said = f"ended after {self._deadline:g} s"
                    return CommandOutcome(None, said, is_late=True)
        except AgentsError as error:
            return CommandOutcome(None, str(error))
        return CommandOutcome(ended.exit_code, "\n".join(lines))

    async def _chosen(self) -> Sandbox:
        sandbox = BubblewrapSandbox()
        try:
            await sandbox.check()
        except SandboxUnavailable as error:
            self._tell(f"commands of validations are not isolated here: {error}")
            return ProcessSandbox()
        return sandbox


def _writable(folder: Path, name: str) -> Path:
    """Return a path in a folder that there is; an agent may have put a link there.

    Raises:
        OSError: It leads out of the folder, or cannot be made.
    """
    place = locate(folder, name)
    if isinstance(place, Path):
        return place
    made = Path(os.path.realpath(folder / name))
    if not made.is_relative_to(os.path.realpath(folder)):
        raise OSError(f"{name} leads out of the project")
    made.mkdir(parents=True)
    return made
