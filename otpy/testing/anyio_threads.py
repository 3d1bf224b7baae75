"""Which of anyio's worker threads are at work.

Nobody tells, so this reads what anyio and the interpreter keep for themselves:

- `anyio.lowlevel._run_vars`: anyio's variables, per loop.
- `anyio._backends._asyncio._threadpool_workers` and `._threadpool_idle_workers`: its threads.
- `anyio._backends._asyncio.WorkerThread.run` and `.queue`: where a thread waits for work.
"""

from __future__ import annotations

import queue
import sys
import threading
from types import FunctionType
from typing import TYPE_CHECKING, TypeAlias, cast

from anyio._backends._asyncio import (
    WorkerThread,
    _threadpool_idle_workers,  # pyright: ignore[reportPrivateUsage] - no public way to count
    _threadpool_workers,  # pyright: ignore[reportPrivateUsage] - no public way to count
)
from anyio.lowlevel import _run_vars  # pyright: ignore[reportPrivateUsage] - RunVar needs a task

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

__all__ = ["any_at_work", "workers_of"]

_Functions: TypeAlias = "tuple[FunctionType, ...]"
_WAITING = cast("_Functions", (threading.Condition.wait, queue.Queue[object].get, WorkerThread.run))


def workers_of(loop: asyncio.AbstractEventLoop) -> Collection[WorkerThread]:
    """Return the worker threads of a loop, idle or not."""
    found: Collection[WorkerThread] = _run_vars.get(loop, {}).get(_threadpool_workers, ())
    return found


def any_at_work(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a worker thread of a loop has something to do; call it in the loop's thread."""
    workers = workers_of(loop)
    idle: Collection[WorkerThread] = _run_vars.get(loop, {}).get(_threadpool_idle_workers, ())
    if len(workers) <= len(idle):
        return False
    return any(not _waits(worker) for worker in workers if worker not in idle)


def _waits(worker: WorkerThread) -> bool:
    """Tell whether a thread waits for work that only the loop can give it.

    Before 4.16 anyio forgets to count a thread as idle whose call was cancelled before it began.
    A thread takes what it is given from its queue itself, after its wait: one that is in the wait
    and has nothing in its queue cannot be on its way to a call.
    """
    frame = sys._current_frames().get(worker.ident or 0)  # pyright: ignore[reportPrivateUsage]
    for function in _WAITING:
        if frame is None or frame.f_code is not function.__code__:
            return False
        frame = frame.f_back
    calls = cast("queue.Queue[object]", worker.queue)  # pyright: ignore[reportUnknownMemberType]
    return calls.empty()
