"""What an agent is told of its project: as little as its task needs, by rules (CTL-30)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from otpy_agents.control.prompts.task_types import TaskType, shipped_task_types, type_of
from otpy_agents.control.state import ProjectState
from otpy_agents.control.task import ControlTask

__all__ = ["take_snapshot"]

# Of a project that has done a thousand tasks, no more than these.
_COMPLETED_LIMIT: Final = 5

# A simple repair needs no goal, whatever its type.
_SIMPLE: Final = re.compile(
    r"^\W*(?:fix|repair|correct|rename|bump|update|format|typo)\b", re.IGNORECASE
)
_OF_GOAL: Final = re.compile(
    r"\b(?:goal|whole project|overall|architecture|roadmap|vision)\b", re.IGNORECASE
)
_OF_QUEUE: Final = re.compile(
    r"\b(?:queue|backlog|(?:next|other|remaining|further|later|last|final) tasks?)\b", re.IGNORECASE
)
_OF_COMPLETED: Final = re.compile(
    r"\b(?:previous|earlier|already|so far|continue|follow[- ]?up|(?:completed|last|other) tasks?"
    r"|build on|as before)\b",
    re.IGNORECASE,
)


def take_snapshot(
    task: ControlTask,
    state: ProjectState,
    folder: Path,
    *,
    types: tuple[TaskType, ...] | None = None,
) -> dict[str, Any]:
    """Return the part of its project that an agent is told.

    The id and the folder of the project always; the goal where the type of the task needs it and
    the task is not a simple repair, or its text speaks of it; the queue and what is completed where
    the text speaks of these.

    Args:
        task: The task.
        state: The state before it.
        folder: The project's folder.
        types: Types of tasks; None for ours.
    """
    text = f"{task.intent}\n{task.instructions}"
    snapshot: dict[str, Any] = {"project": {"id": state.project, "sandbox_root": str(folder)}}
    needs_goal = type_of(task, types or shipped_task_types()).needs_goal
    is_simple = _SIMPLE.search(task.intent) is not None
    if state.description and ((needs_goal and not is_simple) or _OF_GOAL.search(text)):
        snapshot["goal"] = {"description": state.description, "completed": state.goal_completed}
    if _OF_QUEUE.search(text):
        snapshot["queue"] = {"exhausted": state.exhausted}
    completed = _completed(text, state)
    if completed:
        snapshot["completed_tasks"] = completed
    return snapshot


def _completed(text: str, state: ProjectState) -> list[dict[str, str]]:
    """Return the completed tasks that a text names, or the last ones if it speaks of them."""
    done = state.completed_tasks
    named = [one for one in done if re.search(rf"(?<!\w){re.escape(one.task_id)}(?!\w)", text)]
    if not named and _OF_COMPLETED.search(text):
        named = list(done)
    return [
        {"task_id": one.task_id, "completed_at": one.completed_at}
        for one in named[-_COMPLETED_LIMIT:]
    ]
