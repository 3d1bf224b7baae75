"""The top of a tree: `start`, to embed a tree in an async program."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, final, overload

from otpy._core.protocol import KILL_GRACE
from otpy._core.reason import Killed, Normal
from otpy._core.spec import DynamicSpec, SupervisorSpec
from otpy._runtime.current import current_or_none
from otpy._runtime.hooks import checked_hooks
from otpy._runtime.leftovers import Leftovers
from otpy._runtime.log import log_reports
from otpy._runtime.shells import make_supervisor
from otpy._runtime.stack import threads_of
from otpy._runtime.stderr import say
from otpy._runtime.tree import Tree
from otpy.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from otpy._runtime.handles import AnySupervisor, DynamicSupervisor, Supervisor
    from otpy._runtime.shells import AnyShell
    from otpy.reports import ReportHook


WAITS_FOR_NOTHING: Final = ContextVar("otpy.waits_for_nothing", default=False)
"""Whether the program ends also when a child refuses to, as under `otpy.run`."""

_NAMED: Final = 5  # of the children that refuse to end


@overload
def start(
    spec: SupervisorSpec, *, hooks: Iterable[ReportHook] | None = None
) -> AbstractAsyncContextManager[Supervisor]: ...
@overload
def start(
    spec: DynamicSpec, *, hooks: Iterable[ReportHook] | None = None
) -> AbstractAsyncContextManager[DynamicSupervisor]: ...
def start(
    spec: SupervisorSpec | DynamicSpec, *, hooks: Iterable[ReportHook] | None = None
) -> AbstractAsyncContextManager[AnySupervisor]:
    """Run a tree for as long as an `async with` block lasts.

    Entering returns the root supervisor when every child is ready. Leaving, in whatever way, stops
    the children in reverse order and returns when none of them runs: no task outlives the block,
    but for those that refused to end, which are reported as `ChildAbandoned`. A line on stderr
    names them, whatever `hooks` are: `asyncio.run` waits for them without limit. Under `otpy.run`,
    which does not, there is none.

    Tasks that a child created, or a library for it, count as the child's: they run in a copy of its
    context variables. They are cancelled when the child has ended, and given up a second later; the
    next life does not wait for them, the end of the block does. Create a task that must outlive its
    child in another context: `asyncio.create_task(…, context=Context())`.

    When the root gives up, the body of the block is cancelled and `SupervisorFailed` is raised out
    of it. When the tree ends by itself in good order (`auto_shutdown`, `stop()`), the body goes
    on: `await root.wait()` is how it can wait for that.

    Cancelling the task that runs the block, in the middle of starting or stopping too, stops the
    tree in reverse order first and then goes on cancelling. Works inside anyio's task groups and
    cancel scopes.

    A tree whose block is in a child of another tree is killed when that child is.

    Args:
        spec: The tree.
        hooks: The receivers of the reports, in order; the default is `log_reports()`, which logs
            them, `()` means no hook. `Supervisor.subscribe` adds more.

    Raises:
        InvalidSpec: If `spec` is not a supervisor's, or a hook is not a callable that returns at
            once.
        SupervisorFailed: On leaving, if the root gave up.
        SystemExit, KeyboardInterrupt: On leaving, if one came out of a hook or an `on_exit`
            callback: the tree was shut down in order first.
        TreeStartFailed: On entering, if a child did not start; what had been started was stopped
            in reverse (SUP-306). It is a `SupervisorFailed` too.
    """
    return RunningTree(spec, hooks)


@final
class RunningTree:
    """The `async with` block around a tree.

    Attributes:
        root: The root supervisor; None before the block is entered.
    """

    def __init__(
        self, spec: SupervisorSpec | DynamicSpec, hooks: Iterable[ReportHook] | None
    ) -> None:
        """Describe the block; nothing is started yet."""
        if not isinstance(spec, SupervisorSpec | DynamicSpec):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"start: spec is {spec!r}, wanted a SupervisorSpec or DynamicSupervisor.spec(…)"
            raise InvalidSpec(msg)
        self.root: AnyShell | None = None
        self._spec = spec
        who = f"start {spec.id!r}"
        self._hooks = [log_reports()] if hooks is None else checked_hooks(who, hooks)

    async def __aenter__(self) -> AnyShell:
        """Start the tree and return its root when every child is ready."""
        host = asyncio.current_task()
        if host is None or self.root is not None:
            msg = "otpy.start(): enter it once, in an asyncio task"
            raise RuntimeError(msg)
        self._host: asyncio.Task[object] = host
        self._cancelled_host = False
        self._cancelling = host.cancelling()
        loop = asyncio.get_running_loop()
        tree = Tree(loop, self._hooks, make_supervisor, Leftovers)
        self.root = tree.root = root = make_supervisor(self._spec, tree)
        tree.order(root.begin)
        try:
            await root.wait_ready()
            if not root.running or tree.interruption is not None:
                await _undisturbed(root)
        except asyncio.CancelledError:
            await self._stop(root)
            if tree.interruption is None:
                raise
        failure = self._failure(root)
        if failure is not None:
            raise failure
        root.on_end = self._ended
        return root

    @staticmethod
    def _failure(root: AnyShell) -> BaseException | None:
        """Return the exception of the block: the tree's interruption, or its failure."""
        return root.tree.interruption or root.failure()

    def _ended(self) -> None:
        """The tree has ended while the body of the block runs."""
        root = self.root
        if root is not None and (root.failed or root.tree.interruption is not None):
            self._cancelled_host = True
            self._host.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the tree; raise `SupervisorFailed` if it had failed."""
        root = self.root
        assert root is not None  # noqa: S101 - the block was entered
        root.on_end = None
        by_others = isinstance(error, asyncio.CancelledError)
        try:
            try:
                if self._cancelled_host:
                    by_others = self._host.uncancel() > self._cancelling and by_others
                    if not isinstance(error, asyncio.CancelledError):
                        await self._take_back()
            finally:
                await self._stop(root)
        except asyncio.CancelledError:
            if root.tree.interruption is None:  # it is what matters more, and is raised below
                raise
        failure = self._failure(root)
        if failure is None:
            return
        if not by_others or not isinstance(failure, Exception):
            raise failure

    async def _take_back(self) -> None:
        """Let our cancellation arrive here if the body ended before it did.

        One by others that came between the two is delivered with ours, as one, and goes on.
        """
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._host.cancelling() > self._cancelling:
                raise

    @staticmethod
    async def _stop(root: AnyShell) -> None:
        if _is_killed():
            root.kill(grace=KILL_GRACE / 2)
        else:
            root.shut_down(Normal())
        await _undisturbed(root)


async def _undisturbed(root: AnyShell) -> None:
    """Wait until `root` and its children's leftovers have ended, then pass on a cancellation.

    The shield keeps a cancelled anyio scope around the host from interrupting every single wait,
    which would keep the loop busy until the last child has stopped.
    """
    cancelled: asyncio.CancelledError | None = None
    leftovers = root.tree.leftovers
    with _shield():
        while not (root.ended and leftovers.settled()):
            try:
                await (leftovers.change() if root.ended else root.wait())
            except asyncio.CancelledError as error:
                cancelled = error
                if _is_killed():
                    root.kill(grace=KILL_GRACE / 2)
        while root.tree.calls.waiting:
            try:
                await root.tree.calls.end()
            except asyncio.CancelledError as error:
                cancelled = error
    if root.abandoned and not WAITS_FOR_NOTHING.get():
        name_refusing(root, "asyncio.run() will wait for {them}, otpy.run() would not")
    if cancelled is not None:
        raise cancelled


def _is_killed() -> bool:
    """Whether the block belongs to a child of another tree that is being killed.

    The tree in the block is killed with it, and in half the time: else the child would be given up
    for what is below it.
    """
    process = current_or_none()
    return process is not None and isinstance(process.requested, Killed)


def name_refusing(root: AnyShell, consequence: str) -> bool:
    """Name the children that keep the program from its end: the log may be off, or not name them.

    Args:
        root: The root of a tree that has ended.
        consequence: What follows from it, with `{them}` for those who refuse.
    """
    refusing = [
        process.path
        for process, what in root.tree.abandoned.items()
        if what != "thread" or threads_of(process)  # else its thread has ended since
    ]
    if not refusing:
        return False
    first, more = refusing[:_NAMED], len(refusing) - _NAMED
    names = ", ".join(first) + (f" and {more} more" if more > 0 else "")
    refuse, them = ("refuse", "them") if len(refusing) > 1 else ("refuses", "it")
    say(f"{names} {refuse} to end: {consequence.format(them=them)}")
    return True


def _shield() -> AbstractContextManager[object]:
    """Return anyio's shield; nothing where anyio has run nothing yet.

    A first scope imports anyio's backend, for 26 ms. Without it there is no scope to shield from,
    and nobody has to import anyio.
    """
    if "anyio._backends._asyncio" in sys.modules:
        import anyio  # noqa: PLC0415 - see above

        return anyio.CancelScope(shield=True)
    return nullcontext()
