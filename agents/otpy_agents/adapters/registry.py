"""Finds adapters by name among those that are installed, ours and others alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast, final

from otpy_agents.adapters.adapter import Adapter
from otpy_agents.errors import AmbiguousAdapter, BrokenAdapter, UnknownAdapter

__all__ = ["BUILT_IN", "GROUP", "Adapters", "adapter_names", "find_adapter"]

GROUP: Final = "otpy_agents.adapters"
"""Entry point group in which a package announces its adapters."""

BUILT_IN: Final[Mapping[str, str]] = {
    "claude": "otpy_agents.adapters.claude:ADAPTER",
    "codex": "otpy_agents.adapters.codex:ADAPTER",
    "command": "otpy_agents.adapters.command:ADAPTER",
    "copilot": "otpy_agents.adapters.copilot:ADAPTER",
    "cursor": "otpy_agents.adapters.cursor:ADAPTER",
    "gemini": "otpy_agents.adapters.gemini:ADAPTER",
}
"""What our own distribution announces; a checkout that is not installed announces nothing."""

_PARTS: Final = (
    *("name", "executable", "install_hint", "config_variable", "cumulative_usage"),
    "session_log",
    *("errors_on_stderr", "exit_codes", "wordings", "plain_text", "launch", "parser"),
)


@final
class Adapters:
    """A set of adapters, each loaded when it is asked for.

    Args:
        points: Their entry points. One that is listed twice with the same value counts once, as it
            happens where a distribution is found on the path twice.
    """

    def __init__(self, points: Iterable[EntryPoint]) -> None:
        self._points: dict[str, dict[str, EntryPoint]] = {}
        for point in points:
            self._points.setdefault(point.name, {})[point.value] = point

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, sorted."""
        return tuple(sorted(self._points))

    def find(self, name: str) -> Adapter:
        """Return the adapter called `name`.

        Raises:
            UnknownAdapter: There is none.
            AmbiguousAdapter: There are several.
            BrokenAdapter: It cannot be loaded, or is something else than an adapter of that name.
        """
        points = self._points.get(name)
        if points is None:
            raise UnknownAdapter(name, self.names)
        if len(points) > 1:
            raise AmbiguousAdapter(name, sorted(points))
        (point,) = points.values()
        try:
            found = cast("object", point.load())
        except Exception as error:
            raise BrokenAdapter(
                name, f"got {error!r} from {point.value}, wanted an adapter"
            ) from error
        missing = [part for part in _PARTS if not hasattr(found, part)]
        if missing:
            raise BrokenAdapter(
                name, f"got {point.value} without {', '.join(missing)}, wanted an adapter"
            )
        adapter = cast("Adapter", found)
        if adapter.name != name:
            raise BrokenAdapter(
                name, f"got {point.value} with the name {adapter.name!r}, wanted {name!r}"
            )
        return adapter


@cache
def _installed() -> Adapters:
    ours = [EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()]
    return Adapters([*ours, *entry_points(group=GROUP)])


@cache
def find_adapter(name: str) -> Adapter:
    """Return the installed adapter called `name`; see `Adapters.find`."""
    return _installed().find(name)


def adapter_names() -> tuple[str, ...]:
    """Return the names of the installed adapters, sorted."""
    return _installed().names
