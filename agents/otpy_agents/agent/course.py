"""May it start, and what becomes of it: an assignment under one host, and all those of a list.

A `Course` is one small pure machine, and one row on disk: each change returns a new `Course`. The
row is that of the assignment in the ledger; where a course stands that came out, it has yet to be
written there.

    OPEN --give_up--> ENDING --come_out--> OVER --write_down--> WRITTEN --retry--> OPEN
    OPEN --come_out--> OVER
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, final

from attrs import evolve, frozen

from otpy_agents.store.records import AgentRow, AssignmentRecord, Outcome, State

__all__ = ["Course", "Courses", "HOST_ENDED", "Leg", "Reaped", "Waits", "hindrance"]

HOST_ENDED: Final = "its host ended"

_STARTS: Final = 5  # starts in succession that are killed before the mortal is ready


@final
@frozen
class Reaped:
    """Detail of the `Shutdown` of a mortal that was given up (TREE-49).

    Attributes:
        why: The reason, in one line.
        failed: Whether it ended itself because it has failed, as its group is to know.
    """

    why: str
    failed: bool = False

    def __str__(self) -> str:
        """Return the reason."""
        return self.why


class Leg(StrEnum):
    """How far an assignment has come."""

    OPEN = "open"
    """It is to be begun, is worked on, or waits for its restart."""
    ENDING = "ending"
    """It is being given up."""
    OVER = "over"
    """It came out, and that is not written down yet."""
    WRITTEN = "written"
    """It came out, and the ledger knows."""


@final
@frozen(kw_only=True)
class Course:
    """The course of one assignment.

    Attributes:
        leg: How far it has come.
        outcome: How it came out; while it is being given up, how it will; None while it is open.
        killed_starts: Starts in succession that were killed before the mortal was ready.
        last_end: Why the last life ended, under the host before too; None if there was none.
        stood: Where its agent stood when the host before ended, until its post is opened.
    """

    leg: Leg = Leg.OPEN
    outcome: Outcome | None = None
    killed_starts: int = 0
    last_end: str | None = None
    stood: AgentRow | None = None

    @classmethod
    def of(cls, record: AssignmentRecord, stood: AgentRow | None = None) -> Course:
        """Return an assignment's course from the ledger; a failed assignment is open again."""
        if record.state.final:
            outcome = Outcome(record.state, record.reason)
            return cls(leg=Leg.WRITTEN, outcome=outcome, stood=stood)
        begun = record.attempts and record.state is not State.FAILED
        return cls(last_end=(record.reason or HOST_ENDED) if begun else None, stood=stood)

    @property
    def over(self) -> Outcome | None:
        """How it came out; None as long as it has not."""
        return self.outcome if self.leg in {Leg.OVER, Leg.WRITTEN} else None

    @property
    def ending(self) -> Outcome | None:
        """How it will have come out that is being given up; None if it is not."""
        return self.outcome if self.leg is Leg.ENDING else None

    @property
    def may_start_again(self) -> bool:
        """Whether a start that was killed says nothing about it, and the next may come out well."""
        return self.leg is Leg.OPEN and self.killed_starts < _STARTS

    def give_up(self, outcome: Outcome) -> Course:
        """Let it end; the first reason counts."""
        return evolve(self, leg=Leg.ENDING, outcome=outcome) if self.leg is Leg.OPEN else self

    def come_out(self, outcome: Outcome) -> Course:
        """Take how it came out; later news change nothing.

        One that was being given up came out as that says, whatever ended it, unless it is done.
        """
        if self.over is not None:
            return self
        given_up = self.leg is Leg.ENDING and outcome.state is not State.DONE
        return evolve(self, leg=Leg.OVER, outcome=self.outcome if given_up else outcome)

    def write_down(self) -> Course:
        """Take the news that the ledger knows how it came out."""
        return evolve(self, leg=Leg.WRITTEN) if self.leg is Leg.OVER else self

    def retry(self) -> Course:
        """Open it again."""
        return Course(last_end=self.last_end)

    def start(self, *, killed: bool) -> Course:
        """Count a killed start; a start that was not killed resets the count."""
        return evolve(self, killed_starts=self.killed_starts + 1 if killed else 0)

    def end_life(self, why: str) -> Course:
        """Remember why a life ended, for the note to the next one."""
        return evolve(self, last_end=why)

    def open_post(self) -> Course:
        """Forget where its agent stood, which its post knows from now on."""
        return evolve(self, stood=None)

    def close_post(self, stood: AgentRow | None) -> Course:
        """Remember again where its agent stood, as the start that its post was for was refused."""
        return evolve(self, stood=stood)


class Waits(StrEnum):
    """What an assignment waits for before it is begun."""

    BUDGET = "budget"
    """Nothing is left of the list's. An agent that was begun before rests with its session."""
    PLACE = "place"
    """As many work as may at the same time (TREE-19)."""


def hindrance(*, spent: str, held: bool, place: bool) -> Waits | Outcome | None:
    """Return what keeps an assignment from being begun now.

    Args:
        spent: Which budget leaves a program nothing, in one line; empty for none, and for an agent.
            A program has no turn at whose end it could rest: without a budget it is over (C-12).
        held: Whether it is new, and nothing is left of the list's budget.
        place: Whether it has a place to work, or there is one.

    Returns:
        None if nothing does; an outcome if it never will be begun.
    """
    if spent:
        return Outcome(State.REAPED, spent)
    if held:
        return Waits.BUDGET
    return None if place else Waits.PLACE


@final
class Courses:
    """The courses of assignments by their names; a change costs the same in a list of any length.

    Args:
        records: What the ledger knows of each assignment when the host begins.
        agents: Where its agents stood when the host before ended.

    Attributes:
        stirred: Names of whom something is new since Jake has looked.
        ending: How those will have come out that are being given up, by name.
        unwritten: How those came out of whom the ledger does not know it yet, by name.
        version: Grows with every piece of news.
    """

    def __init__(
        self, records: Iterable[AssignmentRecord] = (), agents: Iterable[AgentRow] = ()
    ) -> None:
        stood = {row.assignment: row for row in agents}
        self._courses = {one.id: Course.of(one, stood.pop(one.id, None)) for one in records}
        for name, row in stood.items():  # of whom the list may yet get an assignment
            self._courses[name] = Course(stood=row)
        self.stirred: set[str] = set()
        self.ending: dict[str, Outcome] = {}
        self.unwritten: dict[str, Outcome] = {}
        self.version = 0
        self._news = asyncio.Event()

    def __getitem__(self, name: str) -> Course:
        """Return the course of an assignment; an open one of a name that is not known."""
        return self._courses.get(name) or Course()

    def outcome(self, name: str) -> Outcome | None:
        """Return how an assignment came out, under an earlier host too; None if it has not."""
        return self[name].over

    def change(self, name: str, move: Callable[[Course], Course]) -> bool:
        """Let the course of an assignment change; return whether it did."""
        before = self[name]
        after = move(before)
        if after == before:
            return False
        self._courses[name] = after
        self.stirred.add(name)
        for leg, index in ((Leg.ENDING, self.ending), (Leg.OVER, self.unwritten)):
            if after.leg is leg and after.outcome is not None:
                index[name] = after.outcome
            else:
                index.pop(name, None)
        return True

    def news(self, name: str = "") -> None:
        """Wake the waiting tasks: there is work to hand out, or news to write down.

        Args:
            name: The assignment that it is about; empty if it is about none.
        """
        if name:
            self.stirred.add(name)
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()

    async def until_news(self, seen: int) -> None:
        """Wait until `version` is no longer `seen`."""
        while self.version == seen:
            await self._news.wait()
