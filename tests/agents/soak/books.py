"""The books of a soak: all events of all of its hosts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeAlias, final

from attrs import frozen

from otpy.reports import Report
from otpy_agents.agent.workplace import Workplace
from otpy_agents.store.records import Outcome
from otpy_agents.tree.project import Project
from tests.agents.soak.faults import Faults
from tests.agents.soak.plans import Plan
from tests.agents.soak.stage import Stage

__all__ = ["Books", "Told"]

Detail: TypeAlias = Mapping[str, str | float | bool | None]


@frozen
class Told:
    """One event."""

    at: float
    name: str
    id: str
    detail: Detail

    def __str__(self) -> str:
        """Return it as one line."""
        detail = " ".join(f"{key}={value}" for key, value in self.detail.items())
        return f"{self.at:10.3f} {self.name} {self.id} {detail}"[:300]


@final
class Books:
    """The records of a soak.

    Args:
        plans: Its assignments.
        stage: The stage on which its agents play.

    Attributes:
        plans: As given.
        stage: As given.
        wrong: The errors that were found; empty if all is well.
        told: Every event of all hosts, in order.
        reports: The number of reports of each kind that the trees made.
        harm: The number of harmful deeds of each kind.
        outcomes: The outcomes of assignments in the pools, by name; one for each host that has one.
        workplace: That of the last host.
    """

    def __init__(self, plans: tuple[Plan, ...], stage: Stage) -> None:
        self.plans = plans
        self.stage = stage
        self.wrong: list[str] = []
        self.told: list[Told] = []
        self.reports: Counter[str] = Counter()
        self.harm: Counter[str] = Counter()
        self.outcomes: dict[str, list[Outcome]] = {}
        self.workplace: Workplace
        self._faults: Faults | None = None
        self._harm: asyncio.Task[None] | None = None

    def on_event(self, name: str, id: str, detail: Detail) -> None:
        """Take an event of a project."""
        self.told.append(Told(asyncio.get_running_loop().time(), name, id, detail))
        if self._faults is not None:
            self._faults.heard(name, id)

    def on_report(self, report: Report) -> None:
        """Take a report of a tree."""
        self.reports[type(report).__name__] += 1

    def on_trouble(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take an error that was not caught."""
        error = context.get("exception")
        self.wrong.append(f"trouble: {context.get('message')}: {error!r}")

    @contextmanager
    def of_host(self, project: Project, faults: Faults) -> Generator[None]:
        """Give a host its harm and its operator for as long as the block lasts."""
        self._faults = faults
        self._harm = asyncio.create_task(faults.go_on())
        attending = asyncio.create_task(faults.attend())
        try:
            yield
        finally:
            self.harm_over()
            attending.cancel()
            self.harm += faults.done
            for name in project.desk.memory.listed:
                outcome = project.pool.courses.outcome(name)
                if outcome is not None:
                    self.outcomes.setdefault(name, []).append(outcome)

    def harm_over(self) -> None:
        """End the harm."""
        self._faults = None
        if self._harm is not None:
            self._harm.cancel()

    # --- for people -------------------------------------------------------------------------------

    @property
    def history(self) -> str:
        """A fingerprint of all events and their times."""
        lines = "\n".join(f"{one.at:.3f} {one.name} {one.id}" for one in self.told)
        return sha256(lines.encode()).hexdigest()[:12]

    def last_of(self, id: str, count: int = 40) -> list[str]:
        """Return the last events about something, as lines."""
        return [str(one) for one in self.told if one.id == id][-count:]
