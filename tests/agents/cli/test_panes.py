"""Several lists in one view: the content and the order of their panes."""

from __future__ import annotations

from collections.abc import Sequence

from otpy_agents.app.chronicle import Event
from otpy_agents.app.conclusion import Conclusion
from otpy_agents.cli.panes import Pane, Panes
from otpy_agents.cli.view import Header, TreeRow


class Shown:
    """A view that keeps what it is given."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.rows: list[tuple[str, int]] = []
        self.told: list[str] = []

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        self.header = header
        self.rows = [(row.id, row.depth) for row in rows]

    def tell(self, event: Event) -> None:
        self.told.append(event.id)

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        raise AssertionError(outcomes)


def tree(child: str) -> list[TreeRow]:
    root = TreeRow(id="AppSupervisor", role="supervisor", state="running")
    return [root, TreeRow(id=child, role="mortal", state="working", depth=1)]


def header(
    name: str, *, seconds: float, finished: int = 0, total: int = 0, restarts: int = 0
) -> Header:
    return Header(name=name, seconds=seconds, finished=finished, total=total, restarts=restarts)


def test_lists_are_shown_below_each_other_in_the_order_they_were_typed() -> None:
    """Each stands under its own name, in any order of arrival; the top line counts all."""
    view = Shown()
    panes = Panes(view, ["one", "two"])
    Pane(panes, "two").show(header("two", seconds=1.0, finished=1, total=2), tree("b"))
    assert view.rows == [("two", 0), ("b", 1)]
    Pane(panes, "one").show(header("one", seconds=3.0, total=4, restarts=5), tree("a"))
    assert view.rows == [("one", 0), ("a", 1), ("two", 0), ("b", 1)]
    assert view.header == Header(name="one, two", seconds=3.0, finished=1, total=6, restarts=5)


def test_an_event_says_which_list_it_is_about() -> None:
    """The end of one list does not end the view."""
    view = Shown()
    pane = Pane(Panes(view, ["one"]), "one")
    pane.tell(Event(name="mortal.done", id="a", seconds=1.0, detail={}))
    pane.close(())
    assert view.told == ["one/a"]
