"""The state of a project: one JSON object of a fixed shape, read and written whole (CTL-18).

What is beyond that shape is kept as it was found. What this loop needs for itself stands under one
key of its own, `otpy`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, final

from attrs import evolve, field, frozen

from otpy_agents.control.task import ControlTask

__all__ = [
    "OWN",
    "RETRY_COUNT",
    "VERSION",
    "BlockedTask",
    "CompletedTask",
    "ExecutionMode",
    "InHand",
    "ProjectState",
    "ProjectStatus",
    "PromptKind",
    "is_folder_name",
    "is_project_name",
    "time_text",
]

RETRY_COUNT: Final = "retry_count_"
"""What stands before the id of a task in the name of its field."""

OWN: Final = "otpy"
"""The field that holds what is the loop's own."""

VERSION: Final = 1
"""The form of what is the loop's own (G-15)."""

_NAME_LIMIT: Final = 240  # a file system admits 255 bytes, and files beside are named after it

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ProjectStatus(StrEnum):
    """Where a project stands (CTL-18)."""

    RUNNING = "RUNNING"
    """A loop may work its tasks off."""
    HALTED = "HALTED"
    """Nothing is begun until the operator resumes it."""
    COMPLETED = "COMPLETED"
    """The goal is reached and no task is left."""


class ExecutionMode(StrEnum):
    """Whether the operator is asked before each dispatch (CTL-21)."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class PromptKind(StrEnum):
    """What a prompt is (CTL-29, CTL-48)."""

    FIRST = "PROMPT"
    """The task, for the first time."""
    FIX = "FIX_PROMPT"
    """The task, and what did not hold."""
    CLARIFICATION = "CLARIFICATION_PROMPT"
    """The task, and what was asked or doubted."""


@final
@frozen
class CompletedTask:
    """A task whose criteria hold (CTL-20).

    Attributes:
        task_id: Its id.
        completed_at: When, as text in UTC.
        validation_report: What was found, as JSON.
    """

    task_id: str
    completed_at: str
    validation_report: Mapping[str, Any]


@final
@frozen
class BlockedTask:
    """A task that was given up (CTL-20).

    Attributes:
        task_id: Its id.
        blocked_at: When, as text in UTC.
        reason: Why, for a person.
        task: The task, so that it can be unblocked; None if another program blocked it.
    """

    task_id: str
    blocked_at: str
    reason: str
    task: ControlTask | None = None


@final
@frozen(kw_only=True)
class InHand:
    """The task that was taken from the queue and is neither completed nor blocked (C-39).

    Attributes:
        task: The task.
        attempt: Number of its last attempt, from 1; 0 before the first.
        taken_at: When it was taken, as text in UTC; with it, dispatches of two takings differ.
        dispatches: Dispatches so far; more than attempts, as one that halted is made again.
        cut: Whether that attempt is being made: a loop that finds it so makes it again.
        kind: What the prompt of its next attempt is, or of the one that is being made.
        strict: Whether that prompt is strict, as the same failed twice (CTL-44).
        doubt: What was asked or doubted; empty if nothing was.
        failed: Criteria that failed in the attempt before, in order.
        asked: Questions that were asked about each criterion, over all attempts (CTL-45).
    """

    task: ControlTask
    taken_at: str = ""
    attempt: int = 0
    dispatches: int = 0
    cut: bool = False
    kind: PromptKind = PromptKind.FIRST
    strict: bool = False
    doubt: str = ""
    failed: tuple[str, ...] = ()
    asked: Mapping[str, int] = field(factory=dict[str, int], hash=False)


def is_folder_name(name: str) -> bool:
    """Whether it is the name of a folder in the sandbox, as that of each project is (CTL-60)."""
    return name not in {"", ".", ".."} and "/" not in name and name.isprintable()


def is_project_name(name: str) -> bool:
    """Whether a project may be given that name, which programs and file systems are to take."""
    is_plain = is_folder_name(name) and not name.startswith("-")
    return is_plain and name.strip() not in {"", ".", ".."} and len(name.encode()) <= _NAME_LIMIT


def time_text(seconds: float) -> str:
    """Return Unix seconds as the state has times: ISO 8601 in UTC, with milliseconds (CTL-21)."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


@final
@frozen(kw_only=True)
class ProjectState:
    """The state of a project, a value (CTL-18 to CTL-21).

    Attributes:
        status: Where it stands.
        iteration: Tasks that were completed.
        last_task_id: The last one; None if there was none.
        halt_reason: Why it is halted, in one word; None if it is not.
        halt_details: The same for a person.
        retry_counts: Retries of tasks that failed a validation, by their ids.
        retry_task: The task that comes before the queue (CTL-11).
        description: The goal (CTL-19).
        project_id: Name of the project and of its folder; None for `default`.
        goal_completed: Whether the operator says that the goal is reached.
        exhausted: Whether the queue was found empty.
        completed_tasks: What is done, oldest first.
        blocked_tasks: What was given up, oldest first.
        last_validation_report: The last report, as JSON.
        execution_mode: Whether the operator is asked before each dispatch.
        last_updated: When it was written, as text in UTC.
        in_hand: The task at work.
        fencing: Number of the lease under which it was written.
        unknown: What is beyond this shape, by section; the whole object has the section ''.
    """

    status: ProjectStatus = ProjectStatus.HALTED
    iteration: int = 0
    last_task_id: str | None = None
    halt_reason: str | None = None
    halt_details: str | None = None
    retry_counts: Mapping[str, int] = field(factory=dict[str, int], hash=False)
    retry_task: ControlTask | None = None
    description: str = ""
    project_id: str | None = None
    goal_completed: bool = False
    exhausted: bool = False
    completed_tasks: tuple[CompletedTask, ...] = ()
    blocked_tasks: tuple[BlockedTask, ...] = ()
    last_validation_report: Mapping[str, Any] | None = field(default=None, hash=False)
    execution_mode: ExecutionMode = ExecutionMode.AUTO
    last_updated: str = "1970-01-01T00:00:00.000Z"
    in_hand: InHand | None = None
    fencing: int = 0
    unknown: Mapping[str, Mapping[str, Any]] = field(
        factory=dict[str, Mapping[str, Any]], hash=False, repr=False
    )

    @property
    def project(self) -> str:
        """Name of the project and of its folder (CTL-13)."""
        return self.project_id or "default"

    def halted(self, reason: str, details: str = "") -> ProjectState:
        """Return this state, halted; the task in hand stays there and comes first."""
        return evolve(
            self, status=ProjectStatus.HALTED, halt_reason=reason, halt_details=details or None
        )

    def put_down(self) -> dict[str, Any]:
        """Return the changes that take the task out of the hand, and its retries with it."""
        task_id = None if self.in_hand is None else self.in_hand.task.task_id
        counts = {name: count for name, count in self.retry_counts.items() if name != task_id}
        return {"in_hand": None, "retry_task": None, "retry_counts": counts}

    def has_completed(self, task_id: str) -> bool:
        """Whether a task is completed."""
        return any(one.task_id == task_id for one in self.completed_tasks)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, of exactly the shape that other programs know."""
        counts = {f"{RETRY_COUNT}{name}": count for name, count in self.retry_counts.items()}
        return {
            **self.unknown.get("", _NOTHING),
            "supervisor": {
                **self.unknown.get("supervisor", _NOTHING),
                "status": self.status.value,
                "iteration": self.iteration,
                **_there(
                    last_task_id=self.last_task_id,
                    halt_reason=self.halt_reason,
                    halt_details=self.halt_details,
                    retry_task=None if self.retry_task is None else self.retry_task.to_json(),
                ),
                **counts,
            },
            "goal": {
                **self.unknown.get("goal", _NOTHING),
                "description": self.description,
                "completed": self.goal_completed,
                **_there(project_id=self.project_id),
            },
            "queue": {**self.unknown.get("queue", _NOTHING), "exhausted": self.exhausted},
            "completed_tasks": [
                {
                    "task_id": one.task_id,
                    "completed_at": one.completed_at,
                    "validation_report": dict(one.validation_report),
                }
                for one in self.completed_tasks
            ],
            "blocked_tasks": [
                {"task_id": one.task_id, "blocked_at": one.blocked_at, "reason": one.reason}
                for one in self.blocked_tasks
            ],
            **_there(last_validation_report=self.last_validation_report),
            "execution_mode": self.execution_mode.value,
            "last_updated": self.last_updated,
            OWN: _own(self),
        }

    def to_text(self) -> str:
        """Return it as one JSON object; `read_state` reads it back."""
        return json.dumps(self.to_json(), ensure_ascii=False)


def _there(**fields: object) -> dict[str, object]:
    """Return the fields that have a value; the others are left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _own(state: ProjectState) -> dict[str, Any]:
    hand = state.in_hand
    return {
        "version": VERSION,
        "fencing": state.fencing,
        "in_hand": None
        if hand is None
        else {
            "task": hand.task.to_json(),
            "taken_at": hand.taken_at,
            "attempt": hand.attempt,
            "dispatches": hand.dispatches,
            "cut": hand.cut,
            "kind": hand.kind.value,
            "strict": hand.strict,
            "doubt": hand.doubt,
            "failed": list(hand.failed),
            "asked": dict(hand.asked),
        },
        "blocked": {
            one.task_id: one.task.to_json() for one in state.blocked_tasks if one.task is not None
        },
        **state.unknown.get(OWN, _NOTHING),
    }
