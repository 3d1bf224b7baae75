"""The state of a workflow: a fold of its events, and nothing else (ENG-10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, final

from attrs import evolve, field, frozen

from otpy_agents.engine.events import (
    ApprovalDenied,
    ApprovalGranted,
    ApprovalRequested,
    EngineEvent,
    FailureCause,
    StepApplying,
    StepCompleted,
    StepDispatched,
    StepFailed,
    StepRetried,
    StepStarted,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowStarted,
)

__all__ = ["StepPhase", "StepState", "WorkflowState", "told"]


class StepPhase(StrEnum):
    """How far a step has come."""

    RUNNING = "running"
    """A worker or gates are at work, or it waits for a person."""
    APPLYING = "applying"
    """What it has changed is being applied."""
    COMPLETED = "completed"
    FAILED = "failed"


@final
@frozen(kw_only=True)
class StepState:
    """One step.

    Attributes:
        item: Number of the item it does, from 0.
        phase: How far it has come.
        attempt: The last one that was begun; 0 before the first.
        feedback: What the next prompt says about the last attempt.
        waits: Whether a person is asked about it.
    """

    item: int
    phase: StepPhase = StepPhase.RUNNING
    attempt: int = 0
    feedback: str = ""
    waits: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.phase in {StepPhase.COMPLETED, StepPhase.FAILED}


@final
@frozen(kw_only=True)
class WorkflowState:
    """One workflow.

    Attributes:
        started: How it began.
        steps: Its steps by their ids, in the order in which they began.
        cause: Why it failed; None if it has not.
        reason: The same for a person.
        is_over: Whether it has ended.
        last: The failure of the first step that failed.
    """

    started: WorkflowStarted
    steps: Mapping[str, StepState] = field(factory=dict[str, StepState])
    cause: FailureCause | None = None
    reason: str = ""
    is_over: bool = False
    last: StepFailed | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.started.workflow_id

    @property
    def running(self) -> dict[str, StepState]:
        """The steps that are not over."""
        return {name: step for name, step in self.steps.items() if not step.is_over}

    def items_in(self, phase: StepPhase) -> frozenset[int]:
        """Return the numbers of the items whose step has come so far."""
        return frozenset(step.item for step in self.steps.values() if step.phase is phase)

    def step_of(self, item: int) -> tuple[str, StepState] | None:
        """Return the step of an item; None if it was not begun."""
        return next(((name, one) for name, one in self.steps.items() if one.item == item), None)

    def ready(self) -> tuple[int, ...]:
        """Return the items that can be begun now, in order."""
        items = self.started.items
        done = {items[n].component for n in self.items_in(StepPhase.COMPLETED)}
        begun = {step.item for step in self.steps.values()}
        return tuple(n for n, item in enumerate(items) if n not in begun and done >= {*item.needs})

    def after(self, event: EngineEvent) -> WorkflowState:
        """Return the state after one more event."""
        match event:
            case StepStarted():
                return self._with(event.step_id, StepState(item=event.item))
            case StepDispatched():
                return self._changed(event.step_id, attempt=event.attempt)
            case StepRetried():
                return self._changed(event.step_id, feedback=event.feedback)
            case StepApplying():
                return self._changed(event.step_id, phase=StepPhase.APPLYING)
            case StepCompleted():
                return self._changed(event.step_id, phase=StepPhase.COMPLETED, waits=False)
            case StepFailed():
                after = self._changed(event.step_id, phase=StepPhase.FAILED, waits=False)
                return evolve(after, last=after.last or event)
            case ApprovalRequested() if event.step_id is not None:
                return self._changed(event.step_id, waits=True)
            case ApprovalGranted() | ApprovalDenied() if event.step_id is not None:
                return self._changed(event.step_id, waits=False)
            case WorkflowCompleted():
                return evolve(self, is_over=True)
            case WorkflowFailed():
                return evolve(self, is_over=True, cause=event.cause, reason=event.reason)
            case _:
                return self

    def _with(self, name: str, step: StepState) -> WorkflowState:
        return evolve(self, steps={**self.steps, name: step})

    def _changed(self, name: str, **changes: Any) -> WorkflowState:
        return self._with(name, evolve(self.steps[name], **changes))


def told(events: Iterable[EngineEvent]) -> WorkflowState | None:
    """Return where a workflow stands by its events; None if it has not begun."""
    state: WorkflowState | None = None
    for event in events:
        if isinstance(event, WorkflowStarted):
            state = WorkflowState(started=event)
        elif state is not None:
            state = state.after(event)
    return state
