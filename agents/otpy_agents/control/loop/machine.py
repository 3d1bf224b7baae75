"""Decides what the loop of a project does next; performs nothing, reads no clock (CTL-08).

`ControlLoop.handle(event, now)` returns effects, to be performed in order. At most the last of
them is answered by an event. One iteration goes: load the state, look at its status, take a task,
look at its folder, dispatch, look for halts, validate, retry or ask, and write what came of it.
The state is loaded at each iteration, so what others have written counts (CTL-05).

A task that is taken stays in the state, in hand, until it is completed or blocked. So a loop that
begins after a kill or a halt goes on with it, and makes the attempt that was cut again.
"""

from __future__ import annotations

from typing import Any, Final, assert_never, final

from attrs import evolve, frozen

from otpy_agents.control.halts import HALTS, Halt, HaltReason, HaltRule, find_halt
from otpy_agents.control.interrogation import next_question, settled_by
from otpy_agents.control.loop.protocol import (
    AgentEnded,
    AgentReplied,
    AskAgent,
    ConfirmDispatch,
    ControlEffect,
    ControlEvent,
    DispatchTask,
    EndLoop,
    FindFolder,
    FolderFound,
    HaltBroken,
    HaltSeen,
    HelpGiven,
    LoadState,
    LoopBegun,
    NotDispatched,
    OperatorAnswered,
    ProjectOutcome,
    QueueAnswered,
    ReserveTask,
    SaveState,
    SeekHelp,
    SettleTask,
    StateBroken,
    StateLoaded,
    StopDispatch,
    ValidateWork,
    WorkValidated,
)
from otpy_agents.control.report import Confidence, ValidationReport
from otpy_agents.control.state import (
    BlockedTask,
    CompletedTask,
    ExecutionMode,
    InHand,
    ProjectState,
    ProjectStatus,
    PromptKind,
    time_text,
)
from otpy_agents.control.stores.behaviour import Record
from otpy_agents.control.task import ControlTask
from otpy_agents.control.validation import find_format_halt

__all__ = ["EXHAUSTED", "MISSING_FIELD", "ControlLoop", "LoopRules"]

EXHAUSTED: Final = "TASK_LIST_EXHAUSTED_GOAL_INCOMPLETE"
"""The reason of a halt because no task is left and the goal is not reached (CTL-12)."""

MISSING_FIELD: Final = "MISSING_STATE_FIELD"
"""The reason of a halt because the state lacks a field (CTL-10)."""

DECLINED: Final = "OPERATOR_DECLINED"
"""The reason of a halt because the operator did not want a dispatch."""

_DOUBTS: Final = frozenset({Confidence.LOW, Confidence.UNCERTAIN})


@final
@frozen(kw_only=True)
class LoopRules:
    """What an operator may decide about a loop.

    Attributes:
        halts: What stands for a halt in final words.
        retry_ambiguity: Whether a question or a doubt is retried though all criteria hold (C-32).
        interrogation_may_override: Whether an answer settles a criterion that failed (C-22).
        helper: The agent that proposes commands for what no rule can tell, `CLI` or `CLI:MODEL`;
            empty for none (CTL-39).
    """

    halts: tuple[HaltRule, ...] = HALTS
    retry_ambiguity: bool = True
    interrogation_may_override: bool = False
    helper: str = ""


@final
class ControlLoop:
    """The loop of one project.

    Args:
        rules: What its operator has decided.
    """

    def __init__(self, rules: LoopRules | None = None) -> None:
        self._rules = LoopRules() if rules is None else rules
        self._state = ProjectState()
        self._now = 0.0
        self._effects: list[ControlEffect] = []
        self._report: ValidationReport | None = None
        self._doubt: Halt | None = None
        self._retried = False  # in this iteration
        self._helped = False  # with what this dispatch has left
        self._asks_finally = False
        self._asked = ""

    def handle(self, event: ControlEvent, now: float) -> tuple[ControlEffect, ...]:
        """Take in what happened at `now`, in Unix seconds, and return what to do, in order."""
        self._now, self._effects = now, []
        match event:
            case LoopBegun():
                self._do(LoadState())
            case StateLoaded():
                self._begin_iteration(event.state)
            case StateBroken():
                self._give_up(event)
            case QueueAnswered():
                self._take(event.task)
            case FolderFound():
                if event.problem:
                    self._halt(HaltReason.CURSOR_EXEC_FAILURE, event.problem)
                else:
                    self._confirm()
            case OperatorAnswered():
                if event.yes:
                    self._dispatch()
                else:
                    self._halt(DECLINED, "the operator did not want it")
            case NotDispatched():
                self._halt(HaltReason.CURSOR_EXEC_FAILURE, event.why)
            case AgentEnded():
                self._hear(event)
            case WorkValidated():
                self._helped = False
                self._weigh(event.report)
            case HelpGiven():
                self._weigh(event.report)
            case AgentReplied():
                self._settle_doubt(event.words)
            case HaltSeen():
                self._state = event.state
                self._do(StopDispatch(), self._end())
            case _:
                assert_never(event)
        return tuple(self._effects)

    def _do(self, *effects: ControlEffect) -> None:
        self._effects.extend(effects)

    def _save(self, *records: Record, **changes: Any) -> None:
        """Write the state with some changes (CTL-16)."""
        before = self._state
        self._state = evolve(before, **changes, last_updated=time_text(self._now))
        self._do(SaveState(before, self._state, records))

    def _hand(self) -> InHand:
        hand = self._state.in_hand
        assert hand is not None  # noqa: S101 - only asked for between taking and settling
        return hand

    # --- beginning --------------------------------------------------------------------------------

    def _begin_iteration(self, state: ProjectState) -> None:
        """Look at the status and at the task in hand (steps 3 and 4; CTL-09, CTL-11)."""
        self._state = state
        self._doubt, self._retried, self._asks_finally = None, False, False
        self._report = None
        if state.status is not ProjectStatus.RUNNING:
            self._do(self._end())
        elif state.in_hand is not None:
            # A host that was killed here may not have told the queue.
            self._report = _last_report(state)
            self._do(SettleTask(state.in_hand.task.task_id), self._place())
        elif state.retry_task is not None:
            # Another program stored it: its attempts are those that were counted.
            count = state.retry_counts.get(state.retry_task.task_id, 0)
            self._report = _last_report(state)
            is_fix = count > 0 and self._report is not None
            kind = PromptKind.FIX if is_fix else PromptKind.FIRST
            self._start(InHand(task=state.retry_task, attempt=count, kind=kind))
        else:
            self._do(ReserveTask())

    def _end(self) -> EndLoop:
        state = self._state
        if state.status is ProjectStatus.COMPLETED:
            done, blocked = len(state.completed_tasks), len(state.blocked_tasks)
            tasks = "1 task" if done == 1 else f"{done} tasks"
            line = f"the goal is reached; {tasks} completed, {blocked} blocked"
            return EndLoop(ProjectOutcome.COMPLETED, line)
        details = f": {state.halt_details}" if state.halt_details else ""
        line = f"{state.halt_reason or 'not resumed yet'}{details}"
        return EndLoop(ProjectOutcome.HALTED, line, state)

    def _give_up(self, event: StateBroken) -> None:
        if event.field:
            self._do(HaltBroken(MISSING_FIELD, event.field))
            self._do(EndLoop(ProjectOutcome.HALTED, str(event.error)))
        else:
            self._do(EndLoop(ProjectOutcome.BROKEN, str(event.error)))

    def _take(self, task: ControlTask | None) -> None:
        """Take the next task, or handle an empty queue (step 5)."""
        if task is None:
            if self._state.goal_completed:
                record = self._record("completed")
                self._save(record, status=ProjectStatus.COMPLETED, exhausted=True)
                self._do(self._end())
            else:
                why = "no task is left, and the goal is not reached"
                self._halt(EXHAUSTED, why, exhausted=True)
        elif self._state.has_completed(task.task_id):
            self._do(SettleTask(task.task_id), ReserveTask())
        else:
            self._start(InHand(task=task))

    def _start(self, hand: InHand) -> None:
        """Start a task; a blocked task that comes up was enqueued again."""
        hand = evolve(hand, taken_at=time_text(self._now))
        task_id = hand.task.task_id
        record = self._record("task_start", task_id)
        blocked = tuple(one for one in self._state.blocked_tasks if one.task_id != task_id)
        self._save(record, in_hand=hand, retry_task=None, exhausted=False, blocked_tasks=blocked)
        self._do(SettleTask(task_id), self._place())

    def _place(self) -> FindFolder:
        return FindFolder(self._hand().task, self._state.project)

    # --- dispatching ------------------------------------------------------------------------------

    def _confirm(self) -> None:
        hand = self._hand()
        if self._state.execution_mode is ExecutionMode.MANUAL:
            self._do(ConfirmDispatch(hand))
        else:
            self._dispatch()

    def _dispatch(self) -> None:
        """Write down which attempt is made, then make it: it may be cut, and is made again."""
        hand = self._hand()
        if not hand.cut:
            hand = evolve(hand, attempt=hand.attempt + 1, dispatches=hand.dispatches + 1, cut=True)
            counts = dict(self._state.retry_counts)
            if hand.attempt > 1:
                counts[hand.task.task_id] = hand.attempt - 1
            self._save(in_hand=hand, retry_counts=counts)
        self._do(DispatchTask(self._state, hand, self._report))

    def _hear(self, event: AgentEnded) -> None:
        """Look for halts in the final words (step 9)."""
        task, words = self._hand().task, event.outcome.final_words
        halt = find_halt(words, self._rules.halts)
        if halt is None or not halt.critical:
            halt = find_format_halt(task, words) or halt
        if halt is not None and halt.critical:
            self._halt(halt.reason, halt.excerpt)
            return
        self._doubt = halt
        self._do(ValidateWork(task, event.outcome))

    def _halt(self, reason: str, details: str, **changes: Any) -> None:
        """Halt; a task in hand stays there, and the attempt that was cut is not counted."""
        hand = self._state.in_hand
        if hand is not None and hand.cut:
            hand = evolve(hand, attempt=hand.attempt - 1, cut=False)
        task_id = None if hand is None else hand.task.task_id
        record = self._record("halt", task_id, reason=reason, details=details)
        halted = self._state.halted(reason, details)
        self._save(
            record,
            status=halted.status,
            halt_reason=halted.halt_reason,
            halt_details=halted.halt_details,
            in_hand=hand,
            **changes,
        )
        self._do(self._end())

    # --- weighing ---------------------------------------------------------------------------------

    def _weigh(self, report: ValidationReport) -> None:
        """Complete the task, ask about it, or try again (step 11; CTL-41)."""
        self._report = report
        if report.valid and (self._doubt is None or not self._rules.retry_ambiguity):
            self._complete(report)
        elif self._rules.helper and report.uncertain_criteria and not self._helped:
            self._helped = True
            self._do(SeekHelp(self._hand(), report, self._rules.helper))
        elif not report.valid and report.confidence in _DOUBTS and self._ask(report):
            pass
        else:
            self._retry(report)

    def _ask(self, report: ValidationReport) -> bool:
        """Ask the next question there is; return whether there is one (CTL-45)."""
        hand = self._hand()
        criterion = next_question(report, hand.asked, of_failed=self._asks_finally)
        if criterion is None:
            return False
        asked = {**hand.asked, criterion: hand.asked.get(criterion, 0) + 1}
        self._save(in_hand=evolve(hand, asked=asked))
        self._asked = criterion
        self._do(AskAgent(self._hand(), report, criterion, asked[criterion]))
        return True

    def _settle_doubt(self, words: str) -> None:
        """Let an answer settle what no rule could tell."""
        assert self._report is not None  # noqa: S101 - no question is asked before a validation
        override = self._rules.interrogation_may_override
        report = settled_by(self._report, self._asked, words, may_override=override)
        self._report = report
        if report.valid and self._doubt is None:
            self._complete(report)
        elif not self._ask(report):
            self._retry(report)

    def _retry(self, report: ValidationReport) -> None:
        """Try again at once, then in the next iteration; at last ask, and give up (CTL-43)."""
        hand = self._hand()
        if hand.attempt > hand.task.max_retries:
            self._decide_finally(report)
            return
        strict = bool(report.failed_criteria) and report.failed_criteria == hand.failed
        kind = PromptKind.FIX if self._doubt is None else PromptKind.CLARIFICATION
        doubt = "" if self._doubt is None else f"{self._doubt.reason}: {self._doubt.excerpt}"
        hand = evolve(
            hand,
            kind=kind,
            strict=strict,
            doubt=doubt,
            failed=report.failed_criteria,
            cut=False,
        )
        last = report.to_json()
        if self._retried:
            self._save(in_hand=hand, retry_task=hand.task, last_validation_report=last)
            self._do(LoadState())
        else:
            self._retried = True
            self._save(in_hand=hand, last_validation_report=last)
            self._confirm()

    def _decide_finally(self, report: ValidationReport) -> None:
        """Ask about all that does not hold, then complete the task or block it (CTL-46)."""
        if report.valid:
            self._complete(report)
        elif not self._asks_finally:
            self._asks_finally = True
            if not self._ask(report):
                self._block(report)
        elif not self._ask(report):
            self._block(report)

    def _complete(self, report: ValidationReport) -> None:
        """Step 12 (CTL-15)."""
        state, task_id = self._state, self._hand().task.task_id
        found = report.to_json()
        done = CompletedTask(task_id, time_text(self._now), found)
        self._save(
            self._record("task_complete", task_id, validation_report=found),
            iteration=state.iteration + 1,
            last_task_id=task_id,
            last_validation_report=found,
            completed_tasks=(*state.completed_tasks, done),
            **state.put_down(),
        )
        self._do(LoadState())

    def _block(self, report: ValidationReport) -> None:
        """Give a task up, and go on with the next (CTL-46, CTL-64)."""
        hand = self._hand()
        names = (*report.failed_criteria, *report.uncertain_criteria)
        reason = f"after {hand.attempt} attempts these do not hold: {'; '.join(names)}"
        blocked = BlockedTask(hand.task.task_id, time_text(self._now), reason, hand.task)
        found = report.to_json()
        self._save(
            self._record("task_blocked", hand.task.task_id, validation_report=found, reason=reason),
            last_validation_report=found,
            blocked_tasks=(*self._state.blocked_tasks, blocked),
            **self._state.put_down(),
        )
        self._do(LoadState())

    def _record(self, name: str, task_id: str | None = None, **fields: Any) -> Record:
        return Record(name, {"task_id": task_id, **fields})


def _last_report(state: ProjectState) -> ValidationReport | None:
    """Return the last report, for the next prompt; one of another program may be unreadable."""
    if state.last_validation_report is None:
        return None
    try:
        return ValidationReport.of_json(state.last_validation_report)
    except ValueError:
        return None
