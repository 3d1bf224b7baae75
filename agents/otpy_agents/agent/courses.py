"""The courses of all assignments of a list, and of whom there is something new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import final

from otpy_agents.agent.course import Course, Leg
from otpy_agents.store.agent_rows import AgentRow
from otpy_agents.store.records import AssignmentRecord, Outcome

__all__ = ["Courses"]


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
        """Let whoever waits look again: there is something to hand out, or to write down.

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
