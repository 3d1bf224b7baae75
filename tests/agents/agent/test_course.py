"""The course of an assignment, as a machine on its own."""

from __future__ import annotations

from functools import partial

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from otpy_agents.agent.course import HOST_ENDED, Course, Leg
from otpy_agents.store.records import AssignmentRecord, Outcome, State

DONE = Outcome(State.DONE)
ENOUGH = Outcome(State.REAPED, "enough")
OUTCOMES = st.sampled_from([DONE, ENOUGH, Outcome(State.FAILED, "no program")])
ROW = AssignmentRecord(
    id="a",
    digest="1",
    state=State.PENDING,
    reason="",
    restarts=0,
    attempts=0,
    first_started=None,
    finished=None,
    seconds=0.0,
    output_bytes=0,
    exit_code=None,
    last_line="",
)


class CourseMachine(RuleBasedStateMachine):
    """After any events in any order, a course comes out once and keeps its reason."""

    def __init__(self) -> None:
        super().__init__()
        self.course = Course()
        self.given_up: Outcome | None = None
        self.over: Outcome | None = None

    @rule(outcome=OUTCOMES.filter(lambda one: one.state is not State.DONE))
    def give_up(self, outcome: Outcome) -> None:
        """The first reason counts, and none after the end."""
        self.course = self.course.give_up(outcome)
        if self.over is None:
            self.given_up = self.given_up or outcome

    @rule(outcome=OUTCOMES)
    def come_out(self, outcome: Outcome) -> None:
        """Done counts as done; any other outcome gives way to the first reason, if there is one."""
        self.course = self.course.come_out(outcome)
        if self.over is None:
            reason = None if outcome.state is State.DONE else self.given_up
            self.over = reason or outcome

    @rule()
    def write_down(self) -> None:
        """Only an outcome can be written down."""
        self.course = self.course.write_down()

    @rule(killed=st.booleans())
    def start(self, killed: bool) -> None:
        """A start never sets an outcome."""
        self.course = self.course.start(killed=killed)

    @precondition(lambda self: self.course.leg is Leg.WRITTEN)
    @rule()
    def retry(self) -> None:
        """The course is as at the beginning, except for the end of its last life."""
        self.course = self.course.retry()
        self.given_up = self.over = None

    @invariant()
    def it_says_what_became_of_it(self) -> None:
        """The course has at most one of reason and outcome, and the expected one."""
        assert self.course.over == self.over
        assert self.course.ending == (self.given_up if self.over is None else None)
        assert self.course.may_start_again <= (self.course.leg is Leg.OPEN)


TestCourse = CourseMachine.TestCase


def test_five_starts_in_succession_that_were_killed_are_enough() -> None:
    """One start that was not killed resets the count."""
    course = Course()
    for _ in range(4):
        course = course.start(killed=True)
    assert course.may_start_again
    assert course.start(killed=False).start(killed=True).may_start_again
    assert not course.start(killed=True).may_start_again


def test_what_an_earlier_host_has_written_is_where_it_begins() -> None:
    """Done or reaped has come out, failed is open, and an interrupted course keeps its end."""
    row = partial(evolve, ROW)
    assert Course.of(row(state=State.REAPED, reason="enough")) == Course(
        leg=Leg.WRITTEN, outcome=ENOUGH
    )
    assert Course.of(ROW) == Course()
    assert Course.of(row(state=State.FAILED, attempts=2, reason="no program")) == Course()
    assert Course.of(row(attempts=1, reason="exit code 1")) == Course(last_end="exit code 1")
    assert Course.of(row(state=State.WORKING, attempts=1)) == Course(last_end=HOST_ENDED)


def test_a_note_to_the_next_life_outlives_a_retry() -> None:
    """The next life is told why the last one ended."""
    course = Course().end_life("exit code 1").come_out(ENOUGH).write_down()
    assert course.retry() == Course(last_end="exit code 1")
