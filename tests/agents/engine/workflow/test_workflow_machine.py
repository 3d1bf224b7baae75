"""The machine of a workflow, without a worker, git or a clock."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from otpy_agents.engine.approval import ApprovalRules, PlanApproval
from otpy_agents.engine.events import (
    ApprovalRequested,
    FailureCause,
    FeatureCreated,
    StepCompleted,
    StepFailed,
    StepRetried,
)
from otpy_agents.engine.limits import EngineLimits
from otpy_agents.engine.plan import Component, Feature, PlanPhase
from otpy_agents.engine.workflow.machine import MOST_REBASES, RoleRules, WorkflowRules
from otpy_agents.engine.workflow.protocol import (
    AlarmRang,
    ApplyChanges,
    ApplyRefusal,
    ApprovalSaid,
    DispatchStep,
    RebaseStep,
    RunGates,
    SettleStep,
    StepBroken,
    StepRebased,
    StopWanted,
    TellEvents,
    WorkEnd,
    WorkerEnded,
    WorkOutcome,
)
from tests.agents.engine.workflow.played_workflow import (
    GOOD,
    PlayedWorkflow,
    began,
    item,
    patient_rules,
)

FAULT = WorkOutcome(status=WorkEnd.FAULT, message="the answer is no JSON")
FAILED = WorkOutcome(status=WorkEnd.FAILED, message="the login failed")
LATE = WorkOutcome(status=WorkEnd.FAILED, message="too late", cause=FailureCause.TIME)
ASKS = ApprovalRules(files_touched=0)


def rules(approval: ApprovalRules | None = None, **changes: Any) -> WorkflowRules:
    return evolve(patient_rules(), approval=approval or ApprovalRules(), **changes)


def test_a_step_is_worked_on_judged_applied_and_completed_in_this_order() -> None:
    """ENG-08, ENG-18: each turn is an event, and `applying` comes before the commit."""
    played = PlayedWorkflow(began(item()))
    end = played.play()
    assert end.cause is None
    assert played.names() == [
        *("WorkflowStarted", "StepStarted", "StepDispatched", "ApprovalSkipped"),
        *("StepApplying", "StepCompleted", "CheckpointCreated", "WorkflowCompleted"),
    ]
    assert played.commits == {"step-001": "commit of step-001"}
    assert [one.clean for one in played.closed] == [True]


def test_a_role_that_does_not_write_applies_nothing() -> None:
    """Gates may judge a reviewer; its changes are discarded."""
    played = PlayedWorkflow(began(evolve(item(), role="reviewer")))
    assert played.play().cause is None
    assert not played.applying()


def test_a_worker_that_changes_nothing_has_nothing_applied() -> None:
    """There is no empty commit."""
    played = PlayedWorkflow(began(item()))
    assert played.play(outcome=evolve(GOOD, files=())).cause is None
    assert not played.applying()


@pytest.mark.parametrize(
    ("wishes", "cause", "attempts"),
    [
        ({"passed": False}, FailureCause.GATE, 4),
        ({"passed": False, "retry": False}, FailureCause.GATE, 1),
        ({"outcome": FAULT}, FailureCause.ERROR, 4),
        ({"outcome": FAILED}, FailureCause.ERROR, 1),
        ({"outcome": LATE}, FailureCause.TIME, 1),
        ({"refused": ApplyRefusal.HEAD_MOVED}, FailureCause.ERROR, 1),
        ({"refused": ApplyRefusal.BLOCKED}, FailureCause.ERROR, 1),
    ],
)
def test_what_goes_wrong_every_time_fails_the_step_after_its_attempts(
    wishes: dict[str, object], cause: FailureCause, attempts: int
) -> None:
    """C-16, C-36: there are `max_retries` + 1 attempts, where another worker could repair it."""
    played = PlayedWorkflow(began(item()))
    assert played.play(**wishes).cause is cause
    assert played.names().count("StepDispatched") == attempts
    assert [one.clean for one in played.closed] == [False]
    assert not played.commits


def test_the_next_worker_is_told_what_was_wrong() -> None:
    """ENG-37: a fault and a failed gate stand in the next prompt."""
    played = PlayedWorkflow(began(item()))
    played.begin()
    played.answer("step-001")
    played.answer("step-001", outcome=FAULT)
    assert played.open["step-001"] == DispatchStep("step-001", 2, "the answer is no JSON")
    played.answer("step-001")
    played.answer("step-001", passed=False)
    assert played.open["step-001"] == DispatchStep("step-001", 3, "test: 1 failed")


def test_a_step_is_tried_on_the_new_head_with_its_gates_only_if_that_was_asked_for() -> None:
    """ENG-18: the gates run again on the new commit."""
    played = PlayedWorkflow(began(item(), rebase=True))
    played.begin()
    for _ in range(3):
        played.answer("step-001")
    played.answer("step-001", refused=ApplyRefusal.HEAD_MOVED)
    assert played.open == {"step-001": RebaseStep("step-001")}
    played.answer("step-001")
    assert played.open == {"step-001": RunGates("step-001", 1)}
    assert played.play().cause is None


def test_a_step_does_not_run_after_head_for_ever() -> None:
    """It fails after `MOST_REBASES` rebases."""
    played = PlayedWorkflow(began(item(), rebase=True))
    assert played.play(refused=ApplyRefusal.HEAD_MOVED).cause is FailureCause.ERROR
    assert len(played.applying()) == MOST_REBASES + 1


def test_a_risk_waits_for_a_person_and_his_time_is_nobodys() -> None:
    """The limits stand still during the wait, and the person is asked once."""
    limits = EngineLimits(workflow=100.0, component=50.0)
    played = PlayedWorkflow(began(item(), rebase=True), rules(ASKS, limits=limits))
    played.begin()
    for _ in range(3):
        played.answer("step-001")
    assert isinstance(played.events[-1], ApprovalRequested)
    assert not played.open
    assert "step-001" not in played.alarms
    played.now = 10_000.0
    played.tell(AlarmRang(None))
    played.tell(ApprovalSaid("step-001", yes=True))
    assert played.alarms == {None: 10_100.0, "step-001": 10_050.0}
    played.answer("step-001", refused=ApplyRefusal.HEAD_MOVED)
    assert played.play().cause is None, "what he agreed to is not asked again"


def test_a_no_fails_the_step_and_tells_what_was_said() -> None:
    """The workflow fails as denied."""
    played = PlayedWorkflow(began(item()), rules(ASKS))
    played.begin()
    for _ in range(3):
        played.answer("step-001")
    played.tell(ApprovalSaid("step-001", yes=False, reason="not on a Friday"))
    assert played.ended is not None
    assert played.cause is FailureCause.DENIED
    assert "not on a Friday" in played.ended.line


def test_an_answer_nobody_has_asked_for_changes_nothing() -> None:
    """Any process can append an answer."""
    played = PlayedWorkflow(began(item()))
    played.begin()
    before = list(played.events)
    played.tell(ApprovalSaid("step-001", yes=False))
    assert played.events == before


@pytest.mark.parametrize("which", [None, "step-001"])
def test_a_limit_ends_what_takes_too_long(which: str | None) -> None:
    """A step has one, and so has the workflow."""
    played = PlayedWorkflow(began(item()), rules(limits=EngineLimits(workflow=9.0, component=9.0)))
    played.begin()
    played.now = 9.0
    played.tell(AlarmRang(which))
    assert played.cause is FailureCause.TIME


def test_the_time_that_is_up_while_changes_are_applied_is_settled_by_git() -> None:
    """C-27: a step with a commit does not fail."""
    limits = EngineLimits(workflow=9.0, component=9.0)
    played = PlayedWorkflow(began(item()), rules(limits=limits))
    played.begin()
    for _ in range(3):
        played.answer("step-001")
    played.now = 9.0
    played.commits["step-001"] = "it was just done"
    played.tell(AlarmRang("step-001"))
    assert played.open["step-001"] == SettleStep("step-001")
    assert played.play().cause is None


def test_a_plan_is_a_proposal_somebody_is_asked_about() -> None:
    """C-23: a person decides, or a rule of the project."""
    feature = Feature(
        id="feat-1",
        title="Log in",
        phases=(PlanPhase(id="p1", title="All", components=(Component(id="c1", title="Form"),)),),
    )
    outcome = WorkOutcome(status=WorkEnd.OK, features=(feature,))
    roles = {"planner": RoleRules(writes=False, proposes=True, has_gates=False)}
    for approval, last in (
        (ApprovalRules(), "ApprovalRequested"),
        (ApprovalRules(plans=PlanApproval.AUTO), "ApprovalGranted"),
    ):
        played = PlayedWorkflow(began(evolve(item(), role="planner")), rules(approval, roles=roles))
        assert played.play(outcome=outcome).cause is None
        assert [one.feature for one in played.events if isinstance(one, FeatureCreated)] == [
            feature
        ]
        assert last in played.names()


def test_a_plan_is_proposed_and_its_step_completed_at_once() -> None:
    """A kill between the two would leave a proposal of a step that has failed."""
    outcome = WorkOutcome(status=WorkEnd.OK, features=(Feature(id="f", title="F", phases=()),))
    roles = {"planner": RoleRules(writes=False, proposes=True, has_gates=False)}
    played = PlayedWorkflow(began(evolve(item(), role="planner")), rules(roles=roles))
    played.begin()
    played.answer("step-001")
    first, *_ = played.machine.handle(WorkerEnded("step-001", outcome), 0.0)
    assert isinstance(first, TellEvents)
    names = [type(event).__name__ for event in first.events]
    assert names[:3] == ["FeatureCreated", "ApprovalRequested", "StepCompleted"]


def test_components_run_side_by_side_and_after_those_they_need() -> None:
    """At most `parallel` of them run at the same time."""
    items = (
        item("a", component="a"),
        item("b", component="b"),
        item("c", component="c", needs=("a", "b")),
    )
    played = PlayedWorkflow(began(*items, parallel=2, feature="feat-1"))
    played.begin()
    assert sorted(played.open) == ["step-001", "step-002"]
    for _ in range(4):
        played.answer("step-001")
    assert sorted(played.open) == ["step-002"]
    for _ in range(4):
        played.answer("step-002")
    assert sorted(played.open) == ["step-003"]
    assert played.play().cause is None
    assert played.names().count("ComponentCompleted") == 3
    assert played.names()[-4:] == [
        *("PhaseCompleted", "CheckpointCreated", "FeatureCompleted", "WorkflowCompleted")
    ]


def test_phases_follow_each_other() -> None:
    """The second begins when the first is completed."""
    started = evolve(
        began(
            item("a", component="a"),
            item("b", component="b", needs=("a",)),
            parallel=5,
            feature="feat-1",
        ),
        phases=("one", "two"),
        phase_of=(0, 1),
    )
    played = PlayedWorkflow(started)
    played.begin()
    assert list(played.open) == ["step-001"]
    assert played.play().cause is None
    names = played.names()
    assert names.index("PhaseCompleted") < len(names) - 1 - names[::-1].index("PhaseStarted")


def test_nothing_begins_after_a_failure_and_what_runs_ends() -> None:
    """The first failure is the reason of the workflow."""
    played = PlayedWorkflow(began(*(item(str(n)) for n in range(4)), parallel=2))
    played.begin()
    played.tell(StepBroken("step-001", "the disk is full"))
    assert list(played.open) == ["step-002"]
    end = played.play()
    assert end.cause is FailureCause.ERROR
    assert end.line == "the disk is full; 1 of 4 steps completed"


def test_a_stop_ends_all_that_runs() -> None:
    """Ctrl-C fails each running step."""
    played = PlayedWorkflow(began(item("a"), item("b"), parallel=2))
    played.begin()
    played.tell(StopWanted(FailureCause.STOPPED, "stopped by SIGINT"))
    assert played.cause is FailureCause.STOPPED
    assert played.names().count("StepFailed") == 2


@pytest.mark.parametrize("applied", [False, True])
def test_what_a_dead_host_has_left_is_settled_by_git_alone(applied: bool) -> None:
    """ENG-10, C-27: completed if there is a commit, failed if not, and never both."""
    played = PlayedWorkflow(began(item()))
    played.begin()
    for _ in range(3):
        played.answer("step-001")
    if applied:
        played.commits["step-001"] = "it is there"
    played.begin(StopWanted(FailureCause.INTERRUPTED, "its host died"))
    played.answer("step-001")
    assert played.cause is (None if applied else FailureCause.INTERRUPTED)
    ends = [one for one in played.events if isinstance(one, StepCompleted | StepFailed)]
    assert len(ends) == 1


def test_the_next_life_in_a_host_makes_the_attempt_again() -> None:
    """The feedback in its prompt comes from the events."""
    played = PlayedWorkflow(began(item()))
    played.begin()
    played.answer("step-001")
    played.answer("step-001", outcome=FAULT)
    played.begin()
    played.answer("step-001")
    played.answer("step-001")
    assert played.open["step-001"] == DispatchStep("step-001", 3, "the answer is no JSON")
    assert any(isinstance(event, StepRetried) for event in played.events)
    assert played.play().cause is None


def applying(**changes: Any) -> PlayedWorkflow:
    """Return a workflow whose first step is being applied."""
    played = PlayedWorkflow(began(item(), item("More")), rules(**changes))
    played.begin()
    while not isinstance(played.open["step-001"], ApplyChanges):
        played.answer("step-001")
    return played


@pytest.mark.parametrize("applied", [True, False])
def test_an_apply_that_breaks_is_settled_by_git(applied: bool) -> None:
    """There may be a commit in spite of the failure."""
    played = applying()
    if applied:
        played.commits["step-001"] = "c"
    played.open.pop("step-001")
    played.tell(StepBroken("step-001", "no space left"))
    assert played.open == {"step-001": SettleStep("step-001")}
    played.answer("step-001")
    assert played.state.steps["step-001"].phase == ("completed" if applied else "failed")
    if not applied:
        assert played.ended is not None
        assert "no space left" in played.ended.line


def test_a_step_of_which_git_tells_nothing_is_left_as_it_is() -> None:
    """No event says that it is over; the next command asks git again."""
    played = applying()
    for _ in range(2):
        played.open.pop("step-001")
        played.tell(StepBroken("step-001", "git is broken"))
    assert played.ended is not None
    assert played.cause is FailureCause.ERROR
    assert not played.state.is_over
    assert not played.state.steps["step-001"].is_over


def test_nothing_begins_after_the_time_is_up_though_the_last_step_was_applied() -> None:
    """The applied step counts, and the workflow fails for its time."""
    played = applying(limits=EngineLimits(workflow=10.0, component=1e8))
    played.commits["step-001"] = "c"
    played.now = 10.0
    played.tell(AlarmRang(None))
    played.answer("step-001")
    assert played.cause is FailureCause.TIME
    assert [*played.state.steps] == ["step-001"]


@pytest.mark.parametrize("step", ["step-001", None])
def test_an_alarm_that_rings_a_little_early_rings_once_more(step: str | None) -> None:
    """The alarm and the limit use different clocks."""
    played = PlayedWorkflow(
        began(item()), rules(limits=EngineLimits(workflow=10.0, component=10.0))
    )
    played.begin()
    played.now = 9.999
    del played.alarms[step]
    played.tell(AlarmRang(step))
    assert played.alarms[step] == 10.0


def test_a_rebase_that_leaves_nothing_applies_nothing() -> None:
    """The gates have nothing to judge."""
    played = PlayedWorkflow(began(item(), rebase=True))
    played.begin()
    while not isinstance(played.open["step-001"], ApplyChanges):
        played.answer("step-001")
    played.answer("step-001", refused=ApplyRefusal.HEAD_MOVED)
    played.open.pop("step-001")
    played.tell(StepRebased("step-001", "c1", ()))
    assert played.cause is None
    assert len(played.applying()) == 1
