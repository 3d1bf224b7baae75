"""What an operator decides about how the tasks of a project are done."""

from __future__ import annotations

from pathlib import Path
from typing import final

from attrs import field, frozen

from otpy_agents.control.loop.machine import LoopRules
from otpy_agents.control.prompts import TaskType, shipped_task_types
from otpy_agents.run.host.walls import OPEN

__all__ = ["ControlSettings"]


@final
@frozen(kw_only=True)
class ControlSettings:
    """How the tasks of a project are done.

    Attributes:
        root: Folder of the sandbox; each project has a folder of its own in it (CTL-60).
        rules: What is retried, and what halts.
        types: Types of tasks with their guidelines (CTL-31).
        deadline: Seconds that one dispatch may take (CTL-33).
        command_deadline: Seconds that a command of a validation may take.
        sandbox: Where agents work: `process`, `bubblewrap` or `docker:IMAGE`; they reach the
            network.
        secrets: Names of more variables whose values are kept out of what is shown or stored.
    """

    root: Path
    rules: LoopRules = field(factory=LoopRules)
    types: tuple[TaskType, ...] = field(factory=shipped_task_types)
    deadline: float = 1800.0
    command_deadline: float = 600.0
    sandbox: str = OPEN
    secrets: tuple[str, ...] = ()

    def folder(self, project: str) -> Path:
        """Return the folder of a project."""
        return self.root.absolute() / project
