"""`Portal`: how other threads use a tree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple, final, overload

from otpy._runtime.process import Process
from otpy._runtime.stop import KILL_GRACE
from otpy.errors import CallingSelf, NotRunning

if TYPE_CHECKING:
    from otpy._core.request import Request
    from otpy._core.spec import AnySpec, ChildSpec
    from otpy._runtime.tree import AnySupervisor, Tree

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Callee(Protocol[RequestT_contra, ReplyT_co]):
    """What takes requests: a `ServerRef`."""

    def __otpy_reply__(self, request: RequestT_contra, /) -> ReplyT_co:
        """Tell type checkers what the reply is; there is no such method."""
        ...

    def cast(self, request: RequestT_contra, /) -> None:
        """Send a request that gets no reply."""
        ...


@final
class Portal:
    """A way into a tree for other threads; made by `root.portal()`, and never used up.

    Sync views of a web framework, callbacks of a library that has threads of its own,
    `asyncio.to_thread`: what they wait for is done by the event loop of the tree, while they wait.
    One portal serves any number of threads. It needs not be closed.

    `call` and `start_task_soon` are those of `anyio.from_thread.BlockingPortal`, so that nobody has
    to learn them twice. It is no subclass: anyio's portal keeps a task group open in a task of its
    own, which a tree does not have, and what a subclass would have to replace is private there and
    differs from release to release. Who needs its other methods opens one in the loop.

    Operations raise `NotRunning` as soon as the tree has ended, and when the block around the tree
    is left, what is still going on is cancelled. In the event loop's own thread, which would wait
    for itself, they raise `CallingSelf`; only `cast` works there.
    """

    __slots__ = ("_tree",)

    def __init__(self, tree: Tree) -> None:
        """Lead into `tree`."""
        self._tree = tree

    def __repr__(self) -> str:
        """Return the path of the root."""
        return f"<Portal {self._root.path!r}>"

    @overload
    def call(
        self, target: Callee[Any, Any], request: Request[_T], /, timeout: float | None = 5.0
    ) -> _T: ...
    @overload
    def call(
        self,
        target: Callee[RequestT_contra, ReplyT_co],
        request: RequestT_contra,
        /,
        timeout: float | None = 5.0,
    ) -> ReplyT_co: ...
    @overload
    def call(self, target: Callable[[*_Ts], Awaitable[_T]], /, *args: *_Ts) -> _T: ...
    @overload
    def call(self, target: Callable[[*_Ts], _T], /, *args: *_Ts) -> _T: ...
    def call(self, target: Any, /, *args: Any, **options: Any) -> Any:  # type: ignore[misc] # as below
        """Call a server, or a function in the event loop, and wait for the result.

        `portal.call(ref, request)` is `await ref.call(request)`, and `portal.call(fn, *args)` is
        `fn(*args)`, awaited if it must be: `portal.call(root.terminate_child, "db")`,
        `portal.call(root.snapshot)`. Context variables of this thread hold there too.

        Args:
            target: A `ServerRef`, or a function.
            args: The request and, if it is to be another than 5 seconds, the `timeout` of
                `ServerRef.call`; or the arguments of the function.
            options: `timeout=`, of `ServerRef.call`.

        Raises:
            NotRunning: If the tree has ended, or has been left before there was a result.
            CallingSelf: In the thread of the event loop: await it there.
            CancelledError: That of `concurrent.futures`: what was called has been cancelled.
            Exception: What `ServerRef.call` or the function raises.
        """
        if not callable(target):
            target, options = partial(target.call, **options), {}
        if options:
            msg = "Portal.call: a function gets positional arguments only; use functools.partial"
            raise TypeError(msg)
        return self.start_task_soon(target, *args).result()

    def cast(self, target: Callee[RequestT_contra, Any], request: RequestT_contra) -> None:
        """Send a request that gets no reply; as `ServerRef.cast`, but not into a tree that is over.

        Raises:
            NotRunning: If the tree has ended.
        """
        if self._root.ended:
            raise NotRunning(self._root.path)
        target.cast(request)

    @overload
    def start_child(
        self, supervisor: AnySupervisor | Process, spec: ChildSpec[_T]
    ) -> Process[_T] | None: ...
    @overload
    def start_child(self, supervisor: AnySupervisor | Process, spec: AnySpec) -> Process | None: ...
    def start_child(self, supervisor: AnySupervisor | Process, spec: AnySpec) -> Process | None:
        """Start a child and wait until it is ready; as `start_child` of the supervisor.

        Args:
            supervisor: Where; it may be given as its process.
            spec: What.

        Raises:
            NotRunning: If the supervisor, or the tree, has ended or is ending.
            CallingSelf: In the thread of the event loop: await it there.
            TypeError: If `supervisor` is none.
            Exception: What `start_child` raises.
        """
        found = supervisor.supervisor if isinstance(supervisor, Process) else supervisor
        if found is None:
            raise TypeError(f"Portal.start_child: {supervisor!r} is no supervisor")
        return self.call(found.start_child, spec)

    @overload
    def start_task_soon(
        self, func: Callable[[*_Ts], Awaitable[_T]], /, *args: *_Ts, name: object = None
    ) -> Future[_T]: ...
    @overload
    def start_task_soon(
        self, func: Callable[[*_Ts], _T], /, *args: *_Ts, name: object = None
    ) -> Future[_T]: ...
    def start_task_soon(  # type: ignore[misc] # mypy: *args: Any takes less than *_Ts
        self, func: Callable[..., Any], /, *args: Any, name: object = None
    ) -> Future[Any]:
        """Let the event loop call `func(*args)` soon, in a task, and do not wait for the result.

        Args:
            func: What to call; what it returns is awaited if it must be.
            args: Its arguments.
            name: Name of the task; that of the function by default.

        Returns:
            What has the result some time; to cancel it cancels the task.

        Raises:
            NotRunning: If the tree has ended.
            CallingSelf: In the thread of the event loop.
        """
        tree, root = self._tree, self._root
        if get_ident() == tree.thread and not tree.loop.is_closed():
            raise CallingSelf(root.path, "a portal is for other threads; await it here")
        call = PortalCall(tree, partial(func, *args), str(name or _name_of(func)))
        tree.calls[call] = None  # first: the end of the tree comes either before or behind that
        try:
            if root.ended:
                raise NotRunning(root.path)
            tree.loop.call_soon_threadsafe(call.begin, context=copy_context())
        except BaseException as error:
            tree.calls.pop(call, None)
            if isinstance(error, RuntimeError) and tree.loop.is_closed():
                raise NotRunning(root.path) from None
            raise
        return call.future

    @property
    def _root(self) -> AnySupervisor:
        root = self._tree.root
        assert root is not None  # noqa: S101 - the tree was made with one
        return root


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

    __slots__ = ("_ended", "_func", "_name", "_tree", "future", "task")

    def __init__(self, tree: Tree, func: Callable[[], Any], name: str) -> None:
        """Call `func` in the loop of `tree`, in a task of this name."""
        self.future: Future[Any] = Future()
        self.task: asyncio.Task[None] | None = None
        self._tree = tree
        self._func = func
        self._name = name
        self._ended = False

    def begin(self) -> None:
        """Make the task; in the loop."""
        tree = self._tree
        if self.future.cancelled():
            self._end()
        elif tree.root is None or tree.root.ended:
            self.lose()
        else:
            self.task = task = tree.loop.create_task(self._run(), name=self._name)
            # Not by a method of its own: the future keeps it.
            self.future.add_done_callback(partial(_given_up, tree.loop, task))

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            result = self._func()
            if isawaitable(result):
                result = await result
            self._end(result)
        except asyncio.CancelledError:
            if self._tree.root is not None and self._tree.root.ended:
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
        """Tell who waits that the tree is over; without effect if there is a result."""
        root = self._tree.root
        assert root is not None  # noqa: S101 - the tree was made with one
        self._end(error=NotRunning(root.path))

    def _end(self, result: Any = None, *, error: BaseException | None = None) -> None:
        self._tree.calls.pop(self, None)
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
    """Who has waited cancels the call, in whatever thread."""
    if future.cancelled():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)


async def end_calls(tree: Tree) -> None:
    """Wait until no thread waits for a tree that has ended.

    What they have asked of the tree has its answer by now, or has it in a moment. Anything else is
    cancelled after `KILL_GRACE` seconds, and not waited for longer than once more so many.
    """
    for cancels in (False, True):
        calls = tuple(tree.calls)
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
    for call in tuple(tree.calls):
        call.lose()
