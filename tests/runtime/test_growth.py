"""Costs grow in proportion to the work: twice as many children cost twice as much."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, Self

import pytest

import otpy
from otpy import (
    AutoShutdown,
    ChildSpec,
    DynamicSupervisor,
    Restart,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from otpy._core.child import Child
from otpy._core.rules import group_of
from otpy.testing import MockClock
from tests.runtime.children import crash, forever

FEW = 100


class Instructions:
    """A counter of executed Python instructions, which do not depend on the machine's speed."""

    def __init__(self) -> None:
        self.number = 0
        self._before = sys.gettrace()  # coverage may be tracing

    def __enter__(self) -> Self:
        # Python 3.12 reports instructions after the first such frame, from the next trace on.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, _: str, __: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._count

    def _count(self, _: FrameType, event: str, __: Any) -> Any:
        self.number += event == "opcode"
        return self._count


async def _growth(work: Callable[[int, Instructions], Awaitable[None]]) -> float:
    """Return the factor by which the work grows from `FEW` to twice as many."""
    counts: list[int] = []
    for number in (FEW, 2 * FEW):
        counted = Instructions()
        await work(number, counted)
        counts.append(counted.number)
    return counts[1] / counts[0]


@asynccontextmanager
async def _app(number: int, **more: Any) -> AsyncGenerator[Supervisor]:
    children = [ChildSpec(f"c{n}", forever) for n in range(number)]
    tree = SupervisorSpec("app", children, intensity=10**6, **more)
    async with otpy.start(tree, hooks=()) as app:
        yield app


async def test_who_waits_for_one_restart_is_not_woken_by_others(clock: MockClock) -> None:
    """Each of many callers waits for the restart of another child."""

    async def work(number: int, counted: Instructions) -> None:
        async with _app(number) as app:
            waits = [app.wait_for_restart(f"c{n}", after=1) for n in range(number)]
            tasks = [asyncio.ensure_future(wait) for wait in waits]
            await asyncio.sleep(0)
            with counted:
                for n in range(number):
                    app.child(f"c{n}").kill()
                    await tasks[n]

    assert await _growth(work) < 2.4


async def test_significant_children_end_one_after_the_other(clock: MockClock) -> None:
    """An end does not cost a look at all the others, in whatever order they end."""
    for backwards in (False, True):

        async def work(number: int, counted: Instructions, *, backwards: bool = backwards) -> None:
            children = [
                ChildSpec(f"c{n}", forever, restart=Restart.TRANSIENT, significant=True)
                for n in range(number)
            ]
            shutdown = AutoShutdown.ALL_SIGNIFICANT
            tree = SupervisorSpec("app", children, auto_shutdown=shutdown)
            async with otpy.start(tree, hooks=()) as app:
                order = range(number - 1)
                with counted:
                    for n in reversed(order) if backwards else order:
                        app.child(f"c{n}").exit()
                        await app.child(f"c{n}").wait()
                assert app.running

        assert await _growth(work) < 2.4


async def test_significant_children_come_and_go_in_a_pool(clock: MockClock) -> None:
    """Children that are gone cost nothing more, even while the first of all lives on."""

    async def work(number: int, counted: Instructions) -> None:
        shutdown = AutoShutdown.ALL_SIGNIFICANT
        role: Any = {"restart": Restart.TEMPORARY, "significant": True}
        pool = DynamicSupervisor.spec("pool", auto_shutdown=shutdown)
        async with otpy.start(pool, hooks=()) as app:
            await app.start_child(ChildSpec("first", forever, **role))
            with counted:
                for _ in range(number):
                    process = await app.start_child(ChildSpec("c", forever, **role))
                    assert process is not None
                    process.exit()
                    await process.wait()
            assert app.running

    assert await _growth(work) < 2.4


async def test_supervisors_that_failed_and_stay_cost_later_events_nothing(
    clock: MockClock,
) -> None:
    """The reasons of their failures are kept, but not searched."""

    async def work(number: int, counted: Instructions) -> None:
        below = [ChildSpec("boom", crash)]
        children = [
            SupervisorSpec(f"s{n}", below, intensity=0, restart=Restart.TRANSIENT)
            for n in range(number)
        ]
        async with _app(0, auto_shutdown=AutoShutdown.NEVER) as app:
            for spec in children:
                await app.start_child(spec)
            await asyncio.sleep(1)
            with counted:
                for n in range(number):
                    await app.start_child(ChildSpec(f"c{n}", forever))

    assert await _growth(work) < 2.4


async def test_a_spec_is_looked_up(clock: MockClock) -> None:
    """A query for one child's spec does not build a table of all children."""

    async def work(number: int, counted: Instructions) -> None:
        async with _app(number) as app:
            with counted:
                for _ in range(10):
                    await app.get_childspec("c0")

    assert await _growth(work) < 1.2


async def test_a_pool_forgets_one_by_one(clock: MockClock) -> None:
    """A child that ends is removed from the table without a search, wherever it stands."""

    async def work(number: int, counted: Instructions) -> None:
        async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
            spec = ChildSpec("c", forever, restart=Restart.TEMPORARY)
            children = [await app.start_child(spec) for _ in range(number)]
            with counted:
                for child in children:
                    assert child is not None
                    child.exit()
                    await child.wait()

    assert await _growth(work) < 2.4


async def test_many_who_wait_for_one_process_may_leave(clock: MockClock) -> None:
    """Each caller is cancelled on its own, without a search among the others."""

    async def work(number: int, counted: Instructions) -> None:
        async with _app(1) as app:
            waits = [asyncio.ensure_future(app.child("c0").wait()) for _ in range(number)]
            await asyncio.sleep(0)
            with counted:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    assert await _growth(work) < 2.4


class Counted(dict[str, Child]):
    """A child table that counts how many children are visited from its end."""

    looked = 0

    def values(self) -> Any:
        """Return the children."""
        table, children = self, [*super().values()]

        class View:
            def __reversed__(self) -> Iterator[Child]:
                for child in reversed(children):
                    table.looked += 1
                    yield child

        return View()


@pytest.mark.parametrize("number", [10, 1000])
def test_the_rest_of_the_last_child_is_found_without_the_others(number: int) -> None:
    """`rest_for_one` starts its search at the end of the table."""
    children = [Child(ChildSpec(f"c{n}", forever), f"c{n}") for n in range(number)]
    table = Counted({child.key: child for child in children})
    assert group_of(children[-2], table, Strategy.REST_FOR_ONE) == children[-2:]
    assert table.looked == 2


async def test_the_loop_turns_while_very_many_children_start(clock: MockClock) -> None:
    """A list of thousands starts in slices, and so does a group."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await asyncio.sleep(0)
    async with _app(5_500, strategy=Strategy.ONE_FOR_ALL) as app:
        assert turns > 5
        for child in range(5_000):
            app.child(f"c{child}").kill()  # nearly all at once, or the group would stop one by one
        turns = 0
        await app.wait_for_restart("c5499", after=1)
        assert turns > 5
    counting.cancel()


async def test_a_stop_between_two_slices_stops_what_has_been_started(clock: MockClock) -> None:
    """Children that had not started never start."""
    begun, enough = 0, asyncio.Event()

    async def begins() -> None:
        nonlocal begun
        begun += 1
        if begun == 1_500:
            enough.set()
        await forever()

    tree = SupervisorSpec("app", [ChildSpec(f"c{n}", begins) for n in range(5_000)])
    async with otpy.start(SupervisorSpec("top"), hooks=()) as top:
        adding = asyncio.ensure_future(top.start_child(tree))
        await enough.wait()
        top.child("app").kill()
        await asyncio.wait([adding])
    assert 1_500 <= begun < 5_000
    assert adding.exception() is not None
