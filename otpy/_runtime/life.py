"""The kinds of children, and how each is started: the code that its task runs.

| `start` is | ready | ends |
|---|---|---|
| a coroutine function | as soon as its task exists | when it returns or raises |
| … with a `task_status` keyword | when it calls `task_status.started(value)` | same |
| any other callable that returns an awaitable | when it has returned it | same |
| a factory of an async context manager | when it has been entered | left when asked to stop |
| a class that lives by itself (`GenServer`) | when it calls `Process.report_ready()` | as it says |

A class of the last kind has a class method `__otpy_life__(process)`. It is called before the task
exists, may attach a `Behaviour` to the process, and returns the function whose coroutine, called
with the spec's arguments, is the life. This module needs to know no more of it. A behaviour begins
by itself, and in no task if it likes; the function is for what stands in between (`interpose`).

Children's code runs in their own task, or called by the loop itself, and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from otpy._core.readiness import takes_status
from otpy._core.reason import Crashed, Exit
from otpy._core.spec import ChildSpec
from otpy._core.text import shown
from otpy._runtime.current import CURRENT
from otpy._runtime.inner import inner_of
from otpy._runtime.preemption import Steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy._runtime.current import OneLife
    from otpy._runtime.inner import InnerProcess

    Begun: TypeAlias = CoroutineType[Any, Any, Any]
    Body: TypeAlias = ChildSpec | partial[Awaitable[Any]]
    """The spec of a plain coroutine function, or what to call.

    The spec is not asked for before the first step, because another may have replaced it by then.
    """


@final
class Life:
    """The coroutine-like object that a worker's task runs, before Python 3.14.

    It hands every step on to the coroutine of the child's own code, which it makes in the first
    step. An object of two attributes takes a fifth of the memory of a coroutine around that
    coroutine, and through it the process of a task is found without a table.

    asyncio and all other code take it for the coroutine that it stands for: it has the attributes
    of that. They are properties: a `__getattr__` would slow every attribute down, `send` too.

    Attributes:
        process: Whose life it is.
    """

    __slots__ = ("_body", "process")

    def __init__(self, process: InnerProcess, body: Body) -> None:
        """Prepare the life of `process`."""
        self.process = process
        self._body: Body | Begun = body

    def send(self, value: Any = None) -> Any:
        """Let the child's code run on to its next await.

        Keeps `SystemExit` inside: asyncio would end the whole loop with it (AIO-12).
        """
        body = self._body
        try:
            if not isinstance(body, CoroutineType):
                body = self._body = _begun(self, body)
            return body.send(value)
        except SystemExit as error:
            raise Exit(Crashed(error)) from None
        except BaseException:
            del self, body  # the traceback keeps this frame, and the process keeps the error
            raise

    __next__ = send  # by which the tasks of C begin a step; the quicker way

    def throw(self, exception: BaseException) -> Any:
        """Let the child's code run on to its next await, with an exception."""
        body = self._body
        try:
            if isinstance(body, CoroutineType):
                return body.throw(exception)
            raise exception  # it was cancelled before its first step
        except SystemExit as error:
            raise Exit(Crashed(error)) from None
        except BaseException:
            del self, body, exception
            raise

    def close(self) -> None:
        """End it, with its loop."""
        if isinstance(self._body, CoroutineType):
            self._body.close()

    def _shown(self, name: str) -> Any:
        if isinstance(self._body, CoroutineType):
            return getattr(self._body, name)
        raise AttributeError(name)  # there is no coroutine yet

    @property
    def __name__(self) -> str:
        """Name of the child's own coroutine, for `repr(task)`."""
        return cast("str", self._shown("__qualname__"))

    cr_await = property(partial(_shown, name="cr_await"))
    cr_code = property(partial(_shown, name="cr_code"))
    cr_frame = property(partial(_shown, name="cr_frame"))
    cr_origin = property(partial(_shown, name="cr_origin"))
    cr_running = property(partial(_shown, name="cr_running"))
    cr_suspended = property(partial(_shown, name="cr_suspended"))


Coroutine.register(Life)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - an ABC


async def live(process: InnerProcess, body: Any) -> Any:
    """Live as `body` says, which is the child's own coroutine from the first step on.

    What the task of a worker runs since Python 3.14: see `child_task`. Keeps `SystemExit` inside,
    as `Life` does.
    """
    try:
        body = _begun(Presence(process), body)
        return await body
    except SystemExit as error:
        raise Exit(Crashed(error)) from None


@final
class Presence:
    """Stands for a life in its contexts, and is held by nothing else, where no `Life` does.

    Attributes:
        process: Whose life it is.
    """

    __slots__ = ("process",)

    def __init__(self, process: InnerProcess) -> None:
        """Stand for the life of `process`."""
        self.process = process


def _begun(life: OneLife, body: Body) -> Any:
    behaviour = inner_of(life.process).behaviour
    # Here, and not by the supervisor: this is the child's context.
    CURRENT.set(life if behaviour is None else behaviour)
    try:
        made: Any
        if isinstance(body, ChildSpec):
            start, args, kwargs = body.start, body.args, body.kwargs
            made = start(*args, **kwargs) if kwargs else start(*args)  # 130 ns less
        else:
            made = body()
    except StopIteration as error:  # it would pass for a child that has returned
        raise RuntimeError("start raised StopIteration") from error
    plain: object = made  # asked as an object, it stays of any type
    return made if isinstance(plain, CoroutineType) else _awaited(made)


@final
class _TaskStatus:
    """The `TaskStatus` that a child gets."""

    __slots__ = ("_process",)

    def __init__(self, process: InnerProcess) -> None:
        self._process = process

    def started(self, value: object = None) -> None:
        """Say that the child is ready; `value` becomes `Process.value`."""
        self._process.report_ready(value)


def body_of(process: InnerProcess, spec: ChildSpec) -> Body | None:
    """Return the callable for the task of `process`; None if its behaviour begins by itself."""
    interposer = process.parent.tree.interposer
    if spec.ready_at_once and interposer is None:
        return spec
    start, args, kwargs = spec.start, spec.args, spec.kwargs
    hook = getattr(start, "__otpy_life__", None)
    if hook is not None:
        start = hook(process)
    elif takes_status(start):
        kwargs = {**kwargs, "task_status": _TaskStatus(process)}
    elif not spec.ready_at_once:
        start, args, kwargs = _enter_or_await, (process, spec), {}
    body: Callable[..., Any] = start
    if spec.max_step is not None and hook is None:
        start = body = _stepwise(process, start)
    if interposer is not None:
        body = interposer.around(process, start)
    if process.behaviour is not None and body is start:
        return None
    return partial(body, *args, **kwargs)


def _stepwise(process: InnerProcess, start: Callable[..., Awaitable[Any]]) -> Callable[..., Steps]:
    """Return what `process` runs in place of `start`, so that its steps are watched."""

    def begin(*args: Any, **kwargs: Any) -> Steps:
        steps = process.parent.tree.watched(process)
        return Steps(steps, steps.call(partial(start, *args, **kwargs)))

    return begin


async def _awaited(made: Awaitable[Any]) -> None:
    await made


def _called(spec: ChildSpec) -> object:
    """Call a `start`, and nothing else: here a child may be interrupted (`frame_guard`)."""
    return spec.start(*spec.args, **spec.kwargs)


async def _enter_or_await(process: InnerProcess, spec: ChildSpec) -> None:
    """Call a `start` that is not a coroutine function, and run its result."""
    made: object = _called(spec)
    if isinstance(made, AbstractAsyncContextManager):
        async with cast("AbstractAsyncContextManager[object]", made) as value:
            process.report_ready(value)
            await process.stop_requested()
    elif inspect.isawaitable(made):
        process.report_ready()
        await made
    else:
        wanted = "an awaitable or an async context manager"
        msg = f"{process.path}: start returned {shown(made)}, wanted {wanted}"
        raise TypeError(msg)
