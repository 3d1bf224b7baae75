"""The orders that a simulated loop shows, and those it never shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from otpy.testing import SeededClock
from otpy.testing.simulated_loop import SimulatedLoop

SEEDS = range(100)

Program = Callable[[list[object]], Coroutine[Any, Any, object]]


def orders(program: Program) -> set[tuple[object, ...]]:
    """Return every order in which `program` filled its list."""
    seen: set[tuple[object, ...]] = set()
    for seed in SEEDS:
        order: list[object] = []
        SeededClock(seed).run(program(order))
        seen.add(tuple(order))
    return seen


async def note(order: list[object], value: object, after: Awaitable[object]) -> None:
    """Append `value` when `after` is over."""
    await after
    order.append(value)


def test_private_names_mean_what_we_think() -> None:
    """Asyncio appends handles to `_ready`, and a task's steps are recognised by their callback."""
    loop = SeededClock(1).loop_factory()
    try:
        assert loop._ready is loop.schedule

        async def main() -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(1)

        loop.run_until_complete(loop.create_task(main(), name="x"))
        assert loop.schedule.record == [0.0, "x", "x", 1.0, "x"]  # begins, goes on, is woken
        loop.call_soon(print)
        assert len(loop.schedule) == 1
    finally:
        loop.close()
    assert len(loop.schedule) == 0


# --- what may differ -----------------------------------------------------------------------------


def test_tasks_that_wait_for_one_event_go_on_in_any_order() -> None:
    """Nothing promises which of the tasks woken by one event is first."""

    async def program(order: list[object]) -> None:
        event = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for value in range(3):
                group.create_task(note(order, value, event.wait()))
            await asyncio.sleep(1)
            event.set()

    assert len(orders(program)) == 6


def test_timers_of_the_same_moment_run_in_any_order() -> None:
    """Asyncio calls their order undefined."""

    async def program(order: list[object]) -> None:
        loop = asyncio.get_running_loop()
        for value in range(3):
            loop.call_later(1, order.append, value)
        await asyncio.sleep(2)

    assert len(orders(program)) == 6


def test_a_task_can_be_late_by_many_turns() -> None:
    """While one task waits for its turn, another may take dozens."""

    async def program(order: list[object]) -> None:
        turns = 0

        async def spin() -> None:
            nonlocal turns
            while turns < 100:
                turns += 1
                await asyncio.sleep(0)

        spinning = asyncio.create_task(spin())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        order.append(turns)
        await spinning

    turns = [order[0] for order in orders(program)]
    assert any(isinstance(t, int) and t > 50 for t in turns)
    assert any(isinstance(t, int) and t <= 3 for t in turns)


# --- what never differs --------------------------------------------------------------------------


def test_plain_callbacks_are_first_in_first_out() -> None:
    """`call_soon` keeps its documented order, also from several tasks and a done callback."""

    async def program(order: list[object]) -> None:
        def write(value: int, _: asyncio.Future[None]) -> None:
            order.append(value)

        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        for value in range(3):
            future.add_done_callback(partial(write, value))
            loop.call_soon(order.append, value + 10)
        future.set_result(None)
        loop.call_soon(order.append, 20)
        await asyncio.sleep(1)

    assert orders(program) == {(10, 11, 12, 0, 1, 2, 20)}


def test_a_callback_runs_before_every_task_that_was_woken_after_it() -> None:
    """A done callback has run when a task that waited for the same future goes on."""

    async def program(order: list[object]) -> None:
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: order.append("callback"))
        waiting = asyncio.create_task(note(order, "task", future))
        await asyncio.sleep(1)
        future.set_result(None)
        await waiting

    assert orders(program) == {("callback", "task")}


def test_tasks_begin_in_the_order_they_were_created_in() -> None:
    """A first step is never late, and comes before callbacks that were scheduled after it."""

    async def program(order: list[object]) -> None:
        async def begin(value: int) -> None:
            order.append(value)

        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(begin(value)) for value in range(3)]
        loop.call_soon(order.append, "callback")
        await asyncio.gather(*tasks)
        await asyncio.sleep(1)

    assert orders(program) == {(0, 1, 2, "callback")}


def test_timers_run_in_the_order_of_their_deadlines() -> None:
    """A difference of a nanosecond decides."""

    async def program(order: list[object]) -> None:
        loop = asyncio.get_running_loop()
        for value in (3, 1, 2):
            loop.call_at(1 + value * 1e-9, order.append, value)
        await asyncio.sleep(2)

    assert orders(program) == {(1, 2, 3)}


def test_nobody_is_late_in_seconds() -> None:
    """The clock stands until everything that is ready has run."""

    async def program(order: list[object]) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(asyncio.sleep(1))
        order.append(loop.time())

    assert orders(program) == {(1.0,)}


def test_methods_of_a_task_are_plain_callbacks() -> None:
    """`call_soon(task.cancel)` is no step of the task, although it is bound to it."""

    async def program(order: list[object]) -> None:
        def tell(_: asyncio.Task[None]) -> None:
            order.append("told")

        loop = asyncio.get_running_loop()
        victim = asyncio.create_task(asyncio.sleep(9))
        await asyncio.sleep(1)
        loop.call_soon(victim.add_done_callback, tell)
        loop.call_soon(victim.cancel)
        loop.call_soon(order.append, "after")
        await asyncio.sleep(1)

    assert orders(program) == {("after", "told")}


def test_tasks_of_a_factory_keep_asyncios_order() -> None:
    """A task factory that the program has set is respected; its tasks are never late."""

    async def program(order: list[object]) -> None:
        def make(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
            return asyncio.Task(coro, loop=loop, **kwargs)

        asyncio.get_running_loop().set_task_factory(make)
        event = asyncio.Event()
        tasks = [asyncio.create_task(note(order, n, event.wait())) for n in range(3)]
        assert {type(task) for task in tasks} == {asyncio.Task}
        await asyncio.sleep(1)
        event.set()
        await asyncio.wait(tasks)

    assert orders(program) == {(0, 1, 2)}


def test_a_closed_loop_makes_no_task() -> None:
    """Such a loop raises, as asyncio's own does."""
    loop: SimulatedLoop = SeededClock(1).loop_factory()
    loop.close()
    coro = asyncio.sleep(1)
    with pytest.raises(RuntimeError, match="closed"):
        _ = loop.create_task(coro)
    coro.close()
