"""A start in flight is finished, even if its supervisor or the child itself is told to end.

AIO-10, SUP-317: this takes the child's `shutdown` limit at most, for every kind of child and
supervisor. The child is then stopped in order, so that its clean-up runs, and the caller that
asked for the start gets the child.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    ExitReason,
    GenServer,
    Process,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._core.spec import DynamicSpec
from otpy._runtime.shells import shell_of
from otpy.errors import StartFailed, SupervisorFailed
from otpy.reports import ChildStartFailed, Report
from otpy.server import Init
from otpy.testing import MockClock
from tests.runtime.children import Boom, forever

Tree: TypeAlias = SupervisorSpec | DynamicSpec

TAKES = 2  # seconds that a start takes
LINES: list[str] = []


async def announced(*, task_status: TaskStatus[None]) -> None:
    LINES.append("begun")
    await asyncio.sleep(TAKES)
    task_status.started()
    try:
        await forever()
    finally:
        LINES.append("cleaned up")


@asynccontextmanager
async def entered() -> AsyncGenerator[None]:
    LINES.append("begun")
    await asyncio.sleep(TAKES)
    try:
        yield
    finally:
        LINES.append("cleaned up")


class Server(GenServer[object, object, None]):
    """A server that starts slowly."""

    async def init(self) -> Init[None]:
        """Start."""
        LINES.append("begun")
        await asyncio.sleep(TAKES)
        return Init(None)

    def terminate(self, reason: ExitReason, state: None) -> None:
        """Clean up."""
        LINES.append("cleaned up")


nested = SupervisorSpec("x", [ChildSpec("announced", announced)])
KINDS = [
    pytest.param(announced, id="task_status"),
    pytest.param(entered, id="context manager"),
    pytest.param(Server, id="server"),
]
SUPERVISORS = [
    pytest.param(SupervisorSpec("sup", intensity=0), id="static"),
    pytest.param(DynamicSupervisor.spec("sup", intensity=0), id="dynamic"),
]
HOOKS = [pytest.param(None, id="default log"), pytest.param((), id="no hooks")]


@pytest.fixture(autouse=True)
def lines() -> list[str]:
    """Return the list in which children record their steps."""
    LINES.clear()
    return LINES


async def begun(sup: Supervisor | DynamicSupervisor, spec: Any) -> asyncio.Task[Process | None]:
    """Begin the start of `spec`, and return it half a second later."""
    starting = asyncio.create_task(sup.start_child(spec))
    await asyncio.sleep(0.5)
    assert LINES == ["begun"]
    return starting


async def is_finished(clock: MockClock, starting: asyncio.Task[Process | None]) -> None:
    """Check that the start succeeds in its own time, and that the child then cleans up."""
    process = await starting
    assert clock.now == TAKES
    assert process is not None
    assert await process.wait() == Shutdown()
    assert (LINES, clock.now) == (["begun", "cleaned up"], TAKES)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("tree", SUPERVISORS)
@pytest.mark.parametrize("kind", KINDS)
async def test_leaving_the_block_lets_a_start_finish(
    clock: MockClock, kind: Any, tree: Tree, hooks: tuple[()] | None
) -> None:
    """The block ends when the child was ready and has cleaned up."""
    async with otpy.start(SupervisorSpec("app", [tree]), hooks=hooks) as app:
        sup = app.child("sup").supervisor
        assert sup is not None
        starting = await begun(sup, ChildSpec("x", kind))
    await is_finished(clock, starting)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("tree", SUPERVISORS)
async def test_giving_up_lets_a_start_finish(
    clock: MockClock, tree: Tree, hooks: tuple[()] | None
) -> None:
    """A sibling that crashes too often ends the supervisor, when the start is over."""
    now = asyncio.Event()

    async def crash() -> None:
        await now.wait()
        raise Boom

    starts: list[asyncio.Task[Process | None]] = []
    with pytest.raises(SupervisorFailed):
        async with otpy.start(tree, hooks=hooks) as sup:
            await sup.start_child(ChildSpec("bad", crash))
            starts.append(await begun(sup, ChildSpec("x", entered)))
            now.set()
            await forever()
    await is_finished(clock, *starts)


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("kind", KINDS)
async def test_terminating_a_child_of_a_pool_lets_its_start_finish(
    clock: MockClock, kind: Any, hooks: tuple[()] | None
) -> None:
    """DYN-13: by its id; a static supervisor handles the request when the start is over."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=hooks) as pool:
        starting = await begun(pool, ChildSpec("x", kind))
        await pool.terminate_child("x")
        await is_finished(clock, starting)
        assert await pool.which_children() == []


@pytest.mark.parametrize("ending", ["stop", "terminate"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_restart_in_flight_is_finished_too(
    clock: MockClock, kind: Any, ending: str
) -> None:
    """The second life begins, becomes ready, and is then stopped."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        process = await pool.start_child(ChildSpec("x", kind))
        assert process is not None
        process.kill()
        await asyncio.sleep(0.5)
        LINES.clear()
        LINES.append("begun")
        await (pool.stop() if ending == "stop" else pool.terminate_child("x"))
    assert (LINES, clock.now) == (["begun", "cleaned up"], 2 * TAKES)


@pytest.mark.parametrize("tree", SUPERVISORS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_that_outlasts_its_limit_is_killed(
    clock: MockClock, kind: Any, tree: Tree
) -> None:
    """The caller learns that the child did not start; there was nothing to clean up."""
    async with otpy.start(tree, hooks=()) as sup:
        starting = await begun(sup, ChildSpec("x", kind, shutdown=1))
        await sup.stop()
        with pytest.raises(StartFailed, match=r"^sup/x: did not start: killed$"):
            await starting
    assert (LINES, clock.now) == (["begun"], 1.5)


@pytest.mark.parametrize("pool", [False, True])
async def test_a_kill_that_the_spec_asks_for_is_no_error(clock: MockClock, *, pool: bool) -> None:
    """A stop cuts the second start of a `BRUTAL_KILL` child short, without an error report."""
    reports: list[Report] = []
    spec = ChildSpec("x", announced, shutdown=otpy.BRUTAL_KILL)
    tree = DynamicSupervisor.spec("sup") if pool else SupervisorSpec("sup")
    async with otpy.start(tree, hooks=[reports.append]) as sup:
        process = await sup.start_child(spec)
        assert process is not None
        process.kill()
        await asyncio.sleep(0.5)
    failed = [report for report in reports if isinstance(report, ChildStartFailed)]
    assert [(report.reason, report.context) for report in failed] == [(otpy.Killed(), None)]
    assert clock.now == TAKES + 0.5


@pytest.mark.parametrize("tree", SUPERVISORS)
async def test_the_start_of_a_supervisor_is_ended_in_order(clock: MockClock, tree: Tree) -> None:
    """Its present start is finished and stopped; the supervisor itself then did not start."""
    async with otpy.start(tree, hooks=()) as sup:
        starting = await begun(sup, nested)
        await sup.stop()
        with pytest.raises(StartFailed, match="shutdown"):
            await starting
    assert (LINES, clock.now) == (["begun", "cleaned up"], TAKES)


async def test_starts_that_wait_their_turn_are_refused_at_once(clock: MockClock) -> None:
    """Only the start in flight is finished: the others would delay the stop."""
    spec = ChildSpec("y", forever, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
        starting = await begun(app, ChildSpec("x", entered))
        waiting = asyncio.create_task(app.start_child(spec))
        await asyncio.sleep(0)
        shell_of(app).shut_down(Shutdown())
        with pytest.raises(otpy.errors.NotRunning):
            await waiting
        assert clock.now == 0.5
        await is_finished(clock, starting)
