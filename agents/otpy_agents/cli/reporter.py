"""From what happens in the tree to what the views show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, final

from otpy import ChildType, log_reports
from otpy.reports import (
    ChildAbandoned,
    ChildRestarting,
    ChildStarted,
    ErrorContext,
    HookFailed,
    Report,
    SupervisorGaveUp,
)
from otpy.snapshot import TreeSnapshot
from otpy_agents.cli.view import Event, Header, Outcome, Row
from otpy_agents.store.records import State
from otpy_agents.tree.pool import POOL
from otpy_agents.worklist.assignment import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otpy_agents.cli.event_log import EventLog
    from otpy_agents.cli.view import View
    from otpy_agents.store.records import AssignmentRecord
    from otpy_agents.tree.journal import Entry, Journal
    from otpy_agents.worklist.assignment import WorkList

_STATES: Final = {"running": "working", "backing off": "waiting", "restarting": "waiting"}


@final
class Reporter:
    """Hears of everything, tells the view, and remembers what its tree is drawn from.

    Attributes:
        began: When the run began, by the clock.
    """

    def __init__(
        self,
        work: WorkList,
        view: View,
        clock: Callable[[], float],
        journal: Journal,
        log: EventLog | None = None,
    ) -> None:
        """Begin to count the seconds of the run.

        Args:
            work: What is worked on.
            view: Who is told.
            clock: Monotonic seconds.
            journal: Who is told too, for other terminals.
            log: Who writes it down too; None for nobody.
        """
        self._work = work
        self._view = view
        self._clock = clock
        self._journal = journal
        self._file = log
        self.began = clock()
        self._roles = {assignment.id: assignment.role for assignment in work.assignments}
        self._lines: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._finished: set[str] = set()
        self._restarts: Counter[str] = Counter()
        self._shown_restarts = 0
        self._stands: dict[str, str] = {}
        self._log = log_reports()

    def already(self, finished: frozenset[str]) -> None:
        """Note what earlier runs have finished."""
        self._finished |= finished

    def on_event(
        self,
        name: str,
        id: str,
        detail: Mapping[str, str | float | bool | None],
    ) -> None:
        """Take an event of the project."""
        line = detail.get("line")
        if name == "mortal.output" and isinstance(line, str):
            self._lines[id] = line
        elif name == "agent.state":
            self._stands[id] = str(detail["state"]).replace("_", " ")
        elif name in {"mortal.done", "mortal.reaped", "mortal.failed"}:
            self._finished.add(id)
        elif name == "agent.retried":
            self._finished.discard(id)
        role = str(self._roles.get(id, ""))
        if name == "mortal.reaped" and self._restarts[id]:
            detail = {**detail, "restarts": self._restarts[id]}
            self._shown_restarts += self._restarts[id] if role == Role.DRONE else 0
        event = Event(name=name, id=id, seconds=self._seconds(), detail=detail, role=role)
        entry = self._journal.note(name, id, event.seconds, detail)
        self._view.tell(event)
        if self._file is not None:
            self._write(self._file, entry)

    def _write(self, log: EventLog, entry: Entry) -> None:
        try:
            log.write(entry)
        except OSError as error:  # work must not suffer because nothing can be written down
            self._file = None
            self.on_event("log.unwritable", self._work.name, {"reason": str(error)})

    def on_report(self, report: Report) -> None:
        """Take a report of the tree."""
        mortal = report.supervisor.endswith(POOL)
        match report:
            case ChildStarted() if mortal:
                self._since[report.id] = self._clock()
                self.on_event("mortal.started", report.id, {"incarnation": report.incarnation})
            case ChildRestarting():
                name = "mortal.restarting" if mortal else report.event
                who = report.id if mortal else report.path
                self._restarts[who] += 1
                self._shown_restarts += self._roles.get(who) is not Role.DRONE
                self.on_event(
                    name,
                    who,
                    {
                        "reason": str(report.reason),
                        "delay": report.delay,
                        "restarts": self._restarts[who],
                    },
                )
            case SupervisorGaveUp() | ChildAbandoned() | HookFailed():
                self._log(report)
            case _ if not mortal and getattr(report, "context", None) in _WRONG:
                self._log(report)
            case _:
                pass

    def draw(self, tree: TreeSnapshot) -> None:
        """Show the tree as it is now."""
        header = Header(
            name=self._work.name,
            seconds=self._seconds(),
            finished=len(self._finished),
            total=len(self._work.assignments),
            restarts=self._shown_restarts,
        )
        self._view.show(header, list(self._rows(tree, 0)))

    def _rows(self, node: TreeSnapshot, depth: int) -> Iterator[Row]:
        role = self._role(node)
        mortal = role in {"mortal", "drone"}
        since = self._since.get(node.id) if mortal and node.state == "running" else None
        yield Row(
            id=node.id,
            role=role,
            state=self._state(node) if mortal else node.state,
            restarts=node.restarts,
            seconds=None if since is None else self._clock() - since,
            last_line=self._lines.get(node.id, "") if mortal else "",
            depth=depth,
        )
        for child in node.children:
            yield from self._rows(child, depth + 1)

    def _state(self, node: TreeSnapshot) -> str:
        """Return where a mortal stands: as its agent moved, between two lives, or in a line."""
        if node.id in self._journal.in_line:
            return "in line"
        if self._journal.held.get(node.id, 0.0) > self._seconds():
            return "held back"
        state = _STATES.get(node.state, node.state)
        return self._stands.get(node.id, state) if state == "working" else state

    def _role(self, node: TreeSnapshot) -> str:
        if node.type is ChildType.SUPERVISOR:
            return "supervisor"
        if f"/{POOL}/" in node.path:
            return str(self._roles.get(node.id, "mortal"))
        return "jake" if node.id == "Jake" else "monitor"

    def _seconds(self) -> float:
        return self._clock() - self.began


_WRONG: Final = frozenset({ErrorContext.CHILD_TERMINATED, ErrorContext.START_ERROR})


def outcomes_of(work: WorkList, records: Sequence[AssignmentRecord]) -> list[Outcome]:
    """Return how each assignment came out, in the order of the list."""
    known = {record.id: record for record in records}
    return [
        Outcome(
            id=assignment.id,
            expected=str(assignment.expect),
            ended=str(record.state if record else State.PENDING),
            reason=record.reason if record else "",
            restarts=record.restarts if record else 0,
            seconds=record.seconds if record else 0.0,
        )
        for assignment in work.assignments
        for record in [known.get(assignment.id)]
    ]
