"""The events and effects of a project's loop (CTL-08)."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias, final

from attrs import frozen

from otpy_agents.control.report import ValidationReport
from otpy_agents.control.state import InHand, ProjectState
from otpy_agents.control.stores.behaviour import Record
from otpy_agents.control.task import ControlTask
from otpy_agents.control.validation import AgentOutcome
from otpy_agents.errors import StateError

__all__ = [
    "AgentEnded",
    "AskAgent",
    "ConfirmDispatch",
    "OperatorAnswered",
    "ControlEffect",
    "ControlEvent",
    "DispatchTask",
    "EndLoop",
    "HaltBroken",
    "HaltSeen",
    "ValidateWork",
    "WorkValidated",
    "LoadState",
    "StateLoaded",
    "LoopBegun",
    "NotDispatched",
    "FindFolder",
    "FolderFound",
    "HelpGiven",
    "SeekHelp",
    "ProjectOutcome",
    "AgentReplied",
    "ReserveTask",
    "QueueAnswered",
    "SaveState",
    "SettleTask",
    "StateBroken",
    "StopDispatch",
]


class ProjectOutcome(StrEnum):
    """How a loop ended (C-29)."""

    COMPLETED = "COMPLETED"
    """The goal is reached."""
    HALTED = "HALTED"
    """The operator is to look at it."""
    BROKEN = "BROKEN"
    """The state cannot be used, and the operator is to mend it."""


# --- what it is told ------------------------------------------------------------------------------


@final
@frozen
class LoopBegun:
    """A host has the lease, and its loop begins."""


@final
@frozen
class StateLoaded:
    """The state was loaded.

    Attributes:
        state: As it stands.
    """

    state: ProjectState


@final
@frozen
class StateBroken:
    """The state could not be loaded.

    Attributes:
        error: Why.
        field: The field that is missing; empty if something else is wrong.
    """

    error: StateError
    field: str = ""


@final
@frozen
class QueueAnswered:
    """The queue was asked.

    Attributes:
        task: The next task; None if there is none.
    """

    task: ControlTask | None


@final
@frozen
class FolderFound:
    """The folder of the task was looked at (CTL-13).

    Attributes:
        problem: Why no agent can work there; empty if one can.
    """

    problem: str = ""


@final
@frozen
class OperatorAnswered:
    """The operator was asked (CTL-21).

    Attributes:
        yes: Whether he wants it.
    """

    yes: bool


@final
@frozen
class AgentEnded:
    """The agent has ended by itself, however (CTL-32).

    Attributes:
        outcome: With what.
    """

    outcome: AgentOutcome


@final
@frozen
class NotDispatched:
    """The agent could not be executed, or took too long (CTL-33).

    Attributes:
        why: For a person.
    """

    why: str


@final
@frozen
class WorkValidated:
    """What was done was validated.

    Attributes:
        report: What was found.
    """

    report: ValidationReport


@final
@frozen
class AgentReplied:
    """An agent was asked about a criterion, and has answered (CTL-45).

    Attributes:
        words: Its final words; empty if it could not be asked.
    """

    words: str


@final
@frozen
class HelpGiven:
    """A helper has proposed commands, and they were run (CTL-39).

    Attributes:
        report: What was found, with what they have settled.
    """

    report: ValidationReport


@final
@frozen
class HaltSeen:
    """Somebody has halted the project.

    Attributes:
        state: As it stands now.
    """

    state: ProjectState


ControlEvent: TypeAlias = (
    LoopBegun
    | StateLoaded
    | StateBroken
    | QueueAnswered
    | FolderFound
    | OperatorAnswered
    | AgentEnded
    | NotDispatched
    | WorkValidated
    | AgentReplied
    | HelpGiven
    | HaltSeen
)

# --- what it has done -----------------------------------------------------------------------------


@final
@frozen
class LoadState:
    """Load the state; `StateLoaded` or `StateBroken` follows."""


@final
@frozen
class ReserveTask:
    """Ask the queue for the next task; `QueueAnswered` follows."""


@final
@frozen
class SettleTask:
    """Let the queue forget a task.

    Attributes:
        task_id: Its id.
    """

    task_id: str


@final
@frozen
class SaveState:
    """Write a state; if the project was halted meanwhile, `HaltSeen` follows, and nothing else.

    Attributes:
        before: As it was loaded, or written last; a value, so nothing changes it (CTL-14).
        after: As it is to be.
        records: What is told with it.
    """

    before: ProjectState
    after: ProjectState
    records: tuple[Record, ...] = ()


@final
@frozen
class FindFolder:
    """Look at the folder of a task, and make it if it is the project's own; `FolderFound` follows.

    Attributes:
        task: The task.
        project: Name of the project.
    """

    task: ControlTask
    project: str


@final
@frozen
class ConfirmDispatch:
    """Ask the operator before a dispatch; `OperatorAnswered` follows.

    Attributes:
        hand: What would be dispatched.
    """

    hand: InHand


@final
@frozen
class DispatchTask:
    """Render the prompt and have an agent do it; `AgentEnded` or `NotDispatched` follows.

    Attributes:
        state: As it stands, for the snapshot.
        hand: The task, its attempt and the kind of its prompt.
        report: What the last validation found; None before the first.
    """

    state: ProjectState
    hand: InHand
    report: ValidationReport | None


@final
@frozen
class StopDispatch:
    """Stop the dispatched attempt in order; no event follows."""


@final
@frozen
class ValidateWork:
    """Validate the work; `WorkValidated` follows.

    Attributes:
        task: The task.
        outcome: What its agent ended with.
    """

    task: ControlTask
    outcome: AgentOutcome


@final
@frozen
class SeekHelp:
    """Have a helper propose commands for uncertain criteria, and run them; `HelpGiven` follows.

    Attributes:
        hand: The task.
        report: What was found so far.
        helper: The agent, as the operator named it.
    """

    hand: InHand
    report: ValidationReport
    helper: str


@final
@frozen
class AskAgent:
    """Look for the words of a criterion, then ask an agent about it; `AgentReplied` follows.

    Attributes:
        hand: The task.
        report: What was found so far.
        criterion: Which.
        number: Of the question about it, from 1.
    """

    hand: InHand
    report: ValidationReport
    criterion: str
    number: int


@final
@frozen
class HaltBroken:
    """Halt a project whose state lacks a field (CTL-10).

    Attributes:
        reason: `MISSING_STATE_FIELD`.
        details: For a person.
    """

    reason: str
    details: str


@final
@frozen
class EndLoop:
    """End the loop.

    Attributes:
        outcome: How it ended.
        line: Why, for a person.
        state: In which the project is halted; None if it is not, or if its state cannot be used.
    """

    outcome: ProjectOutcome
    line: str
    state: ProjectState | None = None


ControlEffect: TypeAlias = (
    LoadState
    | ReserveTask
    | SettleTask
    | SaveState
    | FindFolder
    | ConfirmDispatch
    | DispatchTask
    | StopDispatch
    | ValidateWork
    | SeekHelp
    | AskAgent
    | HaltBroken
    | EndLoop
)
