"""Runs scenarios on otpy, in virtual time, and returns the same traces as `runner.erl`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, final

import structlog

import otpy
from otpy import DynamicSupervisor, InvalidSpec, SupervisorFailed
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.errors import (
    AlreadyPresent,
    AlreadyStarted,
    ChildRunning,
    NotFound,
    NotRunning,
    RestartPending,
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
from otpy.snapshot import RESTARTING
from otpy.testing import MockClock
from tests.conformance.actor import Cast, describe, reason, word_of
from tests.conformance.manners import Manner
from tests.conformance.scenario import (
    Call,
    Die,
    Release,
    Stop,
    Sup,
    Together,
    Worker,
    name_of,
)
from tests.conformance.trace import Section

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy import Supervisor, SupervisorSpec
    from tests.conformance.scenario import Scenario, Step
    from tests.conformance.trace import Trace

REST = 10.0  # virtual seconds: longer than any child of any scenario takes
MOMENT = 0.3  # the same with held-up children: no limit is over before those go on
TURNS = 50  # turns of the loop: more than anything takes to reach an idle supervisor

REFUSALS: dict[type[Exception], str] = {
    AlreadyStarted: "already_started",
    AlreadyPresent: "already_present",
    NotFound: "not_found",
    ChildRunning: "running",
    RestartPending: "restarting",
    NotRunning: "not_running",
    InvalidSpec: "invalid",
}

_QUIET: Final = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])


def play(scenario: Scenario, manner: Manner = Manner()) -> Trace:  # noqa: B008 - it is frozen
    """Run `scenario` and return its trace."""
    clock = MockClock()
    return clock.run(_Run(clock, scenario, manner).whole())


@final
class _Held:
    """A supervisor that handles nothing until the test releases it."""

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        self._news: list[tuple[str, tuple[Any, ...]]] = []
        for name in ("take", "child_exited"):
            setattr(supervisor, name, self._keeper(name))

    def _keeper(self, name: str) -> Callable[..., None]:
        return lambda *news: self._news.append((name, news))

    async def grown(self, before: int) -> None:
        """Wait until the effect of the last item has reached the supervisor, if it ever does."""
        for _ in range(TURNS):
            if len(self) > before:
                return
            await asyncio.sleep(0)

    def __len__(self) -> int:
        """Return the number of events that have reached the supervisor."""
        return len(self._news)

    def release(self) -> None:
        """Let the supervisor handle all its events, in order, before anything else happens."""
        supervisor = self._supervisor
        del supervisor.take, supervisor.child_exited

        def all_of_it() -> None:
            for name, news in self._news:
                supervisor.tree.enqueue(getattr(supervisor, name), *news)

        supervisor.tree.enqueue(all_of_it)


@final
class _Run:
    """One run of one scenario."""

    def __init__(self, clock: MockClock, scenario: Scenario, manner: Manner) -> None:
        self._clock = clock
        self._scenario = scenario
        self._manner = manner
        self._rest = MOMENT if scenario.holds else REST
        self._events: list[str] = []
        self._cast = Cast(self._events.append, manner.kind, made=manner.made)
        self._ended: list[str] = []
        self._calls: list[tuple[str, asyncio.Task[str]]] = []  # new and unanswered ones
        self._failures: dict[str, str] = {}  # reasons of failed starts by hand, by path
        self._root: Supervisor | None = None
        self._pools = {p for p, n in scenario.nodes() if isinstance(n, Sup) and n.is_pool}

    async def whole(self) -> Trace:
        """Start, take every step, end."""
        scenario = self._scenario
        host = asyncio.create_task(self._host(scenario.tree))
        await self._clock.advance(self._rest)
        trace = [await self._section("start", [await self._started(host)])]
        for number, step in enumerate(scenario.steps, 1):
            known = len(self._calls)
            await self._step(step, str(number))
            await self._clock.advance(self._rest)
            trace.append(await self._section(name_of(step), self._answers(known)))
        host.cancel()
        while not host.done():
            self._let_go(len(self._cast.held))
            await self._clock.advance(self._rest)
        await asyncio.gather(*(call for _, call in self._calls))
        if not host.cancelled():
            host.exception()  # the root gave up: already recorded
        return trace

    async def _host(self, tree: Sup) -> None:
        """Be the parent of the root."""
        spec: SupervisorSpec = self._cast.spec(tree)
        hooks: dict[str, list[Callable[[Report], object]]] = {
            "recorded": [self._hear],
            "logged": [otpy.log_reports(_QUIET), self._hear],
            "unheard": [],
        }
        async with otpy.start(spec, hooks=hooks[self._manner.hearing]) as root:
            self._root = root
            await root.wait()
            await asyncio.get_running_loop().create_future()

    async def _started(self, host: asyncio.Task[None]) -> str:
        if self._root is not None:
            return "ok up"
        try:
            await host
        except TreeStartFailed:
            return f"error {self._ended[-1].partition('=')[2]}" if self._ended else "error"
        except SupervisorFailed:
            return "ok up"  # it had started, and gave up at once
        raise AssertionError("neither started nor failed")

    def _answers(self, known: int) -> list[str]:
        """Return the answers to the calls of this step, and late answers to earlier calls."""
        late, new = self._calls[:known], self._calls[known:]
        results = [call.result() if call.done() else "waits" for _, call in new]
        results += [f"late {tag}: {call.result()}" for tag, call in late if call.done()]
        self._calls = [entry for entry in self._calls if not entry[1].done()]
        return results

    # --- steps -----------------------------------------------------------------------------------

    async def _step(self, step: Step, number: str) -> None:
        """Take one step."""
        if not isinstance(step, Together):
            self._do(step, self._supervisor_of(step), number)
            return
        supervisor = self._supervisor(step.path)
        held = None if supervisor is None or supervisor.ended else _Held(supervisor)
        for index, item in enumerate(step.items):
            before = 0 if held is None else len(held)
            if self._do(item, supervisor or self._supervisor_of(item), f"{number}.{index}"):
                await (asyncio.sleep(0) if held is None else held.grown(before))
        if held is not None:
            held.release()

    def _do(self, step: Step, supervisor: Any, tag: str) -> bool:
        """Begin an item of a step; return whether a supervisor will learn of it."""
        match step:
            case Die():
                return self._die(step)
            case Call():
                self._calls.append((tag, asyncio.create_task(self._call(supervisor, step))))
            case Stop() if self._root is not None:
                shell_of(self._root).shut_down(reason(step.reason))
            case Release():
                self._let_go(1)
            case _:
                pass
        return True

    def _let_go(self, count: int) -> None:
        for path in sorted(self._cast.held)[:count]:
            if not self._cast.held[path].done():
                self._cast.held[path].set_result(None)

    def _die(self, step: Die) -> bool:
        process, event = self._process(step.path), self._cast.event
        if process is None or not live_of(process).runs or not process.ready:
            return False
        if process.supervisor is not None:
            event(f"kill {step.path}")
            process.kill()
            return True
        hint = self._cast.hints.get(step.path)
        if hint is None:  # the child is already ending
            return False
        if step.by == "others" and step.reason != "killed":
            event(f"exit {step.path} {step.reason}")
            process.exit(reason(step.reason))
            if step.reason == "normal":
                return False  # no supervisor learns of it
        del self._cast.hints[step.path]
        if step.reason == "killed":
            event(f"kill {step.path}")
            self._cast.kill(process)
        elif step.by == "itself":
            hint(step.reason)
        return True

    async def _call(self, server: Supervisor | None, call: Call) -> str:
        try:
            if server is None:
                return "not_running"
            return await self._ask(server, call.path, call.op, call.arg)
        except StartFailed:
            name = call.arg if isinstance(call.arg, str) else call.arg.id
            return f"error {self._failures.get(f'{call.path}/{name}')}"
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

    def _supervisor_of(self, step: Step) -> Any:
        return self._supervisor(step.path) if isinstance(step, Call) else None

    def _supervisor(self, path: str) -> Any:
        if self._root is None or path == self._root.path:
            return None if self._root is None or self._root.ended else self._root
        process = self._process(path)
        return None if process is None else process.supervisor

    # --- what is seen ----------------------------------------------------------------------------

    def _shown(self, path: str) -> str:
        """Return a supervisor's name for the child at `path`; a child of a pool has none."""
        above = path.rpartition("/")[0]
        return f"{above}/?" if above in self._pools else path

    def _hear(self, report: Report) -> None:
        match report:
            case ChildStarted():
                process = self._process(report.path)
                if process is not None:
                    self._cast.started(process)
                if self._shown(report.path) == report.path:  # REP-08
                    self._events.append(f"started {report.path}")
            case SupervisorGaveUp():
                self._events.append(f"shutdown {self._shown(report.child)} limit")
            case SupervisorStopped():
                self._ended.append(f"{report.path}={word_of(report.reason)}")
            case ChildStartFailed() | ChildExited() | ChildStopped():
                why = word_of(report.reason)
                if isinstance(report, ChildStopped):
                    self._speak_for(report.path)
                path = self._shown(report.path)
                if path != report.path and isinstance(report, ChildStopped):
                    return  # SUP-710: a pool groups these
                if report.context is not None:
                    self._events.append(f"{report.context.value} {path} {why}")
                elif isinstance(report, ChildStartFailed):
                    self._failures[report.path] = why
            case _:
                pass

    def _speak_for(self, path: str) -> None:
        """Record the events of a plain child that never took its first step (AIO-06)."""
        script = self._cast.unplayed.pop(path, None)
        if script is not None and script.ends != "silent" and script.shutdown != "brutal_kill":
            self._events += [f"asked {path}", f"end {path} {script.ends}"]

    async def _section(self, step: str, results: list[str]) -> Section:
        events, ended = self._events[:], sorted(self._ended)
        self._events.clear()
        self._ended.clear()
        tables: dict[str, str] = {}
        if self._root is not None and not self._root.ended:
            await self._tables(self._root, tables)
        return Section(step, events, results, ended, [tables[path] for path in sorted(tables)])

    async def _tables(self, supervisor: Any, tables: dict[str, str]) -> None:
        """Read the tables of every supervisor that is idle, and so can answer."""
        path = supervisor.path
        if supervisor.settled:
            tables[path] = f"{path}: {await _which(supervisor)} ({await _count(supervisor)})"
        for child in supervisor.snapshot().children:
            nested = self._supervisor(child.path)
            if nested is not None:
                await self._tables(nested, tables)


async def _which(supervisor: Supervisor | DynamicSupervisor) -> str:
    rows = await supervisor.which_children()
    if isinstance(supervisor, DynamicSupervisor):
        return " ".join(sorted(f"undefined={_state(row.process)}" for row in rows))
    return " ".join(f"{row.id}={_state(row.process)}" for row in rows)


def _state(process: object) -> str:
    if process is None:
        return "undefined"
    return "restarting" if process is RESTARTING else "up"


async def _count(supervisor: Supervisor | DynamicSupervisor) -> str:
    counts = await supervisor.count_children()
    specs = 1 if isinstance(supervisor, DynamicSupervisor) else counts.specs  # SUP-811
    return f"{specs}/{counts.active}/{counts.supervisors}/{counts.workers}"


__all__ = ["SupervisorFailed", "Worker", "play"]
