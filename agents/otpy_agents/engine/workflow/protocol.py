"""The events and effects of a workflow's machine."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias, final

from attrs import frozen

from otpy_agents.engine.events import EngineEvent, FailureCause
from otpy_agents.engine.plan import Feature
from otpy_agents.engine.workflow.state import WorkflowState

__all__ = [
    "AlarmRang",
    "ApplyChanges",
    "ApplyRefusal",
    "ApplyRefused",
    "ApprovalSaid",
    "ChangesApplied",
    "CloseTree",
    "DispatchStep",
    "EndWorkflow",
    "GatesEnded",
    "OpenTree",
    "RebaseStep",
    "RunGates",
    "SetAlarm",
    "SettleStep",
    "StepBroken",
    "StepRebased",
    "StepSettled",
    "StopWanted",
    "StopStep",
    "TellEvents",
    "TreeOpened",
    "WorkOutcome",
    "WorkEnd",
    "WorkerEnded",
    "WorkflowBegun",
    "WorkflowEffect",
    "WorkflowNews",
]


class WorkEnd(StrEnum):
    """How an attempt of a worker ended."""

    OK = "ok"
    """Its answer fits."""
    FAULT = "fault"
    """It answered what does not fit, and is told what is wrong (ENG-37)."""
    FAILED = "failed"
    """It could not answer, and its run has tried what can be tried."""


@final
@frozen(kw_only=True)
class WorkOutcome:
    """What an attempt of a worker came to.

    Attributes:
        status: How it ended.
        message: What is wrong; empty for `OK`.
        cause: Why there is no answer; for `FAILED` only.
        output: The answer as its schema has it, as JSON.
        files: What it has changed, relative to the repository.
        base: The commit its work tree stands on.
        features: What it proposes, for a planner.
        cost_usd: What it cost in US dollars; None if unknown.
    """

    status: WorkEnd
    message: str = ""
    cause: FailureCause = FailureCause.ERROR
    output: str = ""
    files: tuple[str, ...] = ()
    base: str = ""
    features: tuple[Feature, ...] = ()
    cost_usd: float | None = None


class ApplyRefusal(StrEnum):
    """Why changes were not applied."""

    HEAD_MOVED = "head_moved"
    """HEAD is not the commit the step began at (ENG-18)."""
    BLOCKED = "blocked"
    """A file of the user is in the way."""
    CONFLICT = "conflict"
    """The changes do not fit to the new HEAD."""


# --- what it is told ------------------------------------------------------------------------------


@final
@frozen
class StopWanted:
    """The program is to end, or the workflow is to stop.

    Attributes:
        cause: `STOPPED`, `INTERRUPTED` or `TIME`.
        reason: For a person.
    """

    cause: FailureCause
    reason: str


@final
@frozen
class WorkflowBegun:
    """A host works on the workflow.

    Attributes:
        state: Where it stands, by its events.
        only_settle: Why it is not continued, so that only its remains are settled; None
            to go on.
    """

    state: WorkflowState
    only_settle: StopWanted | None = None


@final
@frozen
class TreeOpened:
    """A step has its work tree."""

    step: str


@final
@frozen
class StepBroken:
    """What was to be done for a step could not be done.

    Attributes:
        step: Which.
        why: For a person.
    """

    step: str
    why: str


@final
@frozen
class WorkerEnded:
    """A worker has ended."""

    step: str
    outcome: WorkOutcome


@final
@frozen
class GatesEnded:
    """The gates of a step have ended.

    Attributes:
        step: Which.
        passed: Whether nothing is in the way of applying.
        retry: Whether the worker is to be told and tries again, if not.
        feedback: What it is told; also why the step fails, if it does.
    """

    step: str
    passed: bool
    retry: bool = False
    feedback: str = ""


@final
@frozen
class ApprovalSaid:
    """A person, or another program for him, has said yes or no.

    Attributes:
        step: Which step.
        yes: Whether.
        reason: What he said with it.
    """

    step: str
    yes: bool
    reason: str = ""


@final
@frozen
class ChangesApplied:
    """The changes of a step are a commit of the branch."""

    step: str
    commit: str


@final
@frozen
class ApplyRefused:
    """The changes of a step were not applied, none of them.

    Attributes:
        step: Which step.
        how: The kind of reason.
        why: For a person, with the files.
    """

    step: str
    how: ApplyRefusal
    why: str


@final
@frozen
class StepRebased:
    """The changes of a step stand on the new HEAD now.

    Attributes:
        step: Which step.
        base: The new HEAD.
        files: What it changes of that.
    """

    step: str
    base: str
    files: tuple[str, ...]


@final
@frozen
class StepSettled:
    """What an earlier life has left of a step was looked at in git (C-27).

    Attributes:
        step: Which step.
        commit: What was applied; empty if nothing was.
    """

    step: str
    commit: str


@final
@frozen
class AlarmRang:
    """A time that was set has come.

    Attributes:
        step: Of a step; None for the workflow.
    """

    step: str | None


WorkflowNews: TypeAlias = (
    WorkflowBegun
    | TreeOpened
    | StepBroken
    | WorkerEnded
    | GatesEnded
    | ApprovalSaid
    | ChangesApplied
    | ApplyRefused
    | StepRebased
    | StepSettled
    | AlarmRang
    | StopWanted
)

# --- what it has done -----------------------------------------------------------------------------


@final
@frozen
class TellEvents:
    """Append events to the log, all of them or none, before anything else is done.

    Attributes:
        events: In their order.
    """

    events: tuple[EngineEvent, ...]


@final
@frozen
class OpenTree:
    """Make the work tree of a step; `TreeOpened` follows."""

    step: str


@final
@frozen
class DispatchStep:
    """Pack the context, choose an agent and have it work; `WorkerEnded` follows.

    Attributes:
        step: Which step.
        attempt: From 1.
        feedback: What the prompt says about the attempt before.
    """

    step: str
    attempt: int
    feedback: str = ""


@final
@frozen
class RunGates:
    """Run the gates of the step's role on its work tree; `GatesEnded` follows.

    Attributes:
        step: Which step.
        attempt: Whose work is judged.
    """

    step: str
    attempt: int


@final
@frozen
class ApplyChanges:
    """Apply the changes of a step; `ChangesApplied` or `ApplyRefused` follows.

    Attributes:
        step: Which step.
    """

    step: str


@final
@frozen
class RebaseStep:
    """Move the changes of a step to the new HEAD; `StepRebased` or `ApplyRefused` follows."""

    step: str


@final
@frozen
class SettleStep:
    """End the remains of a step from an earlier life, and look in git; `StepSettled` follows."""

    step: str


@final
@frozen
class CloseTree:
    """Let a work tree go.

    Attributes:
        step: Whose.
        clean: Whether all of it was applied, so that another step may use it (ENG-19).
    """

    step: str
    clean: bool


@final
@frozen
class SetAlarm:
    """Set an alarm; it replaces an earlier one for the same purpose.

    Attributes:
        step: For a step; None for the workflow.
        at: In Unix seconds; None for no more.
    """

    step: str | None
    at: float | None


@final
@frozen
class StopStep:
    """Stop the work on a step in order; no event follows.

    Attributes:
        step: Which.
        late: Why the agent that is at work, if any, has failed; empty if that is not known.
    """

    step: str
    late: str = ""


@final
@frozen
class EndWorkflow:
    """Nothing more is to be done.

    Attributes:
        cause: Why it failed; None if it is completed.
        line: How it ended, for a person.
    """

    cause: FailureCause | None
    line: str


WorkflowEffect: TypeAlias = (
    TellEvents
    | OpenTree
    | DispatchStep
    | RunGates
    | ApplyChanges
    | RebaseStep
    | SettleStep
    | CloseTree
    | SetAlarm
    | StopStep
    | EndWorkflow
)
