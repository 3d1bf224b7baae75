"""Trees of a test: started on request, stopped at its end, with every crash accounted for."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, final, overload

import otpy
from otpy import ChildSpec, InvalidSpec, SupervisorSpec
from otpy.reports import ChildExited, ChildStartFailed, ChildStopped, HookFailed, Report
from otpy.testing.path_pattern import matches

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from otpy import DynamicSupervisor, Process, Supervisor, SupervisorFailed
    from otpy.reports import ReportHook
    from otpy.specs import DynamicSpec

_T = TypeVar("_T")
_ROOT = "test"


class StartTree(Protocol):
    """The type of the fixture `supervisor_tree`: a function that starts a tree for one test."""

    @overload
    async def __call__(
        self,
        spec: SupervisorSpec,
        *,
        hooks: Iterable[ReportHook] | None = None,
        crashes: str | Iterable[str] = (),
    ) -> Supervisor: ...
    @overload
    async def __call__(
        self,
        spec: DynamicSpec,
        *,
        hooks: Iterable[ReportHook] | None = None,
        crashes: str | Iterable[str] = (),
    ) -> DynamicSupervisor: ...
    async def __call__(
        self,
        spec: SupervisorSpec | DynamicSpec,
        *,
        hooks: Iterable[ReportHook] | None = None,
        crashes: str | Iterable[str] = (),
    ) -> Supervisor | DynamicSupervisor:
        """Start a tree, return its root when every child is ready, and stop it after the test.

        Trees are stopped as soon as the test function has ended, the latest first, and before any
        fixture is torn down. If a root gives up, the test is cancelled and fails with its
        `SupervisorFailed`. A test in which that is meant to happen uses `otpy.start` itself.

        A child that raises fails the test, unless it was expected to; so does a report hook or a
        callback that raises.

        Args:
            spec: The tree.
            hooks: The receivers of the reports, as in `otpy.start`.
            crashes: Paths of children that will raise, such as `"app/db"`, or patterns as those
                of faults: `"app/*"`. One of which nothing crashes fails the test too.

        Raises:
            InvalidSpec: If `spec` is not a supervisor's.
            TreeStartFailed: A child did not start; what had been started was stopped.

        Cancellation:
            What has been started is stopped first.
        """
        ...


class StartChild(Protocol):
    """The type of the fixture `start_supervised`: a function that starts one child for one test."""

    async def __call__(
        self,
        spec: ChildSpec[_T],
        *,
        hooks: Iterable[ReportHook] | None = None,
        crashes: bool = False,
    ) -> Process[_T]:
        """Start a child, return it when it is ready, and stop it after the test.

        It has a tree of its own, whose root is called `test`, so `"test/db"` is the path of a child
        `"db"`; `process.root` is that root. What `StartTree` says of trees holds for it.

        Args:
            spec: The child.
            hooks: The receivers of the reports, as in `otpy.start`.
            crashes: Whether it will raise. A crash that was not expected fails the test, and so
                does one that was and did not happen.

        Raises:
            InvalidSpec: If `spec` is not a child's, or `crashes` not a bool.
            TreeStartFailed: It did not start.
            NotRunning: It declined to run (`Ignore`).

        Cancellation:
            What has been started is stopped first.
        """
        ...


@final
class Trees:
    """The trees of one test; called as `StartTree` says.

    Attributes:
        failures: The exceptions of roots that gave up, oldest first.
    """

    def __init__(self, on_failure: Callable[[], object]) -> None:
        """Hold none yet; `on_failure` is called when a root gives up."""
        self.failures: list[SupervisorFailed] = []
        self._on_failure = on_failure
        self._trees: list[_Tree] = []

    async def __call__(
        self,
        spec: SupervisorSpec | DynamicSpec,
        *,
        hooks: Iterable[ReportHook] | None = None,
        crashes: str | Iterable[str] = (),
    ) -> Supervisor | DynamicSupervisor:
        """Start a tree; see `StartTree`."""
        expected = [crashes] if isinstance(crashes, str) else list(crashes)
        return await self._start(spec, hooks, _Tree(expected))

    async def _start(
        self,
        spec: SupervisorSpec | DynamicSpec,
        hooks: Iterable[ReportHook] | None,
        tree: _Tree,
    ) -> Supervisor | DynamicSupervisor:
        listeners = [otpy.log_reports()] if hooks is None else list(hooks)
        running = otpy.start(spec, hooks=[*listeners, tree.hear])
        ready: asyncio.Future[Supervisor | DynamicSupervisor]
        ready = asyncio.get_running_loop().create_future()
        # In a task of its own: who starts the tree may be a fixture, whose task ends at once, and
        # `otpy.start` cancels the task that it runs in when the root gives up.
        tree.task = asyncio.create_task(self._keep(tree, running, ready), name="supervisor_tree")
        try:
            root = await ready
        except asyncio.CancelledError:
            tree.task.cancel()
            await asyncio.wait([tree.task])
            raise
        return root

    async def start_child(
        self,
        spec: ChildSpec[_T],
        *,
        hooks: Iterable[ReportHook] | None = None,
        crashes: bool = False,
    ) -> Process[_T]:
        """Start a tree of one child; see `StartChild`."""
        if not isinstance(spec, ChildSpec):
            raise InvalidSpec(f"start_supervised: a ChildSpec is needed, got {spec!r}")
        if not isinstance(crashes, bool):
            raise InvalidSpec(f"start_supervised: crashes is {crashes!r}, wanted True or False")
        tree = _Tree([f"{_ROOT}/{spec.id}"] if crashes else [], cure="crashes=True")
        root = await self._start(SupervisorSpec(_ROOT, [spec]), hooks, tree)
        return cast("Process[_T]", root.child(spec.id))

    async def _keep(
        self,
        tree: _Tree,
        running: AbstractAsyncContextManager[Supervisor | DynamicSupervisor],
        ready: asyncio.Future[Supervisor | DynamicSupervisor],
    ) -> None:
        try:
            async with running as root:
                self._trees.append(tree)
                ready.set_result(root)
                await tree.stopping.wait()
        except otpy.SupervisorFailed as failure:
            if not ready.done():
                ready.set_exception(failure)
                return
            self.failures.append(failure)
            self._on_failure()

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks that keep the trees; children are not among them."""
        return {tree.task for tree in self._trees}

    async def stop(self) -> None:
        """Stop all, the latest first."""
        for tree in reversed(self._trees):
            tree.stopping.set()
            if tree.task.get_loop() is not asyncio.get_running_loop():
                raise RuntimeError("supervisor_tree was called on another loop than the test's")
            await asyncio.wait([tree.task])

    def problems(self, *, missing: bool) -> list[str]:
        """Say what crashed unexpectedly, and, if `missing`, what did not crash as expected."""
        return [line for tree in self._trees for line in tree.problems(missing=missing)]

    def forget(self) -> None:
        """Be as new."""
        self._trees.clear()
        self.failures.clear()


@final
class _Tree:
    task: asyncio.Task[None]

    def __init__(self, expected: list[str], cure: str = "crashes={path!r}") -> None:
        self.stopping = asyncio.Event()
        self._expected, self._cure = expected, cure
        self._crashes: list[tuple[str, str, BaseException]] = []

    def hear(self, report: Report) -> None:
        match report:
            case (
                ChildExited(reason=otpy.Crashed(error), context=context)
                | ChildStartFailed(reason=otpy.Crashed(error), context=context)
                | ChildStopped(reason=otpy.Crashed(error), context=context)
            ) if context is not None:
                what = f"{report.path} crashed in its life {report.incarnation}"
                self._crashes.append((report.path, what, error))
            case HookFailed(hook=hook, error=error):
                self._crashes.append((report.path, f"{report.path}: {hook} failed", error))
            case _:
                pass

    def problems(self, *, missing: bool) -> list[str]:
        found = [
            f"{what}, which the test did not expect ({self._cure.format(path=path)} would):\n"
            f"{_shown(error)}"
            for path, what, error in self._crashes
            if not any(matches(pattern, path) for pattern in self._expected)
        ]
        if missing:
            found += [
                f"{pattern} did not crash, as the test expected"
                for pattern in self._expected
                if not any(matches(pattern, path) for path, _, _ in self._crashes)
            ]
        return found


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
