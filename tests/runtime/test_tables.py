"""`which_children` and `count_children`: always true, and never a deadlock for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Process,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from otpy.errors import CallingSelf
from otpy.server import Init
from otpy.snapshot import Counts
from otpy.testing import MockClock
from tests.runtime.children import forever


class Echo(GenServer[object, object, None]):
    """A server that does nothing."""

    def init(self) -> None:
        """Start."""


async def announcing(*, task_status: TaskStatus[None]) -> None:
    task_status.started()
    await forever()


async def slow_to_leave() -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(1)


LOG = pytest.param(None, id="default log")
NOBODY = pytest.param((), id="no hooks")


@pytest.mark.parametrize("hooks", [LOG, NOBODY])
@pytest.mark.parametrize("start", [forever, announcing, Echo], ids=["plain", "announced", "server"])
@pytest.mark.parametrize("strategy", Strategy)
async def test_a_table_that_waited_behind_a_restart_lists_who_was_started(
    clock: MockClock, strategy: Strategy, start: Callable[..., Any], hooks: tuple[()] | None
) -> None:
    """SUP-810, SUP-811: it lists the children that run at the time of the reply, as active."""
    children = [ChildSpec(name, start) for name in "acd"]
    children.insert(1, ChildSpec("b", slow_to_leave))
    tree = SupervisorSpec("app", children, strategy=strategy)
    async with otpy.start(tree, hooks=hooks) as app:
        await clock.advance(0)
        app.child("b").kill()
        app.child("a").kill()
        await clock.advance(0.5)  # in a group restart, b is being stopped
        listed, counted = await asyncio.gather(app.which_children(), app.count_children())
        assert [info.process for info in listed] == [app.child(name) for name in "dcba"]
        assert counted == Counts(4, 4, 0, 4)


@pytest.mark.parametrize("hooks", [LOG, NOBODY])
@pytest.mark.parametrize("operation", ["start_child", "restart_child"])
async def test_a_table_that_waited_behind_a_start_by_hand_lists_the_child(
    operation: str, hooks: tuple[()] | None
) -> None:
    """This holds even when the supervisor handles both in one turn, after a slow operation."""
    tree = SupervisorSpec("app", [ChildSpec("old", slow_to_leave), ChildSpec("x", forever)])
    async with otpy.start(tree, hooks=hooks) as app:
        await app.terminate_child("x")
        busy = asyncio.create_task(app.terminate_child("old"))
        await asyncio.sleep(0.5)
        new = ChildSpec("new", forever)
        start = app.restart_child("x") if operation == "restart_child" else app.start_child(new)
        started = asyncio.create_task(start)
        await asyncio.sleep(0)
        first = (await app.which_children())[0]
        assert first.process is await started
        await busy


async def test_a_table_shows_who_stood_there_when_its_turn_came(clock: MockClock) -> None:
    """Later work of the supervisor, in the same turn, is not in the table."""
    tree = SupervisorSpec("app", [ChildSpec("old", slow_to_leave), ChildSpec("x", forever)])
    async with otpy.start(tree, hooks=()) as app:
        first = app.child("x")
        busy = asyncio.create_task(app.terminate_child("old"))
        await clock.advance(0.5)
        before = asyncio.create_task(app.which_children())
        await asyncio.sleep(0)
        first.kill()
        await asyncio.sleep(0)
        after = asyncio.create_task(app.which_children())
        await busy
        assert (await before)[0].process is first
        assert (await after)[0].process is app.child("x") is not first


ASKED: list[Callable[[Supervisor], Awaitable[object]]] = [
    lambda above: above.which_children(),
    lambda above: above.count_children(),
    lambda above: above.get_childspec("c"),
    lambda above: above.terminate_child("c"),
    lambda above: above.retry_now("c"),
]


@pytest.mark.parametrize("ask", ASKED, ids=["which", "count", "get", "terminate", "retry"])
@pytest.mark.parametrize("kind", ["task_status", "context manager", "server", "helper task"])
async def test_a_child_that_starts_cannot_ask_who_waits_for_it(
    ask: Callable[[Supervisor], Awaitable[object]], kind: str
) -> None:
    """SUP-318, AIO-17: its supervisor and those above would wait for the reply for ever."""
    refused: list[str] = []

    async def ask_all() -> None:
        process: Process | None = otpy.current()
        while process is not None:
            above = process.parent
            assert isinstance(above, Supervisor)
            with pytest.raises(CallingSelf, match=r"call it after task_status.started\(\)"):
                await ask(above)
            refused.append(above.path)
            process = above.process

    async def child(*, task_status: TaskStatus[None]) -> None:
        await (asyncio.create_task(ask_all()) if kind == "helper task" else ask_all())
        task_status.started()
        await forever()

    class Entered(AbstractAsyncContextManager[None]):
        async def __aenter__(self) -> None:
            await ask_all()

        async def __aexit__(self, *_: object) -> None:
            pass

    class Server(GenServer[object, object, None]):
        async def init(self) -> Init[None]:
            await ask_all()
            return Init(None)

    kinds: dict[str, Any] = {"context manager": Entered, "server": Server}
    spec = ChildSpec("c", kinds.get(kind, child))
    async with otpy.start(SupervisorSpec("app", [SupervisorSpec("in", [spec])]), hooks=()):
        assert refused == ["app/in", "app"]


async def test_who_is_ready_may_ask_while_those_above_start(clock: MockClock) -> None:
    """Its supervisor no longer waits for it; the reply comes when those above have started."""
    told: list[float] = []

    async def asks() -> None:
        below = otpy.current().parent
        assert isinstance(below, Supervisor)
        await below.which_children()
        await otpy.current().root.count_children()
        told.append(clock.now)
        await forever()

    async def slow(*, task_status: TaskStatus[None]) -> None:
        await asyncio.sleep(3)
        task_status.started()
        await forever()

    inner = SupervisorSpec("in", [ChildSpec("asks", asks), ChildSpec("slow", slow)])
    async with otpy.start(SupervisorSpec("app", [inner]), hooks=()):
        await clock.advance(0)
        assert told == [3]


async def test_a_child_of_a_pool_may_ask_it_while_it_starts() -> None:
    """A dynamic supervisor waits for no start, but only a ready child may end itself through it."""
    counted: list[Counts] = []

    async def child(*, task_status: TaskStatus[None]) -> None:
        pool = otpy.current().parent
        assert isinstance(pool, DynamicSupervisor)
        counted.append(await pool.count_children())
        for itself in ("c", otpy.current()):
            with pytest.raises(CallingSelf):
                await pool.terminate_child(itself)
        task_status.started()
        await forever()

    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        await pool.start_child(ChildSpec("c", child))
        assert len(counted) == 1
