"""`Portal`: how other threads use a tree."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from threading import get_ident
from typing import TYPE_CHECKING, Any, final

from otpy._core.protocol import KILL_GRACE
from otpy._runtime.handles import Portal, Process
from otpy.errors import CallingSelf, NotRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.spec import AnySpec
    from otpy._runtime.handles import AnySupervisor, Callee, RequestT_contra


@final
class TreePortal(Portal):
    """A `Portal` as the runtime sees it."""

    __slots__ = ("_calls", "_root")

    def __init__(self, root: AnySupervisor, calls: Calls) -> None:
        """Lead into the tree of `root`."""
        self._root = root
        self._calls = calls

    def __repr__(self) -> str:
        """Return the path of the root."""
        return f"<Portal {self._root.path!r}>"

    # mypy: *args: Any takes less than *_Ts
    def call(self, target: Any, /, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        if not callable(target):
            target, options = partial(target.call, **options), {}
        if options:
            msg = "Portal.call: a function gets positional arguments only; use functools.partial"
            raise TypeError(msg)
        return self.start_task_soon(target, *args).result()

    def cast(self, target: Callee[RequestT_contra, Any], request: RequestT_contra) -> None:
        if self._root.ended:
            raise NotRunning(self._root.path)
        target.cast(request)

    def start_child(self, supervisor: AnySupervisor | Process, spec: AnySpec) -> Any:
        found = supervisor.supervisor if isinstance(supervisor, Process) else supervisor
        if found is None:
            raise TypeError(f"Portal.start_child: {supervisor!r} is not a supervisor")
        return self.call(found.start_child, spec)

    def start_task_soon(  # type: ignore[override]
        self, func: Callable[..., Any], /, *args: Any, name: object = None
    ) -> Future[Any]:
        calls, root = self._calls, self._root
        if get_ident() == calls.thread and not calls.loop.is_closed():
            raise CallingSelf(root.path, "a portal is for other threads; await it here")
        call = PortalCall(calls, root, partial(func, *args), str(name or _name_of(func)))
        calls.waiting[call] = None  # first: the end of the tree comes either before or behind that
        try:
            if root.ended:
                raise NotRunning(root.path)
            calls.loop.call_soon_threadsafe(call.begin, context=copy_context())
        except BaseException as error:
            calls.waiting.pop(call, None)
            if isinstance(error, RuntimeError) and calls.loop.is_closed():
                raise NotRunning(root.path) from None
            raise
        return call.future


def _name_of(func: Callable[..., Any]) -> str:
    while isinstance(func, partial):
        func = func.func
    return f"portal {getattr(func, '__qualname__', type(func).__qualname__)}"


@final
class PortalCall:
    """What another thread waits for.

    Attributes:
        future: Gets the result.
        task: The task that it runs in; None before.
    """

    __slots__ = ("_calls", "_ended", "_func", "_name", "_root", "future", "task")

    def __init__(
        self, calls: Calls, root: AnySupervisor, func: Callable[[], Any], name: str
    ) -> None:
        """Call `func` in the loop of `calls`, in a task of this name."""
        self.future: Future[Any] = Future()
        self.task: asyncio.Task[None] | None = None
        self._calls = calls
        self._root = root
        self._func = func
        self._name = name
        self._ended = False

    def begin(self) -> None:
        """Make the task; in the loop."""
        loop = self._calls.loop
        if self.future.cancelled():
            self._end()
        elif self._root.ended:
            self.lose()
        else:
            self.task = task = loop.create_task(self._run(), name=self._name)
            # Not by a method of its own: the future keeps it.
            self.future.add_done_callback(partial(_given_up, loop, task))

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            result = self._func()
            if isawaitable(result):
                result = await result
            self._end(result)
        except asyncio.CancelledError:
            if self._root.ended:
                self.lose()
            else:
                self.future.cancel()
                self._end()
        except BaseException as raised:
            error = raised
            self._end(error=error)
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C: it is meant for the program
                raise
        finally:
            del self, error  # the frames of an exception lead here, and the future has it

    def lose(self) -> None:
        """Tell the waiting caller that the tree is over; without effect if there is a result."""
        self._end(error=NotRunning(self._root.path))

    def _end(self, result: Any = None, *, error: BaseException | None = None) -> None:
        self._calls.waiting.pop(self, None)
        if self._ended:
            return
        self._ended = True
        if not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


def _given_up(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], future: Future[Any]
) -> None:
    """Cancel the call: its caller, in any thread, has given up."""
    if future.cancelled():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)


@final
class Calls:
    """The waiting calls of other threads to one tree.

    Attributes:
        loop: The loop of the tree.
        thread: The thread that the loop runs in.
        waiting: Oldest first.
    """

    __slots__ = ("loop", "thread", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        """Begin with none."""
        self.loop = loop
        self.thread = thread
        self.waiting: dict[PortalCall, None] = {}

    async def end(self) -> None:
        """Wait until no thread waits for a tree that has ended.

        What they have asked of the tree has its answer by now, or has it in a moment. Anything else
        is cancelled after `KILL_GRACE` seconds, and then awaited for at most as long again.
        """
        for cancels in (False, True):
            calls = tuple(self.waiting)
            if not calls:
                return
            if cancels:
                for call in calls:
                    if call.task is not None:
                        call.task.cancel()
            tasks = [call.task for call in calls if call.task is not None]
            if tasks:
                await asyncio.wait(tasks, timeout=KILL_GRACE)
            else:
                await asyncio.sleep(0)  # they are about to begin
        for call in tuple(self.waiting):
            call.lose()
