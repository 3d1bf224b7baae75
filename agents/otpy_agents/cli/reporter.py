"""Turns the events of the tree into the output of the views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from otpy import ChildType
from otpy.snapshot import TreeSnapshot
from otpy_agents.cli.view import Header, TreeRow
from otpy_agents.tree.pool import POOL
from otpy_agents.worklist.assignment import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otpy_agents.app.chronicle import Event
    from otpy_agents.cli.view import View
    from otpy_agents.tree.journal import Journal
    from otpy_agents.worklist.assignment import WorkList

_STATES: Final = {"running": "working", "backing off": "waiting", "restarting": "waiting"}


@final
class Reporter:
    """Receives each event, passes it to the view, and keeps the data for drawing its tree."""

    def __init__(self, work: WorkList, view: View, clock: Callable[[], float]) -> None:
        """Begin to count the seconds of the run.

        Args:
            work: What is worked on.
            view: Who is told.
            clock: Monotonic seconds.
        """
        self._work = work
        self._view = view
        self._clock = clock
        self._began = clock()
        self._roles = {assignment.id: assignment.role for assignment in work.assignments}
        self._lines: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._finished: set[str] = set()
        self._restarts = 0
        self._stands: dict[str, str] = {}

    def note_finished(self, finished: frozenset[str]) -> None:
        """Note what earlier runs have finished."""
        self._finished |= finished

    def hear(self, event: Event) -> None:
        """Take an event."""
        detail, who = event.detail, event.id
        match event.name:
            case "mortal.output":
                self._lines[who] = str(detail.get("line"))
            case "mortal.started":
                self._since[who] = self._clock()
            case "agent.state":
                self._stands[who] = str(detail["state"]).replace("_", " ")
            case "mortal.done" | "mortal.reaped" | "mortal.failed":
                self._finished.add(who)
                if event.name == "mortal.reaped" and event.role == Role.DRONE:
                    self._restarts += int(detail.get("restarts") or 0)
            case "agent.retried":
                self._finished.discard(who)
            case "mortal.restarting" | "child.restarting":
                self._restarts += event.role != Role.DRONE
            case _:
                pass
        self._view.tell(event)

    def draw(self, tree: TreeSnapshot, journal: Journal) -> None:
        """Show the tree as it is now; the journal knows which agents queue or are held back."""
        header = Header(
            name=self._work.name,
            seconds=self._seconds(),
            finished=len(self._finished),
            total=len(self._work.assignments),
            restarts=self._restarts,
        )
        self._view.show(header, list(self._rows(tree, journal, 0)))

    def _rows(self, node: TreeSnapshot, journal: Journal, depth: int) -> Iterator[TreeRow]:
        role = self._role(node)
        mortal = role in {"mortal", "drone"}
        since = self._since.get(node.id) if mortal and node.state == "running" else None
        yield TreeRow(
            id=node.id,
            role=role,
            state=self._state(node, journal) if mortal else node.state,
            restarts=node.restarts,
            seconds=None if since is None else self._clock() - since,
            last_line=self._lines.get(node.id, "") if mortal else "",
            depth=depth,
        )
        for child in node.children:
            yield from self._rows(child, journal, depth + 1)

    def _state(self, node: TreeSnapshot, journal: Journal) -> str:
        """Return where a mortal stands: as its agent moved, between two lives, or in a line."""
        if node.id in journal.in_line:
            return "in line"
        if journal.held.get(node.id, 0.0) > self._seconds():
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
        return self._clock() - self._began
