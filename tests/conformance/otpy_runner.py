"""Runs scenarios on otpy, in virtual time, and returns the same traces as `runner.erl`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, final

import otpy
from otpy import RESTARTING, InvalidSpec, SupervisorFailed
from otpy.errors import (
    AlreadyPresent,
    AlreadyStarted,
    ChildRestarting,
    ChildRunning,
    NotFound,
    NotRunning,
    StartFailed,
    TreeStartFailed,
)
from otpy.reports import (
    ChildExited,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)
from otpy.testing import MockClock
from tests.conformance.actor import Cast, describe, reason, word_of
from tests.conformance.scenario import Call, Die, Stop, Sup, Together, Worker, name_of
from tests.conformance.trace import Section

if TYPE_CHECKING:
    from otpy import Supervisor, SupervisorSpec
    from tests.conformance.scenario import Scenario, Step
    from tests.conformance.trace import Trace

REST = 10.0  # virtual seconds: more than any child of any scenario takes

REFUSALS: dict[type[Exception], str] = {
    AlreadyStarted: "already_started",
    AlreadyPresent: "already_present",
    NotFound: "not_found",
    ChildRunning: "running",
    ChildRestarting: "restarting",
    NotRunning: "not_running",
    InvalidSpec: "invalid",
}


def play(scenario: Scenario) -> Trace:
    """Run `scenario` and return its trace."""
    clock = MockClock()
    return clock.run(_Run(clock).whole(scenario))


@final
class _Run:
    """One run of one scenario."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._events: list[str] = []
        self._cast = Cast(self._events.append)
        self._ended: list[str] = []
        self._results: list[asyncio.Task[str]] = []
        self._hinted: set[asyncio.Future[str]] = set()  # cues of those who are about to end
        self._failures: dict[str, str] = {}  # why starts by hand failed, by path
        self._root: Supervisor | None = None

    async def whole(self, scenario: Scenario) -> Trace:
        """Start, take every step, end."""
        host = asyncio.create_task(self._host(scenario.tree))
        await self._clock.advance(REST)
        trace = [await self._section("start", [await self._started(host)])]
        for step in scenario.steps:
            self._results = []
            await self._step(step)
            await self._clock.advance(REST)
            trace.append(await self._section(name_of(step), [await r for r in self._results]))
        host.cancel()
        await asyncio.wait([host])
        if not host.cancelled():
            host.exception()  # the root gave up: seen, and no news
        return trace

    async def _host(self, tree: Sup) -> None:
        """Be the root's parent."""
        spec: SupervisorSpec = self._cast.spec(tree)
        async with otpy.start(spec, hooks=[self._hear]) as root:
            self._root = root
            await root.wait()
            await asyncio.get_running_loop().create_future()

    async def _started(self, host: asyncio.Task[None]) -> str:
        if self._root is not None:
            return "ok up"
        try:
            await host
        except TreeStartFailed:
            return f"error {self._ended[-1].partition('=')[2]}"
        except SupervisorFailed:
            return "ok up"  # it had started, and gave up at once
        raise AssertionError("neither started nor failed")

    # --- steps -----------------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        """Do it. Nothing of it has reached a supervisor when this returns.

        What happens together reaches the supervisor three turns of the loop later, all in one turn
        and in order: a child hears its cue, or is told to end, in the first, takes its last step in
        the second and is known to have ended in the third; calls are held back for as long.
        """
        root = self._root
        items = step.items if isinstance(step, Together) else (step,)
        supervisor = self._supervisor(step.path) if isinstance(step, Together) else None
        loop = asyncio.get_running_loop()
        for item in items:
            match item:
                case Die():
                    self._die(item)
                case Call():
                    server = supervisor or self._supervisor(item.path)
                    result: asyncio.Future[asyncio.Task[str]] = loop.create_future()
                    loop.call_soon(self._begin_call, result, server, item)
                    self._results.append(asyncio.ensure_future(_both(result)))
                case Stop() if root is not None:
                    loop.call_soon(loop.call_soon, root.shut_down, reason(item.reason))
                case _:
                    pass

    def _die(self, step: Die) -> None:
        process = self._process(step.path)
        cue = self._cast.cues.get(step.path)
        if process is None or not process.runs or cue in self._hinted:
            return
        if cue is not None:
            self._hinted.add(cue)
        loop = asyncio.get_running_loop()

        def note(event: str) -> None:  # in the turn in which a child takes its last step
            loop.call_soon(loop.call_soon, self._events.append, event)

        if process.supervisor is not None:
            note(f"kill {step.path}")
            self._kill_supervisor(process)
        elif step.reason == "killed":
            note(f"kill {step.path}")
            self._cast.kill(process)
        elif step.by == "others":
            note(f"exit {step.path} {step.reason}")
            process.exit(reason(step.reason))
        elif cue is not None:
            loop.call_soon(_hint, cue, step.reason)

    def _kill_supervisor(self, process: otpy.Process) -> None:
        """Kill it so that it has ended two turns later, as a child: at once if nobody is below."""
        below = f"{process.path}/"
        cues = self._cast.cues.items()
        if any(path.startswith(below) and not cue.done() for path, cue in cues):
            process.kill()
        else:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, process.kill)

    def _begin_call(
        self, result: asyncio.Future[asyncio.Task[str]], server: Supervisor | None, call: Call
    ) -> None:
        result.set_result(asyncio.create_task(self._call(server, call)))

    async def _call(self, server: Supervisor | None, call: Call) -> str:
        try:
            if server is None:
                return "not_running"
            return await self._ask(server, call.path, call.op, call.arg)
        except StartFailed:
            name = call.arg if isinstance(call.arg, str) else call.arg.id
            return f"error {self._failures[f'{call.path}/{name}']}"
        except tuple(REFUSALS) as refusal:
            return REFUSALS[type(refusal)]

    async def _ask(self, server: Supervisor, path: str, op: str, arg: Any) -> str:
        match op:
            case "start":
                process = await server.start_child(self._cast.spec(arg, f"{path}/"))
                return "ok undefined" if process is None else "ok up"
            case "restart":
                process = await server.restart_child(arg)
                return "ok undefined" if process is None else "ok up"
            case "terminate":
                await server.terminate_child(arg)
            case "delete":
                await server.delete_child(arg)
            case "get":
                return describe(await server.get_childspec(arg))
            case "which":
                return await _which(server)
            case "count":
                return await _count(server)
            case "stop":
                if server.ended:
                    return "not_running"
                await server.stop(reason(arg))
            case _:
                raise AssertionError(op)
        return "ok"

    def _process(self, path: str) -> otpy.Process | None:
        try:
            return None if self._root is None else self._root.whereis(path)
        except (NotFound, NotRunning):
            return None

    def _supervisor(self, path: str) -> Any:
        if self._root is None or path == self._root.path:
            return None if self._root is None or self._root.ended else self._root
        process = self._process(path)
        return None if process is None else process.supervisor

    # --- what is seen ----------------------------------------------------------------------------

    def _hear(self, report: Report) -> None:
        match report:
            case ChildStarted():
                self._events.append(f"started {report.path}")
            case SupervisorGaveUp():
                self._events.append(f"shutdown {report.child} limit")
            case SupervisorStopped():
                self._ended.append(f"{report.path}={word_of(report.reason)}")
            case ChildStartFailed() | ChildExited() | ChildStopped():
                why = word_of(report.reason)
                if report.context is not None:
                    self._events.append(f"{report.context.value} {report.path} {why}")
                elif isinstance(report, ChildStartFailed):
                    self._failures[report.path] = why
            case _:
                pass

    async def _section(self, step: str, results: list[str]) -> Section:
        events, ended = self._events[:], sorted(self._ended)
        self._events.clear()
        self._ended.clear()
        tables: dict[str, str] = {}
        if self._root is not None and not self._root.ended:
            await self._tables(self._root, tables)
        return Section(step, events, results, ended, [tables[path] for path in sorted(tables)])

    async def _tables(self, supervisor: Supervisor, tables: dict[str, str]) -> None:
        path = supervisor.path
        tables[path] = f"{path}: {await _which(supervisor)} ({await _count(supervisor)})"
        for info in await supervisor.which_children():
            below: Any = getattr(info.process, "supervisor", None)
            if below is not None:
                await self._tables(below, tables)


def _hint(cue: asyncio.Future[str], reason: str) -> None:
    if not cue.done():
        cue.set_result(reason)


async def _both(call: asyncio.Future[asyncio.Task[str]]) -> str:
    return await (await call)


async def _which(supervisor: Supervisor) -> str:
    rows = await supervisor.which_children()
    return " ".join(f"{row.id}={_state(row.process)}" for row in rows)


def _state(process: object) -> str:
    if process is None:
        return "undefined"
    return "restarting" if process is RESTARTING else "up"


async def _count(supervisor: Supervisor) -> str:
    counts = await supervisor.count_children()
    return f"{counts.specs}/{counts.active}/{counts.supervisors}/{counts.workers}"


__all__ = ["SupervisorFailed", "Worker", "play"]
