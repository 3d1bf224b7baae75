"""Where a test kit can stand between a tree's supervisors and its children; nobody does normally.

What stands there is asked for once, when a tree is made, and belongs to that tree alone.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Tree

    Body: TypeAlias = Callable[..., Awaitable[Any]]


class Interposer(Protocol):
    """Stands between the supervisors of one tree and their workers."""

    def around(self, process: LiveProcess, body: Body) -> Body:
        """Return what the new life `process` runs in place of `body`, with the same arguments."""
        ...

    def lets_cancel(self, process: LiveProcess) -> bool:
        """Whether a cancellation by which its supervisor ends `process` reaches its task."""
        ...


INTERPOSER: Final[ContextVar[Callable[[Tree], Interposer]]] = ContextVar("otpy.interposer")
"""Makes the interposer of a tree that is being started; unset, there is none."""
