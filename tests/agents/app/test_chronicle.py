"""Messages about restarts, and how the views show them (TREE-50)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from otpy import ChildType, Crashed
from otpy.reports import ChildRestarting
from otpy.snapshot import TreeSnapshot
from otpy_agents.app import Conclusion, Event
from otpy_agents.app.chronicle import Chronicle
from otpy_agents.cli.reporter import Reporter
from otpy_agents.cli.view import Header, TreeRow
from otpy_agents.tree.journal import Journal
from otpy_agents.worklist.reader import parse

LIST = """
[[assignment]]
id = "m"
argv = ["true"]
[[assignment]]
id = "d"
argv = ["true"]
role = "drone"
"""


class Seen:
    """A view that records everything."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.restarts = 0
        self.states: dict[str, str] = {}

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        self.restarts = header.restarts
        self.states = {row.id: row.state for row in rows}

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Do nothing."""


async def test_restarts_are_counted_and_those_of_drones_show_at_their_end() -> None:
    """The line above the tree and the messages agree; each restart of Jake has a message."""
    view = Seen()
    work, journal = parse(LIST, Path("w.toml")), Journal()
    reporter = Reporter(work, view, lambda: 0.0)
    chronicle = Chronicle(work, journal, lambda: 0.0, reporter.hear)
    root = TreeSnapshot(id="App", path="App", type=ChildType.SUPERVISOR, state="running")

    def shown(*paths: str) -> int:
        for path in paths:
            reason = Crashed(ValueError("boom"))
            chronicle.on_report(
                ChildRestarting(path=f"AppSupervisor/{path}", time=0, reason=reason)
            )
        reporter.draw(root, journal)
        return view.restarts

    assert shown("MortalPool/m", "MortalPool/m") == 2
    assert [event.detail["restarts"] for event in view.events] == [1, 2]
    assert shown("MortalPool/d") == 2
    chronicle.on_event("mortal.reaped", "d", {"reason": "no luck"})
    assert view.events[-1].detail == {"reason": "no luck", "restarts": 1}
    assert shown("JakeSupervisor/Jake") == 4
    jake = view.events[-1]
    assert (jake.name, jake.role, jake.detail["restarts"]) == ("child.restarting", "", 1)
    assert {event.id: event.role for event in view.events[:-1]} == {"m": "mortal", "d": "drone"}


def test_the_tree_says_who_is_held_back_and_who_waits_for_a_place() -> None:
    """The state lasts as long as its cause; then the row shows starting or working again."""
    view, now = Seen(), [0.0]
    work, journal = parse(LIST, Path("w.toml")), Journal()
    reporter = Reporter(work, view, lambda: now[0])
    chronicle = Chronicle(work, journal, lambda: now[0], reporter.hear)
    mortals = [
        TreeSnapshot(id=one, path=f"App/MortalPool/{one}", type=ChildType.WORKER, state=state)
        for one, state in (("m", "starting"), ("d", "running"))
    ]
    root = TreeSnapshot(
        id="App", path="App", type=ChildType.SUPERVISOR, state="running", children=tuple(mortals)
    )

    def states() -> tuple[str, str]:
        reporter.draw(root, journal)
        return view.states["m"], view.states["d"]

    chronicle.on_event("mortal.held_back", "m", {"delay": 5.0})
    chronicle.on_event("mortal.queued", "d", {})
    assert states() == ("held back", "in line")
    chronicle.on_event("agent.state", "d", {"state": "working"})
    now[0] = 6.0
    assert states() == ("starting", "working")
