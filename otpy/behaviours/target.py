"""The target of a handle: one process, or the current one in its place at the moment of use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

from attrs import frozen

from otpy._runtime.current import current
from otpy._runtime.handles import Process
from otpy.behaviours.via import Via
from otpy.errors import NotFound, NotSupervised

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor

__all__ = ["Whereabouts", "Target", "found", "whereabouts"]

Target: TypeAlias = Process | str | Via | Callable[[], Process]
"""A process, to mean this one life; its path, its name, or a function that returns it, to mean
whichever life is there at the moment of use."""


@final
@frozen
class Whereabouts:
    """The place of a process, looked up on each use.

    Attributes:
        target: As given.
        root: Where a path begins.
    """

    target: Target
    root: AnySupervisor | None

    def whereis(self) -> Process:
        """Return the process that is there now; see `found`."""
        return found(self.target, self.root)


def found(target: Target, root: AnySupervisor | None) -> Process:
    """Return the process that a target means now.

    Raises:
        NotFound: If nothing has this path.
        NotRegistered: If no process holds this name.
        NotRunning: If it is known but does not run just now.
    """
    if isinstance(target, Process):
        return target  # pyright: ignore[reportUnknownVariableType] - of any kind
    if isinstance(target, Via):
        return target.whereis(root)
    if not isinstance(target, str):
        return target()
    if root is None:
        raise NotFound(target)
    return root.whereis(target)


def whereabouts(who: str, target: Target, root: AnySupervisor | None) -> Whereabouts:
    """Return the place of a target; a path without a root begins at that of the running child.

    Also one in a `Via`.

    Raises:
        NotSupervised: If `target` is a path, no root is given, and no child is running.
    """
    place = target.directory if isinstance(target, Via) else target
    if root is None and isinstance(place, str):
        try:
            root = current().root
        except NotSupervised:
            msg = f"{who}.at({target!r}): no child is running; give root="
            raise NotSupervised(msg) from None
    return Whereabouts(target, root)
