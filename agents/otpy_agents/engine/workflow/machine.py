"""Decides what a workflow does next; performs nothing, reads no clock (ENG-01 to ENG-03).

`WorkflowMachine.handle(news, now)` returns effects, to be performed in order. Each effect about a
step, but for those that stop or close something, is answered by one piece of news about that step;
steps go on side by side.

    open tree -> worker -> gates -> approval -> apply -> completed
                   ^         |                    |
                   +- retry -+<----- rebase ------+

A step is applied whole or not at all. What is in between when a host dies, git alone tells: the
machine that begins with such a step has it settled first, and then takes it as applied, or makes
the attempt again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, assert_never, final

from attrs import evolve, frozen

from otpy_agents.engine.approval import ApprovalRules, PlanApproval, Touched, risks
from otpy_agents.engine.events import (
    ApprovalGranted,
    ApprovalRequested,
    ApprovalSkipped,
    CheckpointCreated,
    ComponentCompleted,
    ComponentCreated,
    ComponentFailed,
    ComponentStarted,
    EngineEvent,
    FailureCause,
    FeatureCompleted,
    FeatureCreated,
    FeatureFailed,
    FeatureStarted,
    PhaseCompleted,
    PhaseCreated,
    PhaseFailed,
    PhaseStarted,
    StepApplying,
    StepCompleted,
    StepFailed,
    StepRetried,
    StepStarted,
    WorkflowCompleted,
    WorkflowFailed,
    WorkItem,
)
from otpy_agents.engine.limits import EngineLimits
from otpy_agents.engine.plan import Feature
from otpy_agents.engine.task_types import infer_task_type
from otpy_agents.engine.workflow.protocol import (
    AlarmRang,
    ApplyChanges,
    ApplyRefusal,
    ApplyRefused,
    ApprovalSaid,
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
    StepBroken,
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
from otpy_agents.engine.workflow.state import StepPhase, WorkflowState

__all__ = ["MOST_REBASES", "RoleRules", "WorkflowMachine", "WorkflowRules"]

MOST_REBASES: Final = 20
"""How often a step is moved to a new HEAD; somebody who commits faster wins."""


@final
@frozen(kw_only=True)
class RoleRules:
    """What of a role counts for a workflow.

    Attributes:
        writes: Whether what its workers change is to be applied.
        proposes: Whether its answer is a plan.
        has_gates: Whether gates judge its work.
        max_retries: Attempts after the first (C-36).
    """

    writes: bool = True
    proposes: bool = False
    has_gates: bool = True
    max_retries: int = 3


@final
@frozen(kw_only=True)
class WorkflowRules:
    """What was decided about a workflow.

    Attributes:
        roles: Of each role that an item names.
        approval: Which risks ask a person.
        limits: Seconds for the workflow and for each step.
    """

    roles: Mapping[str, RoleRules]
    approval: ApprovalRules
    limits: EngineLimits


@final
class _Work:
    """What is in the head of a machine about a step that runs; no event has to say it."""

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.asked: float | None = None  # since when a person is asked
        self.granted = False  # whether he has agreed; HEAD may move after that
        self.rebases = 0
        self.cost: float | None = 0.0  # None if unknown
        self.outcome: WorkOutcome | None = None
        self.given_up: tuple[FailureCause, str] | None = None  # while git is asked


@final
class WorkflowMachine:
    """One workflow.

    Args:
        rules: The rules for it.
    """

    def __init__(self, rules: WorkflowRules) -> None:
        self._rules = rules
        self._now = 0.0
        self._ends = 0.0
        self._effects: list[WorkflowEffect] = []
        self._work: dict[str, _Work] = {}
        self._state: WorkflowState | None = None
        self._stopped: StopWanted | None = None

    @property
    def state(self) -> WorkflowState:
        """Where it stands."""
        assert self._state is not None  # noqa: S101 - it has begun
        return self._state

    def handle(self, news: WorkflowNews, now: float) -> tuple[WorkflowEffect, ...]:
        """Take in what happened at `now`, in Unix seconds, and return what to do, in order.

        News about a step that is over comes too late, and changes nothing.
        """
        self._now, self._effects = now, []
        match news:
            case WorkflowBegun():
                self._begin(news)
            case AlarmRang(step=None):
                self._time_is_up()
            case StopWanted():
                self._stop(news)
            case _ if news.step not in self.state.running:
                pass
            case TreeOpened():
                self._dispatch(news.step)
            case StepBroken():
                self._break(news)
            case WorkerEnded():
                self._hear(news.step, news.outcome)
            case GatesEnded():
                self._judge(news)
            case ApprovalSaid():
                self._answer(news)
            case ChangesApplied():
                self._complete(news.step, news.commit)
            case ApplyRefused():
                self._refuse(news)
            case StepRebased():
                known = self._outcome(news.step)
                self._gate(news.step, evolve(known, base=news.base, files=news.files))
            case StepSettled():
                self._settle(news)
            case AlarmRang():
                self._step_is_late(str(news.step))
            case _:
                assert_never(news)
        return tuple(self._effects)

    # --- small things -----------------------------------------------------------------------------

    def _do(self, *effects: WorkflowEffect) -> None:
        self._effects.extend(effects)

    def _tell(self, *events: EngineEvent) -> None:
        if events:
            self._do(TellEvents(events))
            for event in events:
                self._state = self.state.after(event)

    def _item(self, step: str) -> WorkItem:
        return self.state.started.items[self.state.steps[step].item]

    def _role(self, step: str) -> RoleRules:
        return self._rules.roles[self._item(step).role]

    def _outcome(self, step: str) -> WorkOutcome:
        outcome = self._work[step].outcome
        assert outcome is not None  # noqa: S101 - its worker has ended
        return outcome

    # --- beginning --------------------------------------------------------------------------------

    def _begin(self, news: WorkflowBegun) -> None:
        """Begin, or continue the work of an earlier life."""
        self._state = state = news.state
        self._stopped = news.only_settle
        if state.is_over:
            self._end()
            return
        self._ends = self._now + self._rules.limits.workflow
        self._do(SetAlarm(None, self._ends))
        if not state.steps and state.started.feature is not None:
            self._tell(FeatureStarted(workflow_id=state.id, feature_id=state.started.feature))
        for step in state.running:
            self._work[step] = _Work(self._now + self._rules.limits.component)
            if self._stopped is not None:
                self._work[step].given_up = self._stopped.cause, self._stopped.reason
            self._do(SettleStep(step))
        self._go_on()

    def _settle(self, news: StepSettled) -> None:
        given_up = self._work[news.step].given_up
        if news.commit:
            self._complete(news.step, news.commit)
        elif given_up is not None:
            self._fail(news.step, *given_up)
        else:
            self._do(SetAlarm(news.step, self._work[news.step].ends), OpenTree(news.step))

    def _go_on(self) -> None:
        """Begin as many steps as may be, or end (fail-fast: nothing begins after a failure)."""
        state = self.state
        if state.last is None and self._stopped is None:
            free = state.started.parallel - len(state.running)
            for item in state.ready()[: max(free, 0)]:
                self._start(item)
        if not self.state.running:
            self._finish()

    def _start(self, number: int) -> None:
        state, item = self.state, self.state.started.items[number]
        step = f"step-{len(state.steps) + 1:03}"
        self._tell(
            *self._phase_begins(number),
            StepStarted(
                workflow_id=state.id,
                step_id=step,
                role=item.role,
                component=item.component,
                item=number,
                task=item.task,
                targets=item.targets,
                task_type=infer_task_type(item.task),
            ),
            *self._component(item, started=step),
        )
        self._work[step] = _Work(self._now + self._rules.limits.component)
        self._do(SetAlarm(step, self._work[step].ends), OpenTree(step))

    def _phase_begins(self, number: int) -> Iterator[EngineEvent]:
        started = self.state.started
        if started.feature is None or not started.phases:
            return
        phase = started.phase_of[number]
        begun = {started.phase_of[step.item] for step in self.state.steps.values()}
        if phase not in begun:
            yield PhaseStarted(
                workflow_id=self.state.id,
                feature_id=started.feature,
                phase_id=started.phases[phase],
            )

    def _component(
        self, item: WorkItem, *, started: str = "", commit: str | None = None, reason: str = ""
    ) -> Iterator[EngineEvent]:
        """Yield the events about the component of a step, if it belongs to a feature."""
        feature = self.state.started.feature
        if feature is None or item.component is None:
            return
        about = {
            "workflow_id": self.state.id,
            "feature_id": feature,
            "component": item.component,
        }
        if started:
            yield ComponentStarted(**about, step_id=started)
        elif commit is not None:
            yield ComponentCompleted(**about, commit=commit)
        else:
            yield ComponentFailed(**about, reason=reason)

    # --- an attempt -------------------------------------------------------------------------------

    def _dispatch(self, step: str) -> None:
        attempt = self.state.steps[step].attempt + 1
        self._remember(step, attempt=attempt)
        self._do(DispatchStep(step, attempt, self.state.steps[step].feedback))

    def _remember(self, step: str, **changes: Any) -> None:
        """Store facts about a step that the event of another part will tell."""
        state = self.state
        known = evolve(state.steps[step], **changes)
        self._state = evolve(state, steps={**state.steps, step: known})

    def _hear(self, step: str, outcome: WorkOutcome) -> None:
        work = self._work[step]
        work.outcome = outcome
        if work.cost is not None:
            known = outcome.cost_usd
            work.cost = None if known is None else work.cost + known
        role = self._role(step)
        if outcome.status is WorkEnd.FAILED:
            self._fail(step, outcome.cause, outcome.message)
        elif outcome.status is WorkEnd.FAULT:
            self._retry(step, FailureCause.ERROR, outcome.message)
        elif role.proposes:
            self._complete(step, "", *self._proposed(outcome.features))
        else:
            self._gate(step, outcome)

    def _proposed(self, features: tuple[Feature, ...]) -> Iterator[EngineEvent]:
        """Yield the proposals of a plan, and the requests for approval (C-23)."""
        about = {"workflow_id": self.state.id}
        for feature in features:
            yield FeatureCreated(**about, feature=feature)
            for phase in feature.phases:
                of = {**about, "feature_id": feature.id, "phase_id": phase.id}
                yield PhaseCreated(**of, title=phase.title)
                for one in phase.components:
                    yield ComponentCreated(**of, component=one.id, title=one.title)
            if self._rules.approval.plans is PlanApproval.ASK:
                yield ApprovalRequested(
                    **about, feature_id=feature.id, reason="a plan is a proposal"
                )
            else:
                yield ApprovalGranted(
                    **about, feature_id=feature.id, reason="approval.yaml: plans: auto"
                )

    def _retry(self, step: str, cause: FailureCause, feedback: str) -> None:
        """Tell the next worker, if any, about the failure (C-16)."""
        attempt = self.state.steps[step].attempt
        if attempt > self._role(step).max_retries:
            times = "1 attempt" if attempt == 1 else f"{attempt} attempts"
            self._fail(step, cause, f"after {times}: {feedback}")
            return
        item = self._item(step)
        self._tell(
            StepRetried(
                workflow_id=self.state.id,
                step_id=step,
                role=item.role,
                component=item.component,
                attempt=attempt,
                feedback=feedback,
            )
        )
        self._dispatch(step)

    # --- gates, approval, apply -------------------------------------------------------------------

    def _gate(self, step: str, outcome: WorkOutcome) -> None:
        """Have gates judge what there is to judge."""
        self._work[step].outcome = outcome
        role = self._role(step)
        if role.has_gates and (outcome.files or not role.writes):
            self._do(RunGates(step, self.state.steps[step].attempt))
        else:
            self._weigh(step)

    def _judge(self, news: GatesEnded) -> None:
        if news.passed:
            self._weigh(news.step)
        elif news.retry:
            self._retry(news.step, FailureCause.GATE, news.feedback)
        else:
            self._fail(news.step, FailureCause.GATE, news.feedback)

    def _weigh(self, step: str) -> None:
        """Ask a person where a rule says so; a step that is never applied needs no approval."""
        outcome, work = self._outcome(step), self._work[step]
        if not self._role(step).writes or not outcome.files:
            self._complete(step, "")
            return
        about = {"workflow_id": self.state.id, "step_id": step}
        found = risks(self._rules.approval, Touched(files=outcome.files, cost_usd=work.cost))
        if work.granted:
            self._apply(step)
        elif found:
            work.asked = self._now
            self._tell(ApprovalRequested(**about, reason="; ".join(found)))
            self._do(SetAlarm(step, None))
        else:
            self._tell(ApprovalSkipped(**about, reason="no rule asks"))
            self._apply(step)

    def _apply(self, step: str) -> None:
        """Say that it is applied, then apply it (ENG-18)."""
        item, outcome = self._item(step), self._outcome(step)
        self._tell(
            StepApplying(
                workflow_id=self.state.id,
                step_id=step,
                role=item.role,
                component=item.component,
                files=outcome.files,
                base=outcome.base,
            )
        )
        self._do(ApplyChanges(step))

    def _answer(self, news: ApprovalSaid) -> None:
        work, waited = self._work[news.step], self._work[news.step].asked
        if waited is None:
            return
        work.asked, work.granted = None, news.yes
        if not news.yes:
            said = f": {news.reason}" if news.reason else ""
            self._fail(news.step, FailureCause.DENIED, f"a person said no{said}")
            return
        # The time in which a person thinks does not count.
        work.ends += self._now - waited
        self._ends += self._now - waited
        self._remember(news.step, waits=False)
        self._do(SetAlarm(None, self._ends), SetAlarm(news.step, work.ends))
        self._apply(news.step)

    def _refuse(self, news: ApplyRefused) -> None:
        work = self._work[news.step]
        moved = news.how is ApplyRefusal.HEAD_MOVED
        if moved and self.state.started.rebase and work.rebases < MOST_REBASES:
            work.rebases += 1
            self._do(RebaseStep(news.step))
        elif moved:
            times = (
                f"after {work.rebases} times" if work.rebases else "`--rebase` tries again there"
            )
            self._fail(news.step, FailureCause.ERROR, f"{news.why}; {times}")
        else:
            self._fail(news.step, FailureCause.ERROR, news.why)

    # --- ends of steps ----------------------------------------------------------------------------

    def _complete(self, step: str, commit: str, *before: EngineEvent) -> None:
        """Say that a step is completed, and all that comes of it, at once."""
        item, outcome = self._item(step), self._work[step].outcome
        files = () if outcome is None or not commit else outcome.files
        self._tell(
            *before,
            StepCompleted(
                workflow_id=self.state.id,
                step_id=step,
                role=item.role,
                component=item.component,
                commit=commit,
                files=files,
                output="" if outcome is None else outcome.output,
            ),
            *self._component(item, commit=commit),
            *self._phase_ends(step),
            *self._checkpoint(step, commit),
        )
        self._let_go(step, clean=True)

    def _checkpoint(self, step: str, commit: str) -> Iterator[EngineEvent]:
        if commit:
            yield CheckpointCreated(
                workflow_id=self.state.id,
                name=f"{self.state.id}/{step}",
                repository=self.state.started.repository,
                commit=commit,
            )

    def _phase_ends(self, step: str) -> Iterator[EngineEvent]:
        started = self.state.started
        if started.feature is None or not started.phases:
            return
        number = self.state.steps[step].item
        phase = started.phase_of[number]
        done = self.state.items_in(StepPhase.COMPLETED) | {number}
        if done >= {n for n, one in enumerate(started.phase_of) if one == phase}:
            yield PhaseCompleted(
                workflow_id=self.state.id,
                feature_id=started.feature,
                phase_id=started.phases[phase],
            )

    def _fail(self, step: str, cause: FailureCause, reason: str) -> None:
        item, started = self._item(step), self.state.started
        self._do(StopStep(step))
        events: list[EngineEvent] = [
            StepFailed(
                workflow_id=self.state.id,
                step_id=step,
                role=item.role,
                component=item.component,
                cause=cause,
                reason=reason,
            ),
            *self._component(item, reason=reason),
        ]
        if started.feature is not None and started.phases:
            phase = started.phases[started.phase_of[self.state.steps[step].item]]
            events.append(
                PhaseFailed(
                    workflow_id=self.state.id,
                    feature_id=started.feature,
                    phase_id=phase,
                    reason=reason,
                )
            )
        self._tell(*events)
        self._let_go(step, clean=False)

    def _let_go(self, step: str, *, clean: bool) -> None:
        self._do(SetAlarm(step, None), CloseTree(step, clean))
        self._go_on()

    def _break(self, news: StepBroken) -> None:
        """Give a step up; leave it as it is if git cannot be asked about it."""
        if self._work[news.step].given_up is None:
            self._give_up(news.step, FailureCause.ERROR, news.why)
            return
        self._do(*(StopStep(step) for step in self.state.running))
        line = f"{news.step}: {news.why}; the next command of the engine settles it"
        self._do(SetAlarm(None, None), EndWorkflow(FailureCause.ERROR, line))

    # --- time and ends ----------------------------------------------------------------------------

    def _step_is_late(self, step: str) -> None:
        work = self._work[step]
        if work.asked is not None:
            return
        if self._now < work.ends:  # clocks differ by a little
            self._do(SetAlarm(step, work.ends))
            return
        why = f"it took longer than {self._rules.limits.component:g} s (limits.yaml)"
        self._do(StopStep(step, late=why))
        self._give_up(step, FailureCause.TIME, why)

    def _time_is_up(self) -> None:
        if any(self._work[step].asked is not None for step in self.state.running):
            return
        if self._now < self._ends:
            self._do(SetAlarm(None, self._ends))
            return
        limit = self._rules.limits.workflow
        why = f"the workflow took longer than {limit:g} s (limits.yaml)"
        self._stop(StopWanted(FailureCause.TIME, why))

    def _stop(self, news: StopWanted) -> None:
        """Give up what runs."""
        if self._stopped is not None:
            return
        self._stopped = news
        for step in self.state.running:
            self._give_up(step, news.cause, news.reason)
        if not self.state.running and not self.state.is_over:
            self._finish()

    def _give_up(self, step: str, cause: FailureCause, reason: str) -> None:
        """Fail a step that runs; if it is being applied, git tells whether it was."""
        if self.state.steps[step].phase is StepPhase.APPLYING:
            self._work[step].given_up = cause, reason
            self._do(StopStep(step), SettleStep(step))
        else:
            self._fail(step, cause, reason)

    def _finish(self) -> None:
        state, feature = self.state, self.state.started.feature
        if state.is_over:
            return
        about = {"workflow_id": state.id}
        if len(state.items_in(StepPhase.COMPLETED)) == len(state.started.items):
            more = [] if feature is None else [FeatureCompleted(**about, feature_id=feature)]
            self._tell(*more, WorkflowCompleted(**about))
        else:
            cause, reason = self._why()
            failed: list[EngineEvent] = (
                []
                if feature is None
                else [FeatureFailed(**about, feature_id=feature, reason=reason)]
            )
            self._tell(*failed, WorkflowFailed(**about, cause=cause, reason=reason))
        self._end()

    def _why(self) -> tuple[FailureCause, str]:
        last = self.state.last
        if last is not None:
            return last.cause, last.reason
        if self._stopped is not None:
            return self._stopped.cause, self._stopped.reason
        return FailureCause.ERROR, "no step can be begun"

    def _end(self) -> None:
        state = self.state
        steps = state.items_in(StepPhase.COMPLETED)
        count = f"{len(steps)} of {len(state.started.items)} steps completed"
        line = f"{state.reason}; {count}" if state.cause is not None else count
        self._do(SetAlarm(None, None), EndWorkflow(state.cause, line))
