"""What views are told of restarts (TREE-50)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from otpy import ChildType, Crashed, TreeSnapshot
from otpy.reports import ChildRestarting
from otpy_agents.cli.reporter import Reporter
from otpy_agents.cli.view import Event, Header, Outcome, Row
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.worklist import parse

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
    """A view that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.restarts = 0

    def show(self, header: Header, rows: Sequence[Row]) -> None:
        self.restarts = header.restarts

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def close(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing."""


async def test_restarts_are_counted_and_those_of_drones_show_at_their_end() -> None:
    """In the line above the tree as in the words about it; of Jake each one."""
    view = Seen()
    reporter = Reporter(parse(LIST, Path("w.toml")), view, lambda: 0.0, Journal())
    root = TreeSnapshot(id="App", path="App", type=ChildType.SUPERVISOR, state="running")

    def shown(*paths: str) -> int:
        for path in paths:
            reason = Crashed(ValueError("boom"))
            reporter.on_report(ChildRestarting(path=f"AppSupervisor/{path}", time=0, reason=reason))
        reporter.draw(root)
        return view.restarts

    assert shown("MortalPool/m", "MortalPool/m") == 2
    assert [event.detail["restarts"] for event in view.events] == [1, 2]
    assert shown("MortalPool/d") == 2
    reporter.on_event("mortal.reaped", "d", {"reason": "no luck"})
    assert view.events[-1].detail == {"reason": "no luck", "restarts": 1}
    assert shown("JakeSupervisor/Jake") == 4
    jake = view.events[-1]
    assert (jake.name, jake.role, jake.detail["restarts"]) == ("child.restarting", "", 1)
    assert {event.id: event.role for event in view.events[:-1]} == {"m": "mortal", "d": "drone"}
