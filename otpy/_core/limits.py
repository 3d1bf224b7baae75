"""Restart accounting of one supervisor: which restart is one too many."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, final

from otpy._core.protocol import Failure
from otpy._core.reason import NORMAL
from otpy._core.spec import INFINITY, ChildSpec, Then
from otpy._core.window import RestartWindow

if TYPE_CHECKING:
    from otpy._core.child import Child
    from otpy._core.protocol import Entry
    from otpy._core.spec import Count

_MOST_KEPT: Final = 1000  # each keeps an exception alive, with its traceback


@final
class RestartLimits:
    """The supervisor's own window, those of children that have one, and the history of both.

    A restart that can never be one too many is neither counted nor kept.
    """

    __slots__ = ("_history", "_intensity", "_period", "_window")

    def __init__(self, intensity: Count, period: float) -> None:
        """Allow `intensity` restarts within any `period` seconds (SUP-503)."""
        self._intensity: Count = intensity
        self._period = period
        self._window = RestartWindow(intensity, period)
        # The parts of one `Entry` after the other: an object less for each restart that is kept.
        self._history: deque[Any] = deque(maxlen=_kept(intensity))

    def change(self, intensity: Count, period: float) -> None:
        """Allow `intensity` restarts within any `period` seconds from now on (SUP-122)."""
        self._intensity = intensity
        self._period = period
        self._window.change(intensity, period)
        self._history = deque(self._history, maxlen=_kept(intensity))

    def count(self, child: Child, now: float) -> Failure | Then | None:
        """Count one restart of `child`, decided at `now` (SUP-501).

        Returns:
            None if it is allowed; `Then.GIVE_UP` if the child must go and its siblings stay; a
            `Failure` if the supervisor must give up.
        """
        reason = child.last_exit or NORMAL
        own = child.own_window()
        window = self._window if own is None else own  # not `or`: an empty window is false
        if window.endless:
            return None
        self._history.extend((now, child.key, child.incarnation, reason))
        if window.add(now):
            return None
        intensity = child.spec.intensity if isinstance(child.spec, ChildSpec) else None
        if intensity is None:
            allowed = self._intensity, self._period
        elif intensity.then is Then.GIVE_UP:
            return Then.GIVE_UP
        else:
            allowed = intensity.max_restarts, intensity.within
        return Failure(child.key, reason, history=self._entries(), allowed=allowed)

    def _entries(self) -> tuple[Entry, ...]:
        parts = iter(self._history)
        return tuple(zip(parts, parts, parts, parts, strict=True))


def _kept(intensity: Count) -> int:
    most = _MOST_KEPT if intensity is INFINITY else min(intensity, _MOST_KEPT)
    return 4 * (most + 1)
