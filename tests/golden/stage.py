"""Children that follow a script, and a host that runs a real tree of them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import otpy
from otpy import ChildSpec, Shutdown, SupervisorFailed, SupervisorSpec
from otpy._runtime.shells import shell_of
from otpy.reports import Report, SupervisorGaveUp, SupervisorStopped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from otpy import ExitReason, Supervisor
    from otpy.testing import MockClock


class Boom(Exception):
    """A crash in the script."""


class Nope(Exception):
    """A failing start in the script."""


class Stage:
    """Runs one tree of scripted children and performs the steps of a script.

    Attributes:
        events: The events, in the notation of the golden traces: `s x` started, `f x` failed to
            start, `die x` ended by itself, `q x` was asked to end, `z x` finished its clean-up.
        root: The running supervisor.
        failed: The error that the host got when the root gave up or did not start.
    """

    def __init__(self, clock: MockClock) -> None:
        self.events: list[str] = []
        self.reports: list[Report] = []
        self.failed: SupervisorFailed | None = None
        self.root: Supervisor | None = None
        self._clock = clock
        self._deaths: dict[str, asyncio.Future[str]] = {}
        self._starts: dict[str, deque[str]] = {}
        self._host: asyncio.Task[None] | None = None
        self._calls: list[asyncio.Task[None]] = []

    def cast(self, spec: SupervisorSpec, starts: str) -> SupervisorSpec:
        """Return `spec` with the script as the `start` of all workers."""
        if starts:
            name, plan = starts.split()
            self._starts[name] = deque(plan)

        def played(spec: Any) -> Any:
            if isinstance(spec, SupervisorSpec):
                return spec.replace(children=[played(child) for child in spec.children])
            return spec.replace(start=self.play)

        cast: SupervisorSpec = played(spec)
        return cast

    async def play(
        self,
        name: str,
        *,
        traps: bool = True,
        start_takes: float = 0,
        cleanup_takes: float = 0,
        task_status: Any,
    ) -> None:
        """Live the life of one child: start as planned, wait for the cue or a request to end."""
        plan = self._starts.get(name)
        if start_takes:
            await asyncio.sleep(start_takes)
        if plan and plan.popleft() == "f":
            self.events.append(f"f {name}")
            raise Nope(name)
        self.events.append(f"s {name}")
        cue = self._deaths[name] = asyncio.get_running_loop().create_future()
        task_status.started()
        try:
            how = await cue
        except asyncio.CancelledError:
            if traps:
                self.events.append(f"q {name}")
                await asyncio.sleep(cleanup_takes)
                self.events.append(f"z {name}")
            raise
        self.events.append(f"die {name}")
        if how == "crash":
            raise Boom(name)

    # --- the script ------------------------------------------------------------------------------

    async def raise_curtain(self, spec: SupervisorSpec) -> None:
        """Start the tree in a host task; do not wait longer than the start takes by itself."""
        self._host = asyncio.create_task(self._run(spec))
        await self._clock.advance(0)

    async def _run(self, spec: SupervisorSpec) -> None:
        try:
            async with otpy.start(spec, hooks=[self.reports.append]) as root:
                self.root = root
                await root.wait()
        except SupervisorFailed as failure:
            self.failed = failure

    async def act(self, step: str) -> None:
        """Perform one step, such as `die a`, `die a c`, `leave a`, `terminate a` or `wait 0.1`."""
        what, *names = step.split()
        match what:
            case "die" | "leave":
                for name in names:
                    self._deaths[name].set_result("crash" if what == "die" else "return")
            case "wait":
                await self._clock.advance(float(names[0]))
            case "cancel":
                assert self._host is not None
                self._host.cancel()
            case _:
                assert self.root is not None
                self._calls.append(asyncio.create_task(self._call(self.root, what, names)))
        await self._clock.advance(0)

    async def _call(self, root: Supervisor, what: str, names: Sequence[str]) -> None:
        match what:
            case "stop":
                await root.stop(Shutdown())
            case "terminate":
                await root.terminate_child(*names)
            case "delete":
                await root.delete_child(*names)
            case "add":
                await root.start_child(actor(*names).replace(start=self.play))
            case _:
                raise AssertionError(what)

    async def drop_curtain(self) -> None:
        """End everything that still runs, and check that every call got an answer."""
        assert self._host is not None
        await asyncio.gather(*self._calls)
        self._host.cancel()
        await asyncio.wait([self._host])

    # --- what is left ----------------------------------------------------------------------------

    async def table(self) -> str:
        """Return the child table, newest first; `-` marks children that do not run."""
        assert self.root is not None
        infos = await self.root.which_children()
        return " ".join(i.id if isinstance(i.process, otpy.Process) else f"-{i.id}" for i in infos)

    @property
    def ended(self) -> ExitReason | None:
        """The reason of the root's end; None if it runs."""
        last = self.reports[-1] if self.reports else None
        return last.reason if isinstance(last, SupervisorStopped) else None

    @property
    def errors(self) -> list[str]:
        """The error reports, as `context path`, the path without the root."""
        found: list[str] = []
        for report in self.reports:
            context = getattr(report, "context", None)
            if isinstance(report, SupervisorGaveUp):
                found.append(f"shutdown {report.child.partition('/')[2]}")
            elif context is not None:
                found.append(f"{context.value} {report.path.partition('/')[2]}")
        return found

    @property
    def counted(self) -> int:
        """The number of restarts that the root has counted."""
        assert self.root is not None
        return len(shell_of(self.root)._machine._out._limits._window)


async def _nobody(*_: object, **__: object) -> None:
    """Stand in for a worker until the stage replaces it by the script."""


def actor(
    id: str, *, traps: bool = True, start_takes: float = 0, cleanup_takes: float = 0, **fields: Any
) -> ChildSpec:
    """Return the spec of a scripted child; one that does not trap exits leaves no `q` and `z`."""
    kwargs = {"traps": traps, "start_takes": start_takes, "cleanup_takes": cleanup_takes}
    return ChildSpec(id, _nobody, (id,), kwargs, **fields)
