"""Cancelling the host of a tree: the tree stops in reverse and the cancellation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import ChildSpec, Restart, SupervisorSpec
from otpy.reports import Report, ReportHook
from otpy.testing import MockClock
from tests.runtime.children import Boom, Journal, crash, forever, turns

NAMES = ("a", "b", "c")


async def two_step_child(journal: Journal, name: str, *, task_status: TaskStatus[None]) -> None:
    """Take a few turns to start, and a few to stop."""
    try:
        await turns(2)
        journal.lines.append(f"+{name}")
        task_status.started()
        await forever()
    finally:
        try:
            await turns(2)
        finally:
            journal.lines.append(f"-{name}")


def check_order(journal: Journal) -> None:
    """Check that each started child has stopped, and that the stops are in reverse."""
    started = [line[1:] for line in journal.lines if line[0] == "+"]
    stopped = [line[1:] for line in journal.lines if line[0] == "-"]
    assert started == list(NAMES[: len(started)])
    assert [name for name in stopped if name in started] == started[::-1]
    assert len(stopped) == len(set(stopped))


async def host(journal: Journal, body: int, *hooks: ReportHook) -> None:
    children = [ChildSpec(name, two_step_child, (journal, name)) for name in NAMES]
    async with otpy.start(SupervisorSpec("app", children), hooks=hooks or None):
        await turns(body)


async def deaf_host(journal: Journal, body: int, *hooks: ReportHook) -> None:
    """Be a host whose body swallows its cancellation."""
    children = [ChildSpec(name, two_step_child, (journal, name)) for name in NAMES]
    short = ChildSpec("short", turns, (5,), restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [*children, short]), hooks=hooks):
        with suppress(asyncio.CancelledError):
            await turns(body)


@pytest.mark.parametrize("hosting", [host, deaf_host])
@pytest.mark.parametrize("report", range(1, 8))
async def test_an_exit_out_of_a_hook_is_raised_after_the_stop_at_any_turn(
    clock: MockClock, report: int, hosting: Callable[..., Coroutine[Any, Any, None]]
) -> None:
    """The tree starts, runs or stops, and the host may be cancelled at the same time."""
    before = asyncio.all_tasks()
    for k in range(40):
        journal, reports, raised = Journal(), count(1), list[SystemExit]()

        def hook(_: Report) -> None:
            if next(reports) == report:  # noqa: B023 - it is called in this round only
                raise SystemExit(report)

        async def ends(journal: Journal = journal, hook: ReportHook = hook) -> None:
            try:
                await hosting(journal, 30, hook)
            except SystemExit as error:
                raised.append(error)  # noqa: B023 - as above
            assert asyncio.all_tasks() == {*before, asyncio.current_task()}

        task = asyncio.create_task(ends())
        await turns(k)
        task.cancel()
        await asyncio.wait([task])
        check_order(journal)
        assert [error.code for error in raised] == [report] * (next(reports) > report)
        assert task.cancelled() or task.exception() is None


@pytest.mark.parametrize("again", [0, 1, 3])
async def test_a_host_may_be_cancelled_at_any_turn(clock: MockClock, again: int) -> None:
    """AIO-09: after every turn k of the loop, one or more cancellations leave no task behind."""
    before = asyncio.all_tasks()
    ended_before = 0
    for k in range(60):
        journal = Journal()
        task = asyncio.create_task(host(journal, 10))
        await turns(k)
        told = task.cancel()
        for _ in range(again):
            await turns(1)
            task.cancel()
        await asyncio.wait([task], timeout=60)
        assert task.done(), k
        assert task.cancelled() is told, k
        ended_before += not told
        check_order(journal)
        if not told:
            assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]
        await turns(1)
        assert asyncio.all_tasks() == before, k
    assert 0 < ended_before < 40
    assert clock.now == 0


async def test_cancelling_the_host_while_it_starts(clock: MockClock, journal: Journal) -> None:
    """The child that is starting is cancelled, the others stop in reverse."""

    async def slow(*, task_status: TaskStatus[None]) -> None:
        await asyncio.sleep(3)
        task_status.started()
        await journal.child("slow")

    children = [journal.spec("a"), journal.spec("b"), ChildSpec("slow", slow), journal.spec("z")]

    async def start() -> None:
        async with otpy.start(SupervisorSpec("app", children)):
            pytest.fail("the body must not run")

    task = asyncio.create_task(start())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert clock.now == 1
    assert journal.lines == ["+a", "+b", "-b", "-a"]


async def test_cancelling_the_host_again_does_not_hurry_the_stop(
    clock: MockClock, journal: Journal
) -> None:
    """Every clean-up gets its time, however often the host is cancelled."""

    async def run() -> None:
        async with otpy.start(SupervisorSpec("app", [journal.spec(n, 2) for n in NAMES])):
            await forever()

    task = asyncio.create_task(run())
    await asyncio.sleep(1)
    for _ in range(10):
        task.cancel()
        await asyncio.sleep(0.25)
    await asyncio.wait([task])
    assert task.cancelled()
    assert clock.now == 7
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_cancelled_scope_around_the_tree_stops_it(
    clock: MockClock, journal: Journal
) -> None:
    """Anyio's cancellation is level-triggered: it must neither hurry the stop nor spin."""
    steps = 0

    async def count() -> None:
        nonlocal steps
        while True:
            await asyncio.sleep(0.5)
            steps += 1

    counter = asyncio.create_task(count())
    async with anyio.create_task_group() as group:

        async def run() -> None:
            async with otpy.start(SupervisorSpec("app", [journal.spec(n, 2) for n in NAMES])):
                await forever()

        group.start_soon(run)
        await asyncio.sleep(1)
        group.cancel_scope.cancel()
    counter.cancel()
    assert clock.now == 7
    assert 12 <= steps <= 14
    assert group.cancel_scope.cancelled_caught
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_sibling_that_fails_stops_the_tree_beside_it(journal: Journal) -> None:
    """A tree in a task group behaves like any other member."""

    async def run() -> None:
        async with otpy.start(journal.tree(*NAMES)):
            await forever()

    with pytest.raises(ExceptionGroup) as caught:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await turns(3)
            group.start_soon(crash)
    assert caught.group_contains(Boom)
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]


@pytest.mark.parametrize("timeout", [anyio.fail_after, asyncio.timeout])
async def test_timeouts_around_the_block(
    clock: MockClock, journal: Journal, timeout: type[asyncio.Timeout]
) -> None:
    """Both kinds end the block after a stop in order, as `TimeoutError`."""
    with pytest.raises(TimeoutError):
        if timeout is asyncio.timeout:
            async with asyncio.timeout(3):
                async with otpy.start(journal.tree(*NAMES)):
                    await forever()
        else:
            with anyio.fail_after(3):
                async with otpy.start(journal.tree(*NAMES)):
                    await forever()
    assert clock.now == 3
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_body_that_uses_a_cancelled_scope_of_its_own(journal: Journal) -> None:
    """The tree does not react to a scope inside the body."""
    async with otpy.start(journal.tree("a")) as app:
        with anyio.move_on_after(1) as scope:
            await forever()
        assert scope.cancelled_caught
        assert app.running


async def test_leaving_inside_a_cancelled_scope(clock: MockClock, journal: Journal) -> None:
    """The scope was cancelled without a wait in the body, and the stop is still in order."""
    with anyio.CancelScope() as scope:
        async with otpy.start(SupervisorSpec("app", [journal.spec(n, 1) for n in NAMES])):
            await turns(2)
            scope.cancel()
    assert clock.now == 3
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]
