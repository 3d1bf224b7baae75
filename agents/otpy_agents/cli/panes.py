"""Several lists in one view: each event and each line says which list it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from attrs import evolve

from otpy_agents.cli.view import Header, TreeRow
from otpy_agents.store.records import State

if TYPE_CHECKING:
    from otpy_agents.app.chronicle import Event
    from otpy_agents.app.conclusion import Conclusion
    from otpy_agents.cli.view import View

__all__ = ["Pane", "Panes"]

_FINISHED: Final = (State.DONE, State.REAPED, State.FAILED)


@final
class Panes:
    """What several lists show in one view.

    Args:
        view: Where it is shown.
        names: Of the lists, in the order in which they are shown.
    """

    def __init__(self, view: View, names: Sequence[str]) -> None:
        self._view = view
        self._names = names
        self._shown: dict[str, tuple[Header, Sequence[TreeRow]]] = {}

    def show(self, name: str, header: Header, rows: Sequence[TreeRow]) -> None:
        """Show the tree of a list, with the others as they were shown last."""
        self._shown[name] = header, rows
        shown = {one: self._shown[one] for one in self._names if one in self._shown}
        headers = [header for header, _ in shown.values()]
        whole = Header(
            name=", ".join(self._names),
            seconds=max(one.seconds for one in headers),
            finished=sum(one.finished for one in headers),
            total=sum(one.total for one in headers),
            restarts=sum(one.restarts for one in headers),
        )
        lines: list[TreeRow] = []
        for one, (_, tree) in shown.items():
            # The root of each tree has the same name; that of its list says more.
            lines += (evolve(row, id=row.id if row.depth else one) for row in tree)
        self._view.show(whole, lines)

    def end(self, name: str, outcomes: Sequence[Conclusion]) -> None:
        """Show from now on how a list came out, in one line in place of its tree."""
        if name not in self._shown:
            return
        header, _ = self._shown[name]
        ended = Counter(one.ended for one in outcomes)
        row = TreeRow(
            id=name,
            role="supervisor",
            state="ended",
            last_line=", ".join(f"{number} {how}" for how, number in ended.items()),
        )
        finished = sum(ended[how] for how in _FINISHED)
        self._shown[name] = evolve(header, finished=finished), [row]

    def tell(self, name: str, event: Event) -> None:
        """Tell an event of a list."""
        self._view.tell(evolve(event, id=f"{name}/{event.id}"))


@final
class Pane:
    """The part of one list: a `View`.

    Args:
        panes: All of them.
        name: Of the list.
    """

    def __init__(self, panes: Panes, name: str) -> None:
        self._panes = panes
        self._name = name

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        """Show the tree of the list."""
        self._panes.show(self._name, header, rows)

    def tell(self, event: Event) -> None:
        """Tell one event of the list."""
        self._panes.tell(self._name, event)

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Show how the list came out; there is one summary of all lists."""
        self._panes.end(self._name, outcomes)
