"""Which child is running: `otpy.current()`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from otpy.errors import NotSupervised

if TYPE_CHECKING:
    from otpy._runtime.process import Process

CURRENT: Final[ContextVar[Process]] = ContextVar("otpy.current")


def current() -> Process:
    """Return the process of the child that is running.

    Tasks and threads that a child starts belong to it, as far as they inherit its context
    variables (`asyncio.create_task`, `asyncio.to_thread` and anyio's do).

    Raises:
        NotSupervised: If no supervisor started the code that is running.
    """
    try:
        return CURRENT.get()
    except LookupError:
        msg = "otpy.current(): no supervisor started the code that is running"
        raise NotSupervised(msg) from None
