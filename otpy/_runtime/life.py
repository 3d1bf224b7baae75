"""What a child may be, and how each kind is started: the coroutine that its task runs.

| `start` is | ready | ends |
|---|---|---|
| a coroutine function | as soon as its task exists | when it returns or raises |
| … with a `task_status` keyword | when it calls `task_status.started(value)` | same |
| any other callable that returns an awaitable | when it has returned it | same |
| a factory of an async context manager | when it has been entered | left when asked to stop |
| a class that lives by itself (`GenServer`) | when it calls `Process.announce()` | as it says |

A class of the last kind has a class method `__otpy_life__(process)`. It is called before the task
exists, may attach a `Behaviour` to the process, and returns the function whose coroutine, called
with the spec's arguments, is the life. This module needs to know no more of it. A behaviour begins
by itself, and in no task if it likes; the function is for what stands in between (`interpose`).

Children's code runs in their own task, or called by the loop itself, and nowhere else.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast, final

from otpy._core.reason import Crashed, Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from otpy._core.spec import ChildSpec
    from otpy._runtime.process import Process


@final
class _TaskStatus:
    """Handed to a child that takes `task_status`, as anyio and trio do."""

    __slots__ = ("_process",)

    def __init__(self, process: Process) -> None:
        self._process = process

    def started(self, value: object = None) -> None:
        """Say that the child is ready; `value` becomes `Process.value`."""
        self._process.announce(value)


def takes_status(start: Callable[..., Any]) -> bool:
    """Whether `start` takes a `task_status` keyword."""
    code = getattr(start, "__code__", None)
    if code is not None and not hasattr(start, "__wrapped__"):  # a plain function: 20 times faster
        count: int = code.co_argcount + code.co_kwonlyargcount
        return "task_status" in code.co_varnames[:count]
    try:
        return "task_status" in inspect.signature(start).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return False


def life_of(process: Process, spec: ChildSpec) -> tuple[Coroutine[Any, Any, None] | None, bool]:
    """Return one life of the child, not yet begun, and whether it is ready as soon as it exists.

    None in place of a life if the process has a behaviour, which begins by itself.
    """
    start, args, kwargs, at_once = spec.start, spec.args, spec.kwargs, False
    hook = getattr(start, "__otpy_life__", None)
    if hook is not None:
        start = hook(process)
    elif takes_status(start):
        kwargs = {**kwargs, "task_status": _TaskStatus(process)}
    elif inspect.iscoroutinefunction(start):
        at_once = True
    else:
        start, args, kwargs = _made, (process, spec), {}
    body: Callable[..., Any] = start
    interposer = process.parent.tree.interposer
    if interposer is not None:
        body = interposer.around(process, start)
    if process.behaviour is not None and body is start:
        return None, False
    return guarded(body, args, kwargs), at_once


async def guarded(
    start: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Keep `SystemExit` inside: asyncio would end the whole loop with it (AIO-12)."""
    try:
        await start(*args, **kwargs)
    except SystemExit as error:
        raise Exit(Crashed(error)) from None


async def _made(process: Process, spec: ChildSpec) -> None:
    """Call a `start` that is no coroutine function, and live what it made."""
    made: object = spec.start(*spec.args, **spec.kwargs)
    if isinstance(made, AbstractAsyncContextManager):
        async with cast("AbstractAsyncContextManager[object]", made) as value:
            process.announce(value)
            await process.stop_requested()
    elif inspect.isawaitable(made):
        process.announce()
        await made
    else:
        wanted = "an awaitable or an async context manager"
        msg = f"{process.path}: start returned {made!r}, wanted {wanted}"
        raise TypeError(msg)
