"""What happens in the engine, as it stands in the event log (ENG-08, ENG-09)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias, final

from attrs import frozen

from otpy_agents.engine.plan import Feature
from otpy_agents.log import event_type

__all__ = [
    "ENGINE_EVENTS",
    "ApprovalDenied",
    "ApprovalGranted",
    "ApprovalRequested",
    "ApprovalSkipped",
    "CheckpointCreated",
    "CheckpointRestored",
    "ComponentCompleted",
    "ComponentCreated",
    "ComponentFailed",
    "ComponentStarted",
    "ContextPacked",
    "EngineEvent",
    "FailureCause",
    "FeatureCompleted",
    "FeatureCreated",
    "FeatureFailed",
    "FeatureStarted",
    "GateFailed",
    "GatePassed",
    "GateSkipped",
    "PhaseCompleted",
    "PhaseCreated",
    "PhaseFailed",
    "PhaseStarted",
    "StepApplying",
    "StepCompleted",
    "StepDispatched",
    "StepFailed",
    "StepPruned",
    "StepRetried",
    "StepStarted",
    "StepTampered",
    "WorkItem",
    "WorkerAnswered",
    "WorkflowCompleted",
    "WorkflowFailed",
    "WorkflowKind",
    "WorkflowStarted",
]


class WorkflowKind(StrEnum):
    """What a workflow is for."""

    RUN = "run"
    """One step by a role."""
    PLAN = "plan"
    """One step that proposes a plan."""
    FEATURE = "feature"
    """The components of a feature."""


class FailureCause(StrEnum):
    """Why a step, and with it its workflow, failed; each has an exit code of its own."""

    ERROR = "error"
    """The worker could not do it, or what it did could not be applied."""
    GATE = "gate"
    """A gate failed (ENG-27)."""
    DENIED = "denied"
    """A person said no."""
    TIME = "time"
    """It took too long."""
    STOPPED = "stopped"
    """The program that ran it was stopped."""
    INTERRUPTED = "interrupted"
    """The host died."""


@final
@frozen(kw_only=True)
class WorkItem:
    """One step that a workflow is to take.

    Attributes:
        role: The role of the worker.
        task: The task.
        targets: Files it is about, relative to the repository.
        component: Id of its component; None if it belongs to no plan.
        needs: Ids of components that are to be completed before, those of earlier phases too.
    """

    role: str
    task: str
    targets: tuple[str, ...] = ()
    component: str | None = None
    needs: tuple[str, ...] = ()


# --- workflows ------------------------------------------------------------------------------------


@event_type("workflow_started")
@final
@frozen(kw_only=True)
class WorkflowStarted:
    """A workflow begins.

    Attributes:
        workflow_id: `wf-…` (ENG-44).
        kind: What it is for.
        repository: Its folder.
        base: The commit it begins at.
        items: Its steps, in the order of the plan.
        phases: Ids of the phases, in order; empty without a plan.
        phase_of: For each item, the number of its phase, from 0.
        feature: Id of its feature; None without one.
        parallel: Steps at the same time.
        rebase: Whether a step is tried on the new HEAD if HEAD has moved.
        sandbox: Where its workers run, as it was asked for.
    """

    workflow_id: str
    kind: WorkflowKind
    repository: str
    base: str
    items: tuple[WorkItem, ...]
    phases: tuple[str, ...] = ()
    phase_of: tuple[int, ...] = ()
    feature: str | None = None
    parallel: int = 1
    rebase: bool = False
    sandbox: str = ""


@event_type("workflow_completed")
@final
@frozen(kw_only=True)
class WorkflowCompleted:
    """All steps of a workflow are completed."""

    workflow_id: str
    status: str = "completed"


@event_type("workflow_failed")
@final
@frozen(kw_only=True)
class WorkflowFailed:
    """A workflow ends, and not all of its steps are completed.

    Attributes:
        workflow_id: Which.
        cause: The kind of reason.
        reason: For a person.
        status: `failed`.
    """

    workflow_id: str
    cause: FailureCause
    reason: str
    status: str = "failed"


# --- steps ----------------------------------------------------------------------------------------


@event_type("step_started")
@final
@frozen(kw_only=True)
class StepStarted:
    """A step begins.

    Attributes:
        workflow_id: Its workflow.
        step_id: `step-…`.
        role: The role of the worker.
        component: Its component; None without a plan.
        item: Number of the item it does, from 0.
        task: The task.
        targets: Files it is about.
        task_type: Kind of task, by its words (ENG-33).
    """

    workflow_id: str
    step_id: str
    role: str
    component: str | None
    item: int
    task: str
    targets: tuple[str, ...] = ()
    task_type: str = ""


@event_type("context_packed")
@final
@frozen(kw_only=True)
class ContextPacked:
    """The prompt of an attempt was packed (ENG-21).

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Who gets it.
        attempt: From 1.
        tokens: Of the prompt.
        budget: Of the role.
        left_out: What did not get in, one line each.
    """

    workflow_id: str
    step_id: str
    role: str
    attempt: int
    tokens: int
    budget: int
    left_out: tuple[str, ...] = ()


@event_type("step_dispatched")
@final
@frozen(kw_only=True)
class StepDispatched:
    """A fresh worker begins an attempt (ENG-01).

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        attempt: From 1.
        cli: The agent, `vendor:model`.
        reason: Why this one (ENG-33).
        task_type: Kind of task.
        base: Commit the work tree begins at.
    """

    workflow_id: str
    step_id: str
    role: str
    attempt: int
    cli: str
    reason: str
    task_type: str = ""
    base: str = ""


@event_type("worker_answered")
@final
@frozen(kw_only=True)
class WorkerAnswered:
    """A worker has ended.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        attempt: From 1.
        cli: The agent.
        status: `ok`, `fault` for an answer that does not fit, `failed` for none.
        message: What is wrong; empty for `ok`.
        output: Its answer as its schema has it, as JSON; empty without one.
        files: What it has changed.
        task_type: Kind of task.
        seconds: How long it took.
        tokens_in: Tokens it read.
        tokens_out: Tokens it wrote.
        cost_usd: What it cost in US dollars; None if unknown.
    """

    workflow_id: str
    step_id: str
    role: str
    attempt: int
    cli: str
    status: str
    message: str = ""
    output: str = ""
    files: tuple[str, ...] = ()
    task_type: str = ""
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


@event_type("step_tampered")
@final
@frozen(kw_only=True)
class StepTampered:
    """A worker made a forbidden change; it was undone, or has no effect.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        what: Each thing, in words.
    """

    workflow_id: str
    step_id: str
    role: str
    what: tuple[str, ...]


@event_type("step_pruned")
@final
@frozen(kw_only=True)
class StepPruned:
    """What a worker left and git does not apply was deleted, before its gates ran.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        attempt: Whose work it was, from 1.
        count: Number of files and folders.
        names: The first of them, in order.
    """

    workflow_id: str
    step_id: str
    role: str
    attempt: int
    count: int
    names: tuple[str, ...]

    @property
    def line(self) -> str:
        """Say what was deleted, and why."""
        rest = self.count - len(self.names)
        named = ", ".join((*self.names, *([f"{rest} more"] if rest else [])))
        return f"git ignores or cannot apply these, so they were deleted before the gates: {named}"


@event_type("step_retried")
@final
@frozen(kw_only=True)
class StepRetried:
    """An attempt failed, and another follows.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        component: Its component.
        attempt: The one that failed, from 1.
        feedback: What the next prompt says about it.
    """

    workflow_id: str
    step_id: str
    role: str
    component: str | None
    attempt: int
    feedback: str


@event_type("step_applying")
@final
@frozen(kw_only=True)
class StepApplying:
    """What a step has changed is being applied; git alone tells whether it was (ENG-18).

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        component: Its component.
        files: What is applied.
        base: The commit it stands on.
    """

    workflow_id: str
    step_id: str
    role: str
    component: str | None
    files: tuple[str, ...]
    base: str


@event_type("step_completed")
@final
@frozen(kw_only=True)
class StepCompleted:
    """A step is done.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        component: Its component.
        commit: What was applied; empty if there was nothing to apply.
        files: What was changed.
        output: The answer as JSON.
        status: `completed` (C-28).
    """

    workflow_id: str
    step_id: str
    role: str
    component: str | None
    commit: str = ""
    files: tuple[str, ...] = ()
    output: str = ""
    status: str = "completed"


@event_type("step_failed")
@final
@frozen(kw_only=True)
class StepFailed:
    """A step is given up; nothing of it is applied.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Its role.
        component: Its component.
        cause: The kind of reason.
        reason: For a person.
        status: `failed`.
    """

    workflow_id: str
    step_id: str
    role: str
    component: str | None
    cause: FailureCause
    reason: str
    status: str = "failed"


# --- gates ----------------------------------------------------------------------------------------


@frozen(kw_only=True)
class _GateEvent:
    """What every event of a gate has.

    Attributes:
        workflow_id: Its workflow.
        step_id: Its step.
        role: Role of the step.
        gate: Its name.
        status: `passed`, `failed`, `warned` or `skipped`.
        seconds: How long it took.
        cached: Whether its result was known.
        output: The end of what it wrote.
        output_file: Where all of it is kept, if that is more; empty otherwise.
        attempt: Whose work it has judged, from 1.
    """

    workflow_id: str
    step_id: str
    role: str
    gate: str
    status: str
    seconds: float = 0.0
    cached: bool = False
    output: str = ""
    output_file: str = ""
    attempt: int = 1


@event_type("gate_passed")
@final
@frozen(kw_only=True)
class GatePassed(_GateEvent):
    """A gate holds."""


@event_type("gate_failed")
@final
@frozen(kw_only=True)
class GateFailed(_GateEvent):
    """A gate does not hold; with `warned` that stops nothing."""


@event_type("gate_skipped")
@final
@frozen(kw_only=True)
class GateSkipped(_GateEvent):
    """A gate was not run, because one it depends on does not hold."""


# --- plans ----------------------------------------------------------------------------------------


@event_type("feature_created")
@final
@frozen(kw_only=True)
class FeatureCreated:
    """A plan proposes a feature (C-23).

    Attributes:
        workflow_id: The workflow that has planned it, or that works it off.
        feature: All of it.
    """

    workflow_id: str
    feature: Feature


@event_type("feature_started")
@final
@frozen(kw_only=True)
class FeatureStarted:
    """A workflow works a feature off."""

    workflow_id: str
    feature_id: str


@event_type("feature_completed")
@final
@frozen(kw_only=True)
class FeatureCompleted:
    """All components of a feature are completed."""

    workflow_id: str
    feature_id: str
    status: str = "completed"


@event_type("feature_failed")
@final
@frozen(kw_only=True)
class FeatureFailed:
    """A workflow has ended before all components of a feature were completed."""

    workflow_id: str
    feature_id: str
    reason: str
    status: str = "failed"


@event_type("phase_created")
@final
@frozen(kw_only=True)
class PhaseCreated:
    """A phase of a feature is proposed."""

    workflow_id: str
    feature_id: str
    phase_id: str
    title: str


@event_type("phase_started")
@final
@frozen(kw_only=True)
class PhaseStarted:
    """The first component of a phase begins."""

    workflow_id: str
    feature_id: str
    phase_id: str


@event_type("phase_completed")
@final
@frozen(kw_only=True)
class PhaseCompleted:
    """All components of a phase are completed."""

    workflow_id: str
    feature_id: str
    phase_id: str
    status: str = "completed"


@event_type("phase_failed")
@final
@frozen(kw_only=True)
class PhaseFailed:
    """A component of a phase has failed."""

    workflow_id: str
    feature_id: str
    phase_id: str
    reason: str
    status: str = "failed"


@event_type("component_created")
@final
@frozen(kw_only=True)
class ComponentCreated:
    """A component of a phase is proposed."""

    workflow_id: str
    feature_id: str
    phase_id: str
    component: str
    title: str


@event_type("component_started")
@final
@frozen(kw_only=True)
class ComponentStarted:
    """The step of a component begins."""

    workflow_id: str
    feature_id: str
    component: str
    step_id: str


@event_type("component_completed")
@final
@frozen(kw_only=True)
class ComponentCompleted:
    """The step of a component is completed."""

    workflow_id: str
    feature_id: str
    component: str
    commit: str = ""
    status: str = "completed"


@event_type("component_failed")
@final
@frozen(kw_only=True)
class ComponentFailed:
    """The step of a component has failed."""

    workflow_id: str
    feature_id: str
    component: str
    reason: str
    status: str = "failed"


# --- approvals and checkpoints --------------------------------------------------------------------


@frozen(kw_only=True)
class _ApprovalEvent:
    """What every event of an approval has.

    Attributes:
        workflow_id: Its workflow.
        step_id: The step that waits to be applied; None for a plan.
        feature_id: The feature that is proposed; None for a step.
        reason: Why a person is asked, or why not, or what he said.
    """

    workflow_id: str
    step_id: str | None = None
    feature_id: str | None = None
    reason: str = ""


@event_type("approval_requested")
@final
@frozen(kw_only=True)
class ApprovalRequested(_ApprovalEvent):
    """A person is asked."""


@event_type("approval_granted")
@final
@frozen(kw_only=True)
class ApprovalGranted(_ApprovalEvent):
    """A person, or a person's rule, approved; the actor of the event says who (G-16)."""


@event_type("approval_denied")
@final
@frozen(kw_only=True)
class ApprovalDenied(_ApprovalEvent):
    """A person says no."""


@event_type("approval_skipped")
@final
@frozen(kw_only=True)
class ApprovalSkipped(_ApprovalEvent):
    """No rule asks for an approval."""


@event_type("checkpoint_created")
@final
@frozen(kw_only=True)
class CheckpointCreated:
    """This position of the log has a name, with the commit that HEAD was on (C-45).

    Attributes:
        workflow_id: Its workflow.
        name: `WORKFLOW` for the beginning of one, `WORKFLOW/STEP` for the end of a step.
        repository: Its folder.
        commit: The commit.
    """

    workflow_id: str
    name: str
    repository: str
    commit: str


@event_type("checkpoint_restored")
@final
@frozen(kw_only=True)
class CheckpointRestored:
    """What was applied since a checkpoint was reverted by a commit.

    Attributes:
        workflow_id: That of the checkpoint.
        name: Its name.
        reverted: Commits that were reverted, newest first.
        commit: The commit that does it.
    """

    workflow_id: str
    name: str
    reverted: tuple[str, ...]
    commit: str


ENGINE_EVENTS: Final[tuple[type, ...]] = (
    *(WorkflowStarted, WorkflowCompleted, WorkflowFailed),
    *(StepStarted, ContextPacked, StepDispatched, WorkerAnswered, StepTampered),
    *(StepPruned, StepRetried, StepApplying, StepCompleted, StepFailed),
    *(GatePassed, GateFailed, GateSkipped),
    *(FeatureCreated, FeatureStarted, FeatureCompleted, FeatureFailed),
    *(PhaseCreated, PhaseStarted, PhaseCompleted, PhaseFailed),
    *(ComponentCreated, ComponentStarted, ComponentCompleted, ComponentFailed),
    *(ApprovalRequested, ApprovalGranted, ApprovalDenied, ApprovalSkipped),
    *(CheckpointCreated, CheckpointRestored),
)
"""The types of events of the engine."""

EngineEvent: TypeAlias = (
    WorkflowStarted
    | WorkflowCompleted
    | WorkflowFailed
    | StepStarted
    | ContextPacked
    | StepDispatched
    | WorkerAnswered
    | StepTampered
    | StepPruned
    | StepRetried
    | StepApplying
    | StepCompleted
    | StepFailed
    | GatePassed
    | GateFailed
    | GateSkipped
    | FeatureCreated
    | FeatureStarted
    | FeatureCompleted
    | FeatureFailed
    | PhaseCreated
    | PhaseStarted
    | PhaseCompleted
    | PhaseFailed
    | ComponentCreated
    | ComponentStarted
    | ComponentCompleted
    | ComponentFailed
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | ApprovalSkipped
    | CheckpointCreated
    | CheckpointRestored
)
"""Any of them."""
