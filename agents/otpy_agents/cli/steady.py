"""A view whose audience may leave: a closed pipe ends the showing and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import final

from otpy_agents.app.chronicle import Event
from otpy_agents.app.conclusion import Conclusion
from otpy_agents.cli.streams import to_nowhere
from otpy_agents.cli.view import Header, TreeRow, View

__all__ = ["SteadyView"]


@final
class SteadyView:
    """Shows what another view shows until that can be written nowhere; from then on nothing.

    Work must not suffer because nobody looks: an error of the stream would otherwise come out
    wherever something is told, in the middle of a mortal or of Jake.
    """

    def __init__(self, view: View) -> None:
        self._view: View | None = view

    def show(self, header: Header, rows: Sequence[TreeRow]) -> None:
        """Show the whole tree as it is now."""
        self._try(lambda view: view.show(header, rows))

    def tell(self, event: Event) -> None:
        """Tell one event."""
        self._try(lambda view: view.tell(event))

    def close(self, outcomes: Sequence[Conclusion]) -> None:
        """Give the terminal back and show the summary."""
        self._try(lambda view: view.close(outcomes))
        self._try(lambda _: sys.stdout.flush() if sys.stdout is not None else None)

    def _try(self, show: Callable[[View], None]) -> None:
        if self._view is None:
            return
        try:
            show(self._view)
        except (OSError, SystemExit):  # the latter is how rich reacts to a closed pipe
            self._view = None
            to_nowhere(sys.stdout)
