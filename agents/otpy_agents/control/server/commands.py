"""Runs the commands of a validation where they can do no harm (C-44)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from otpy_agents.control.project_folder import locate
from otpy_agents.sandbox.behaviour import Mount
from otpy_agents.sandbox.commands import (
    CommandOutcome,
    CommandSandbox,
    SandboxCommand,
    place_within,
)

__all__ = ["SafeCommands"]


@final
class SafeCommands:
    """Runs commands without a network, with the project read-only except paths that a task opens.

    Args:
        deadline: Seconds that one may take.
        tell: Is given one line if they are not isolated.
    """

    def __init__(self, deadline: float, tell: Callable[[str], object]) -> None:
        self._deadline = deadline
        self._sandbox = CommandSandbox(tell, inherited=os.environ)

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
            mounts = tuple(Mount(_writable(folder, name), writable=True) for name in writes)
        except OSError as error:
            return CommandOutcome(None, f"writable_paths: {error}")
        return await self._sandbox.run(
            SandboxCommand(
                argv=argv, folder=folder, label=label, deadline=self._deadline, mounts=mounts
            )
        )


def _writable(folder: Path, name: str) -> Path:
    """Return a path in a folder that there is; an agent may have put a link there.

    Raises:
        OSError: It leads out of the folder, or cannot be made.
    """
    place = locate(folder, name)
    if isinstance(place, Path):
        return place
    made = place_within(folder, name)
    if made is None:
        raise OSError(f"{name} leads out of the project")
    made.mkdir(parents=True)
    return made
