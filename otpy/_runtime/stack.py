"""The current position of a task, or of a thread that it left behind."""

from __future__ import annotations

import _thread
import asyncio
import gc
import sys
import threading
import traceback
from contextvars import Context
from inspect import isasyncgen
from typing import TYPE_CHECKING, Any, Final

from otpy._runtime.current import process_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from otpy._runtime.behaviour import TaskLike
    from otpy._runtime.handles import Process


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"


def stack_of(task: TaskLike) -> tuple[str, ...]:
    """Return one line per suspended frame of `task`, outermost call first.

    `Task.get_stack` stops at the first coroutine; this follows what each coroutine awaits.
    """
    return tuple(map(_line, frames_of(task.get_coro())))


def frames_of(awaited: Any) -> Iterator[FrameType]:
    """Yield the suspended frames of the coroutine `awaited`, outermost call first."""
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            yield frame
        deeper = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
        if deeper is None and frame is None:  # the step of an async generator hides its generator
            deeper = next((o for o in gc.get_referents(awaited) if isasyncgen(o)), None)
        awaited = deeper


def _first(thing: object, *names: str) -> Any:
    return next((found for name in names if (found := getattr(thing, name, None))), None)


threads_exist: Final = _thread._count  # pyright: ignore[reportPrivateUsage]
"""Return how many threads run beside this one; `active_count` takes 20 times as long."""


def threads_of(process: Process) -> list[tuple[str, ...]]:
    """Return the stack of each other thread that runs in a context of `process`.

    `asyncio.to_thread` and anyio's `to_thread.run_sync` hand the caller's context to the thread
    that does the work, and so the thread can be found although its task is gone (AIO-13). A bare
    `run_in_executor` hands over no context: such a thread is not seen.
    """
    here = threading.get_ident()
    return [
        _lines(top)
        for ident, top in _frames().items()
        if ident != here and any(process_in(c) is process for c in _contexts(top))
    ]


def stack_of_thread(thread: threading.Thread) -> tuple[str, ...]:
    """Return one line per frame that `thread` is in, outermost call first."""
    top = _frames().get(thread.ident or 0)
    return () if top is None else _lines(top)


def running_in(
    ident: int, loop: asyncio.AbstractEventLoop
) -> tuple[Process | None, tuple[str, ...]]:
    """Return whose code the thread `ident` is in, and where; for another thread that looks on.

    Which process it is, the context says that the loop runs it in; where that cannot be seen, as on
    uvloop, what of otpy is on the way there, or the current task. The lines are those of what the
    loop has called, outermost first; of all if that cannot be told apart.
    """
    frames = [frame for frame, _ in traceback.walk_stack(_frames().get(ident))]
    for number, frame in enumerate(frames):
        held = frame.f_locals if _is_of_a_loop(frame) else {}
        owner = held.get("self")
        context = getattr(owner, "_context", None)
        process: Process | None = held.get("process") or getattr(owner, "process", None)
        if isinstance(context, Context):
            process = process_in(context)
        elif process is None:
            continue
        return process, tuple(map(_line, reversed(frames[:number])))
    get_context: Any = getattr(asyncio.current_task(loop), "get_context", None)  # since 3.12
    process = None if get_context is None else process_in(get_context())
    return process, tuple(map(_line, reversed(frames)))


def _is_of_a_loop(frame: FrameType) -> bool:
    """Whether it is the loop's call of a ready callback, or the step of a process."""
    code, module = frame.f_code.co_qualname, frame.f_globals.get("__name__")
    return (code, module) in _CALLERS


_CALLERS: Final = {
    ("Handle._run", "asyncio.events"),
    ("Life.send", "otpy._runtime.life"),
    ("Life.throw", "otpy._runtime.life"),
    ("live", "otpy._runtime.life"),
    ("Server._step", "otpy.behaviours.server"),
    ("Server._serve", "otpy.behaviours.server"),
    ("Server.serve", "otpy.behaviours.server"),
}


def _frames() -> dict[int, FrameType]:
    # CPython holds a lock meanwhile. A collection would let another thread run; one that begins or
    # ends waits for that lock with the GIL in its hands, for ever (gh-106883, in 3.11 and 3.12.0).
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()  # pyright: ignore[reportPrivateUsage] - documented, for debuggers
    finally:
        if enabled:
            gc.enable()


def _lines(top: FrameType) -> tuple[str, ...]:
    return tuple(_line(frame) for frame, _ in reversed(list(traceback.walk_stack(top))))


_REPORTS: Final = {"call_soon_threadsafe", "task_done", "set_result", "set_exception"}
"""The functions that threads of anyio and of an executor call after their work, two each."""


def _contexts(top: FrameType) -> Iterator[Context]:
    """Yield the contexts that the frames below `top` run something in.

    They are found where the two libraries keep them: anyio in a local variable of its worker's
    loop, asyncio in the partial of `Context.run` that an executor's work item calls. A thread that
    reports its result runs nothing any more: the loop may have it before the thread goes on.
    """
    called_there = ""
    for frame, _ in traceback.walk_stack(top):
        above, called_there = called_there, frame.f_code.co_name
        if called_there != "run" or above in _REPORTS:
            continue
        held = frame.f_locals
        if isinstance(context := held.get("context"), Context):
            yield context
        if frame.f_globals.get("__name__") == "concurrent.futures.thread":
            item: Any = held.get("self")
            # Up to Python 3.13 it keeps the function it calls, then that and its arguments.
            called = item.fn if hasattr(item, "fn") else getattr(item, "task", (None,))[0]
            bound = getattr(called, "func", None)
            if isinstance(context := getattr(bound, "__self__", None), Context):
                yield context
