"""A workflow whose machine is real, and whose workers, gates, git and clock are a model."""

from __future__ import annotations

from typing import Any, final

from attrs import define, field

from otpy_agents.engine.approval import ApprovalRules
from otpy_agents.engine.events import (
    EngineEvent,
    FailureCause,
    StepApplying,
    StepDispatched,
    WorkflowKind,
    WorkflowStarted,
    WorkItem,
)
from otpy_agents.engine.limits import EngineLimits
from otpy_agents.engine.workflow.machine import RoleRules, WorkflowMachine, WorkflowRules
from otpy_agents.engine.workflow.protocol import (
    ApplyChanges,
    ApplyRefusal,
    ApplyRefused,
    ChangesApplied,
    CloseTree,
    DispatchStep,
    EndWorkflow,
    GatesEnded,
    OpenTree,
    RebaseStep,
    RunGates,
    SetAlarm,
    SettleStep,
    StepRebased,
    StepSettled,
    StopStep,
    StopWanted,
    TellEvents,
    TreeOpened,
    WorkEnd,
    WorkerEnded,
    WorkflowBegun,
    WorkflowEffect,
    WorkflowNews,
    WorkOutcome,
)
from otpy_agents.engine.workflow.state import WorkflowState, told

PATIENT = EngineLimits(workflow=1e9, component=1e8)
GOOD = WorkOutcome(status=WorkEnd.OK, files=("a.py",), output="{}", base="c0")


def began(
    *items: WorkItem, parallel: int = 1, rebase: bool = False, feature: str | None = None
) -> WorkflowStarted:
    return WorkflowStarted(
        workflow_id="wf-1",
        kind=WorkflowKind.RUN if feature is None else WorkflowKind.FEATURE,
        repository="/repo",
        base="c0",
        items=items,
        phases=() if feature is None else ("phase-1",),
        phase_of=() if feature is None else (0,) * len(items),
        feature=feature,
        parallel=parallel,
        rebase=rebase,
    )


def item(task: str = "Do it", **more: Any) -> WorkItem:
    return WorkItem(role="implementer", task=task, **more)


def patient_rules() -> WorkflowRules:
    """Return rules that ask for no approval, and whose limits are never reached."""
    roles = {"implementer": RoleRules(), "reviewer": RoleRules(writes=False)}
    return WorkflowRules(roles=roles, approval=ApprovalRules(), limits=PATIENT)


@final
@define
class PlayedWorkflow:
    """The open effects of the machine, and the world outside of it."""

    started: WorkflowStarted
    rules: WorkflowRules = field(factory=patient_rules)
    now: float = 0.0
    events: list[EngineEvent] = field(factory=list[EngineEvent])
    open: dict[str, WorkflowEffect] = field(factory=dict[str, WorkflowEffect])
    commits: dict[str, str] = field(factory=dict[str, str])
    alarms: dict[str | None, float] = field(factory=dict[str | None, float])
    closed: list[CloseTree] = field(factory=list[CloseTree])
    ended: EndWorkflow | None = None
    machine: WorkflowMachine = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.events.append(self.started)
        self.machine = WorkflowMachine(self.rules)

    @property
    def state(self) -> WorkflowState:
        state = told(self.events)
        assert state is not None
        return state

    def begin(self, only_settle: StopWanted | None = None) -> None:
        """Start a host, or its next life, from the events."""
        self.machine = WorkflowMachine(self.rules)
        self.open, self.alarms, self.ended = {}, {}, None
        self.tell(WorkflowBegun(self.state, only_settle))

    def tell(self, news: WorkflowNews) -> None:
        assert self.ended is None, "it has ended"
        for effect in self.machine.handle(news, self.now):
            self._take(effect)

    def _take(self, effect: WorkflowEffect) -> None:
        assert self.ended is None, "nothing follows the end"
        match effect:
            case TellEvents():
                self.events += effect.events
            case SetAlarm():
                self.alarms.pop(effect.step, None)
                if effect.at is not None:
                    self.alarms[effect.step] = effect.at
            case StopStep():
                self.open.pop(effect.step, None)
            case CloseTree():
                assert effect.step not in self.open
                self.closed.append(effect)
            case EndWorkflow():
                self.ended = effect
            case _:
                assert effect.step not in self.open, "one thing at a time for each step"
                self.open[effect.step] = effect
                if isinstance(effect, DispatchStep):
                    self.events.append(
                        StepDispatched(
                            workflow_id="wf-1",
                            step_id=effect.step,
                            role="implementer",
                            attempt=effect.attempt,
                            cli="command",
                            reason="",
                        )
                    )

    def answer(self, step: str, **wishes: object) -> None:
        """Answer the open effect of a step: with success, unless `wishes` says otherwise."""
        effect = self.open.pop(step)
        match effect:
            case OpenTree():
                self.tell(TreeOpened(step))
            case DispatchStep():
                outcome = wishes.get("outcome", GOOD)
                assert isinstance(outcome, WorkOutcome)
                self.tell(WorkerEnded(step, outcome))
            case RunGates():
                passed = bool(wishes.get("passed", True))
                retry = bool(wishes.get("retry", True))
                feedback = "" if passed else "test: 1 failed"
                self.tell(GatesEnded(step, passed=passed, retry=retry, feedback=feedback))
            case ApplyChanges():
                how = wishes.get("refused")
                if isinstance(how, ApplyRefusal):
                    self.tell(ApplyRefused(step, how, f"{how}: a.py"))
                else:
                    self.commits[step] = f"commit of {step}"
                    self.tell(ChangesApplied(step, self.commits[step]))
            case RebaseStep():
                self.tell(StepRebased(step, "c1", GOOD.files))
            case SettleStep():
                self.tell(StepSettled(step, self.commits.get(step, "")))
            case _:
                raise AssertionError(effect)

    def play(self, **wishes: object) -> EndWorkflow:
        """Answer everything in the same manner until the workflow ends."""
        if self.machine_is_new:
            self.begin()
        while self.ended is None:
            self.answer(next(iter(self.open)), **wishes)
        return self.ended

    @property
    def machine_is_new(self) -> bool:
        return not self.open and self.ended is None and len(self.events) == 1

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def applying(self) -> list[str]:
        return [event.step_id for event in self.events if isinstance(event, StepApplying)]

    @property
    def cause(self) -> FailureCause | None:
        assert self.ended is not None
        return self.ended.cause
