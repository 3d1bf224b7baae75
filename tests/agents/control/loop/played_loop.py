"""A simulated project: a store in memory, and agents that follow the test."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import final

from attrs import define, evolve, field

from otpy_agents.control.halts import HaltReason
from otpy_agents.control.loop.machine import ControlLoop, LoopRules
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
    QueueAnswered,
    ReserveTask,
    SaveState,
    SeekHelp,
    SettleTask,
    StateLoaded,
    ValidateWork,
    WorkValidated,
)
from otpy_agents.control.report import (
    CriterionReport,
    CriterionVerdict,
    MatchQuality,
    ValidationReport,
)
from otpy_agents.control.state import ProjectState, ProjectStatus
from otpy_agents.control.state_change import changed, difference
from otpy_agents.control.state_reader import read_state
from otpy_agents.control.task import ControlTask
from otpy_agents.control.validation import AgentOutcome

__all__ = ["Killed", "Played", "failing", "passing", "task", "unsure"]


class Killed(BaseException):
    """The host is killed at this point."""


def task(name: str, retries: int = 3) -> ControlTask:
    return ControlTask(
        task_id=name,
        intent="i",
        tool="claude",
        instructions="do it",
        acceptance_criteria=("a", "b"),
        max_retries=retries,
    )


def report(verdict: CriterionVerdict, *names: str) -> ValidationReport:
    quality = MatchQuality.LOW if verdict is CriterionVerdict.UNCERTAIN else MatchQuality.EXACT
    return ValidationReport.of(CriterionReport(name, verdict, quality, "c", "s") for name in names)


def failing(*names: str) -> ValidationReport:
    return report(CriterionVerdict.FAILED, *(names or ("a",)))


def unsure(*names: str) -> ValidationReport:
    return report(CriterionVerdict.UNCERTAIN, *(names or ("a",)))


def passing() -> ValidationReport:
    return report(CriterionVerdict.PASSED, "a")


@final
@define
class Played:
    """A project, its store and its agents.

    Attributes:
        words: Returns the final words of a dispatch; None for one that cannot be executed.
        found: Returns the report of a validation.
        reply: Returns the answer to a question.
        help: Returns the report that the commands of a helper have settled.
        cut: Called before each effect and after it; may raise `Killed`.
        did: The names of effects, in order.
        dispatches: The dispatches: task, attempt, kind and whether strict.
    """

    words: Callable[[DispatchTask], str | None] = lambda _: "Done."
    found: Callable[[ValidateWork], ValidationReport] = lambda _: passing()
    reply: Callable[[AskAgent], str] = lambda _: "perhaps"
    help: Callable[[SeekHelp], ValidationReport] = lambda effect: effect.report
    confirm: Callable[[ConfirmDispatch], bool] = lambda _: True
    place: Callable[[FindFolder], str] = lambda _: ""
    cut: Callable[[str], None] = lambda _: None
    rules: LoopRules = field(factory=LoopRules)
    stored: str = ""
    queue: deque[ControlTask] = field(factory=deque[ControlTask])
    reserved: list[ControlTask] = field(factory=list[ControlTask])
    did: list[str] = field(factory=list[str])
    told: list[str] = field(factory=list[str])
    dispatches: list[tuple[str, int, str, bool]] = field(factory=list[tuple[str, int, str, bool]])
    questions: list[str] = field(factory=list[str])
    now: float = 1735689600.0

    def begin(self, tasks: Sequence[ControlTask], *, completed: bool = False) -> None:
        """Set up a running project."""
        self.state = evolve(
            ProjectState(), status=ProjectStatus.RUNNING, goal_completed=completed, description="g"
        )
        self.queue.extend(tasks)

    @property
    def state(self) -> ProjectState:
        """The stored state."""
        return read_state(self.stored)

    @state.setter
    def state(self, state: ProjectState) -> None:
        self.stored = state.to_text()

    def resume(self) -> None:
        """Do the work of the operator's `resume`."""
        self.state = evolve(
            self.state,
            status=ProjectStatus.RUNNING,
            halt_reason=None,
            halt_details=None,
            exhausted=False,
        )

    def start(self) -> EndLoop:
        """Run a new loop to its end."""
        loop = ControlLoop(self.rules)
        event: ControlEvent | None = LoopBegun()
        while event is not None:
            self.now += 1
            effects = loop.handle(event, self.now)
            event = None
            for effect in effects:
                name = type(effect).__name__
                self.cut(f"before {name}")
                self.did.append(name)
                event = self._perform(effect)
                self.cut(f"after {name}")
                if isinstance(effect, EndLoop):
                    return effect
                if event is not None:
                    break
        raise AssertionError(self.did)

    def _perform(self, effect: ControlEffect) -> ControlEvent | None:
        match effect:
            case LoadState():
                return StateLoaded(self.state)
            case ReserveTask():
                if not self.reserved and self.queue:
                    self.reserved.append(self.queue.popleft())
                return QueueAnswered(self.reserved[0] if self.reserved else None)
            case SettleTask(task_id):
                self.reserved = [one for one in self.reserved if one.task_id != task_id]
            case SaveState(before, after, records):
                change = difference(before.to_json(), after.to_json())
                self.stored = json.dumps(changed(json.loads(self.stored), change))
                self.told += [record.name for record in records]
                if self.state.status is ProjectStatus.HALTED is not after.status:
                    return HaltSeen(self.state)
            case FindFolder():
                return FolderFound(self.place(effect))
            case ConfirmDispatch():
                return OperatorAnswered(self.confirm(effect))
            case DispatchTask(_, hand):
                self.dispatches.append((hand.task.task_id, hand.attempt, hand.kind, hand.strict))
                words = self.words(effect)
                if words is None:
                    return NotDispatched("no such program")
                return AgentEnded(AgentOutcome(0, words))
            case ValidateWork():
                return WorkValidated(self.found(effect))
            case SeekHelp():
                return HelpGiven(self.help(effect))
            case AskAgent(_, _, criterion):
                self.questions.append(criterion)
                return AgentReplied(self.reply(effect))
            case HaltBroken(reason, details):
                self.state = self.state.halted(reason, details)
            case _:
                pass
        return None


BLOCKING = HaltReason.BLOCKED
