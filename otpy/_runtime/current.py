"""Which child is running: `otpy.current()`."""

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from otpy.errors import NotSupervised

if TYPE_CHECKING:
    from otpy._runtime.handles import Process


class OneLife(Protocol):
    """Stands for one life in its contexts: its `Life`, or its behaviour if it has one.

    Not its process, which users hold too: what only contexts hold once the life is over is gone
    when they are, and shows by that whether any is left (`leftovers.py`).
    """

    @property
    def process(self) -> Process:
        """Whose life it is."""
        ...


CURRENT: Final[ContextVar[OneLife]] = ContextVar("otpy.current")


def process_in(context: Context) -> Process | None:
    """Return the process whose code runs in `context`; None if no supervisor started that."""
    life = context.get(CURRENT)
    return None if life is None else life.process


def current_or_none() -> Process | None:
    """Return the process of the child that is running; None if no supervisor started it."""
    life = CURRENT.get(None)
    return None if life is None else life.process


def current() -> Process:
    """Return the process of the child that is running.

    Tasks and threads that a child starts belong to it, as far as they inherit its context
    variables (`asyncio.create_task`, `asyncio.to_thread` and anyio's do). Such tasks are cancelled
    when the child has ended.

    Raises:
        NotSupervised: If no supervisor started the code that is running.
    """
    try:
        return CURRENT.get().process
    except LookupError:
        msg = "otpy.current(): no supervisor started the code that is running"
        raise NotSupervised(msg) from None
