"""Which of the significant children of a supervisor run (section 9 of OTP's rules)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, final

from otpy._core.child import Child, Status
from otpy._core.rules import ends_with_it

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otpy._core.spec import AutoShutdown


@final
class Significance:
    """The significant children of one supervisor, made when it loses the first of them.

    One that runs is kept in front, so that many which end one after the other are not all looked at
    each time. An `OrderedDict`, because a dict that loses its first entry again and again takes the
    square of their number.
    """

    __slots__ = ("_line",)

    def __init__(self, children: Iterable[Child]) -> None:
        """Look for them among `children`."""
        self._line = OrderedDict.fromkeys(child for child in children if child.spec.significant)

    def add(self, child: Child) -> None:
        """Note that `child` is new."""
        if child.spec.significant:
            self._line[child] = None

    def remove(self, child: Child) -> None:
        """Note that `child` has left the table, or is to leave it when it has ended."""
        self._line.pop(child, None)

    def decide(self, auto_shutdown: AutoShutdown) -> bool:
        """Whether the supervisor ends, which has just lost one of them (SUP-901 to SUP-903)."""
        return ends_with_it(auto_shutdown, self._any_runs)

    def _any_runs(self) -> bool:
        """Whether any of them runs, or is to run again."""
        for _ in range(len(self._line)):
            first = next(iter(self._line))
            if first.status is not Status.UNDEFINED:
                return True
            self._line.move_to_end(first)
        return False
