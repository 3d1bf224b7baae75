"""Children that wait for a task group of their own, and how a failure inside of it is made.

An exception that came out of the very wait of `TaskGroup.__aexit__` would not be a failure that a
program can have: it would leave the group's tasks behind. What fails there is one of the tasks.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from anyio.abc import TaskGroup

from otpy._runtime.stack import frames_of

Group: TypeAlias = asyncio.TaskGroup | TaskGroup


def group_awaited(own: object) -> Group | None:
    """Return the innermost task group that the suspended coroutine `own` waits for the end of."""
    found: Group | None = None
    for frame in frames_of(own):
        if frame.f_code.co_name == "__aexit__":
            group = frame.f_locals.get("self")
            if isinstance(group, Group):
                found = group
    return found


def raise_in_group(group: Group, error: Exception) -> bool:
    """Let `error` be raised in one more task of `group`; whether it still takes tasks."""
    failing = _fail(error)
    try:
        if isinstance(group, TaskGroup):
            with _known_library():
                group.start_soon(_awaited, failing)
        else:
            group.create_task(failing)
    except RuntimeError:
        failing.close()
        return False
    return True


@contextmanager
def _known_library() -> Generator[None]:
    """Let anyio find its backend also where no task runs, as in a timer.

    It asks sniffio, where that is installed, and that knows asyncio by the task that runs.
    """
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is None:
        yield
        return
    token = sniffio.current_async_library_cvar.set("asyncio")
    try:
        yield
    finally:
        sniffio.current_async_library_cvar.reset(token)


async def _fail(error: Exception) -> None:
    raise error


async def _awaited(failing: Any) -> None:
    await failing
