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
        self.lines: list[str] = []
        self.told: list[str] = []

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        self.header = header
        self.rows = [(row.id, row.depth) for row in rows]
        self.lines = [f"{row.state} {row.last_line}" for row in rows]

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


def test_a_list_that_has_ended_is_one_line_that_says_how_it_came_out() -> None:
    """The others go on to be drawn, and it is not shown as if it ran."""
    view = Shown()
    panes = Panes(view, ["one", "two"])
    one = Pane(panes, "one")
    one.show(header("one", seconds=3.0, finished=1, total=3), tree("a"))
    one.close([conclusion(ended) for ended in ("done", "reaped", "done")])
    Pane(panes, "two").show(header("two", seconds=9.0, total=2), tree("b"))
    assert view.rows == [("one", 0), ("two", 0), ("b", 1)]
    assert view.lines[0] == "ended 2 done, 1 reaped"
    assert view.header == Header(name="one, two", seconds=9.0, finished=3, total=5, restarts=0)


def test_a_list_that_could_not_be_worked_on_is_not_shown() -> None:
    """It never had a tree."""
    view = Shown()
    panes = Panes(view, ["one", "two"])
    Pane(panes, "one").close(())
    Pane(panes, "two").show(header("two", seconds=1.0), tree("b"))
    assert view.rows == [("two", 0), ("b", 1)]


def conclusion(ended: str) -> Conclusion:
    return Conclusion(id="a", expected="done", ended=ended, reason="", restarts=0, seconds=1.0)
