"""The loop as a state machine, with an operator and kills beside it."""

from __future__ import annotations

import contextlib
import random
from typing import final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from otpy_agents.control.report import ValidationReport
from otpy_agents.control.state import ProjectStatus
from tests.agents.control.loop.played_loop import Killed, Played, failing, passing, task, unsure

QUESTION = "QUESTION: which of the two parsers is meant?"
WORDS = (*["Done."] * 8, QUESTION, QUESTION, "BLOCKED: no network", None)
FOUND = (passing(), passing(), failing("a"), failing("b"), unsure("a"), unsure("a", "b"))


@final
class Project(RuleBasedStateMachine):
    """A project with a random operator, agents and host (CTL-08, CTL-46, CTL-62)."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(0)
        self.left = 0  # points until the next kill; 0 for none
        self.most: dict[str, int] = {}
        self.played = Played(
            words=lambda _: self.chance.choice(WORDS),
            found=lambda _: self._found(),
            reply=lambda _: self.chance.choice(("yes", "no", "perhaps")),
            cut=self._cut,
        )
        self.played.begin([], completed=True)

    def _found(self) -> ValidationReport:
        return self.chance.choice(FOUND)

    def _cut(self, _: str) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                raise Killed

    @property
    def waiting(self) -> list[str]:
        return [one.task_id for one in (*self.played.reserved, *self.played.queue)]

    @rule(retries=st.integers(0, 3))
    def enqueue(self, retries: int) -> None:
        name = f"t{len(self.most)}"
        self.most[name] = retries + 1
        self.played.queue.append(task(name, retries))

    @rule(
        seed=st.integers(0, 2**32),
        kill=st.integers(0, 80),
        is_resumed=st.sampled_from([True, True, True, False]),
    )
    def start(self, seed: int, kill: int, *, is_resumed: bool) -> None:
        """A project that is not running dispatches nothing, and keeps its status."""
        if is_resumed:
            self.played.resume()
        self.chance, self.left = random.Random(seed), kill
        before, dispatches = self.played.state.status, len(self.played.dispatches)
        with contextlib.suppress(Killed):
            self.played.start()
        self.left = 0
        if before is not ProjectStatus.RUNNING:
            assert self.played.state.status is before
            assert len(self.played.dispatches) == dispatches

    @rule()
    def halt(self) -> None:
        self.played.state = self.played.state.halted("lunch")

    @precondition(lambda self: self.played.state.blocked_tasks)
    @rule(data=st.data())
    def unblock(self, data: st.DataObject) -> None:
        blocked = data.draw(st.sampled_from(self.played.state.blocked_tasks))
        if blocked.task is not None and blocked.task_id not in self.waiting:
            self.played.queue.append(blocked.task)

    @invariant()
    def no_task_is_lost_and_none_done_twice(self) -> None:
        state = self.played.state
        hand = [] if state.in_hand is None else [state.in_hand.task.task_id]
        waiting = [name for name in self.waiting if name not in hand]
        completed = [one.task_id for one in state.completed_tasks]
        blocked = [one.task_id for one in state.blocked_tasks if one.task_id not in waiting]
        assert sorted([*completed, *blocked, *hand, *waiting]) == sorted(self.most)

    @invariant()
    def no_task_has_more_attempts_than_it_may(self) -> None:
        assert all(attempt <= self.most[name] for name, attempt, *_ in self.played.dispatches)


TestProject = Project.TestCase
TestProject.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
