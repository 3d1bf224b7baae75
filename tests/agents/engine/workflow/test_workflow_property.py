"""Each step has one end, in any order of answers, failures, alarms, stops and deaths of hosts."""

from __future__ import annotations

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from otpy_agents.engine.approval import ApprovalRules
from otpy_agents.engine.events import (
    ApprovalRequested,
    FailureCause,
    StepCompleted,
    StepFailed,
    StepStarted,
    WorkflowCompleted,
    WorkflowFailed,
    WorkItem,
)
from otpy_agents.engine.workflow.machine import RoleRules, WorkflowRules
from otpy_agents.engine.workflow.protocol import (
    AlarmRang,
    ApplyChanges,
    ApplyRefusal,
    ApprovalSaid,
    StepBroken,
    StopWanted,
    WorkEnd,
    WorkOutcome,
)
from tests.agents.engine.workflow.played_workflow import GOOD, PATIENT, PlayedWorkflow, began

_OUTCOMES = st.sampled_from(
    [
        *(GOOD, GOOD, evolve(GOOD, files=())),
        WorkOutcome(status=WorkEnd.FAULT, message="no JSON"),
        WorkOutcome(status=WorkEnd.FAILED, message="no login"),
    ]
)
_STEPS = st.integers(0, 3)


class Workflows(RuleBasedStateMachine):
    """One workflow of up to four items, and all that may happen to it."""

    @initialize(
        needs=st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=4),
        parallel=st.integers(1, 3),
        rebase=st.booleans(),
        asks=st.booleans(),
    )
    def start(self, needs: list[set[int]], parallel: int, rebase: bool, asks: bool) -> None:
        items = [
            WorkItem(
                role="implementer",
                task=f"Do {n}",
                component=f"c{n}",
                needs=tuple(f"c{one}" for one in sorted(before) if one < n),
            )
            for n, before in enumerate(needs)
        ]
        rules = WorkflowRules(
            roles={"implementer": RoleRules(max_retries=2)},
            approval=ApprovalRules(files_touched=0) if asks else ApprovalRules(),
            limits=PATIENT,
        )
        self.played = PlayedWorkflow(
            began(*items, parallel=parallel, rebase=rebase, feature="feat-1"), rules
        )
        self.played.begin()

    def _step(self, number: int) -> str | None:
        steps = sorted(self.played.open)
        return steps[number % len(steps)] if steps else None

    @precondition(lambda self: self.played.ended is None)
    @rule(
        number=_STEPS,
        outcome=_OUTCOMES,
        passed=st.booleans(),
        refused=st.sampled_from([None, None, *ApplyRefusal]),
    )
    def answer(
        self, number: int, outcome: WorkOutcome, passed: bool, refused: ApplyRefusal | None
    ) -> None:
        step = self._step(number)
        if step is not None:
            self.played.answer(step, outcome=outcome, passed=passed, refused=refused)

    @precondition(lambda self: self.played.ended is None)
    @rule(number=_STEPS, yes=st.booleans())
    def person(self, number: int, yes: bool) -> None:
        running = sorted(self.played.state.running)
        if running:
            self.played.tell(ApprovalSaid(running[number % len(running)], yes=yes))

    @precondition(lambda self: self.played.ended is None)
    @rule(number=_STEPS, applied=st.booleans())
    def breaks(self, number: int, applied: bool) -> None:
        step = self._step(number)
        if step is not None:
            effect = self.played.open.pop(step)
            if applied and isinstance(effect, ApplyChanges):
                self.played.commits[step] = f"commit of {step}"
            self.played.tell(StepBroken(step, "the disk is full"))

    @precondition(lambda self: self.played.ended is None)
    @rule(number=_STEPS, whole=st.booleans(), late=st.booleans())
    def alarm(self, number: int, whole: bool, late: bool) -> None:
        self.played.now += 1e9 if late else 1.0
        step = self._step(number)
        self.played.tell(AlarmRang(None if whole or step is None else step))

    @precondition(lambda self: self.played.ended is None)
    @rule()
    def stop(self) -> None:
        self.played.tell(StopWanted(FailureCause.STOPPED, "Ctrl-C"))

    @precondition(lambda self: self.played.ended is None)
    @rule(settles=st.booleans(), number=_STEPS, applied=st.booleans())
    def die(self, settles: bool, number: int, applied: bool) -> None:
        step = self._step(number)
        if step is not None and applied and isinstance(self.played.open[step], ApplyChanges):
            self.played.commits[step] = f"commit of {step}"
        only = StopWanted(FailureCause.INTERRUPTED, "its host died")
        self.played.begin(only if settles else None)

    @precondition(lambda self: self.played.ended is not None)
    @rule()
    def look_again(self) -> None:
        """A life after the end finds the workflow ended, unless it was left to the next command."""
        is_over = self.played.state.is_over
        self.played.begin()
        assert is_over == (self.played.ended is not None)

    def teardown(self) -> None:
        """The workflow comes to an end after any history."""
        if not hasattr(self, "played"):
            return
        for _ in range(500):
            if self.played.state.is_over:
                break
            if self.played.ended is not None:  # it was left to the next command
                self.played.begin(StopWanted(FailureCause.INTERRUPTED, "its host died"))
            step = self._step(0)
            if step is not None:
                self.played.answer(step)
            else:
                for waiting in sorted(self.played.state.running):
                    if self.played.ended is None:
                        self.played.tell(ApprovalSaid(waiting, yes=True))
        assert self.played.ended is not None
        self.each_step_has_one_end()
        events = self.played.events
        ends = [one for one in events if isinstance(one, WorkflowCompleted | WorkflowFailed)]
        assert len(ends) == 1
        assert not self.played.state.running

    @invariant()
    def each_step_has_one_end(self) -> None:
        if not hasattr(self, "played"):
            return
        played = self.played
        ends = [one for one in played.events if isinstance(one, StepCompleted | StepFailed)]
        assert len({one.step_id for one in ends}) == len(ends)
        applied = {one.step_id for one in ends if isinstance(one, StepCompleted) and one.commit}
        over = {one.step_id for one in ends}
        assert applied == played.commits.keys() & over, "what git has is what is told"

    @invariant()
    def no_item_is_done_twice_and_none_before_what_it_needs(self) -> None:
        if not hasattr(self, "played"):
            return
        done: set[str | None] = set()
        begun: set[int] = set()
        for event in self.played.events:
            if isinstance(event, StepStarted):
                assert event.item not in begun
                begun.add(event.item)
                assert done >= {*self.played.started.items[event.item].needs}
            elif isinstance(event, StepCompleted):
                done.add(event.component)

    @invariant()
    def as_many_at_the_same_time_as_may(self) -> None:
        if hasattr(self, "played"):
            assert len(self.played.state.running) <= self.played.started.parallel

    @invariant()
    def what_events_say_is_what_the_machine_knows(self) -> None:
        if hasattr(self, "played"):
            known = self.played.machine.state
            said = self.played.state
            assert {name: one.phase for name, one in known.steps.items()} == {
                name: one.phase for name, one in said.steps.items()
            }
            assert known.is_over == said.is_over

    @invariant()
    def asked_only_where_a_rule_asks(self) -> None:
        if hasattr(self, "played") and self.played.rules.approval == ApprovalRules():
            assert not any(isinstance(one, ApprovalRequested) for one in self.played.events)


TestWorkflows = Workflows.TestCase
