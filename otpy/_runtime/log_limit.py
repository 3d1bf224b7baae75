"""The limit of entries of a kind per second, and the log's note on the dropped ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from attrs import Factory, define

from otpy._runtime.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW: Final = 1.0
"""Seconds in which entries are counted together, by the loop's clock."""

_SHARE: Final = 4  # a child gets a fourth at most: one that crashes all the time hides no other


@final
@define(eq=False)
class RecordKind:
    """The entries of one name and level in one window.

    Attributes:
        level: Their level.
        event: Their name.
        written: How many of them are written.
        paths: How many of the written ones concern each path.
        more: How many are not written.
        hidden: The paths of those.
    """

    level: str
    event: str
    written: int = 0
    paths: dict[str, int] = Factory(dict[str, int])
    more: int = 0
    hidden: set[str] = Factory(set[str])


@final
class BurstLimit:
    """Counts entries in windows of one second, and sums up those that it has not admitted."""

    __slots__ = ("_began", "_due", "_kinds", "_most", "_share", "_tell")

    def __init__(self, most: int, tell: Callable[[RecordKind, float], object]) -> None:
        """Admit `most` entries of a kind in a window, and a fourth of that about one path.

        Args:
            most: How many.
            tell: Hears of each kind of which there was more, when the window is over, and how
                many seconds that took.
        """
        self._most = most
        self._share = -(-most // _SHARE)
        self._tell = tell
        self._began = 0.0
        self._kinds: dict[tuple[str, str], RecordKind] = {}
        self._due = Alarm(self._end)

    def admits(self, level: str, event: str, path: str, now: float) -> bool:
        """Count an entry; return whether it is written."""
        if not self._began <= now < self._began + WINDOW:
            self._end()
            self._began = now
        kind = self._kinds.get((level, event))
        if kind is None:
            kind = self._kinds[level, event] = RecordKind(level, event)
        if kind.written < self._most:
            about_it = kind.paths.get(path, 0)
            if about_it < self._share:
                kind.paths[path] = about_it + 1
                kind.written += 1
                return True
        if not kind.more:
            self._due.set(self._began + WINDOW - now)
        kind.more += 1
        kind.hidden.add(path)
        return False

    def finish(self, now: float) -> None:
        """Sum up what there is, at the end of a tree."""
        self._end(min(WINDOW, now - self._began))

    def _end(self, seconds: float = WINDOW) -> None:
        self._due.unset()
        kinds = list(self._kinds.values())
        self._kinds.clear()
        for kind in kinds:
            if kind.more:
                self._tell(kind, round(seconds, 1))
