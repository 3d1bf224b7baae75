"""How long a stop may take, by the promises of a simulated tree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import otpy
from otpy import INFINITY, ChildSpec, DynamicSupervisor, Process, SupervisorSpec
from otpy._core.spec import ShutdownLimit
from otpy._runtime.process import live_of
from otpy.testing import simulate
from otpy.testing.stop_bound import StopBound
from tests.testing.toy import steady


async def slow(seconds: float, *, task_status: Any) -> None:
    """Take its time to be ready, and to clean up."""
    await asyncio.sleep(seconds)
    task_status.started()
    try:
        await asyncio.sleep(1e6)
    finally:
        await asyncio.sleep(seconds)


@pytest.mark.parametrize(("limit", "seconds"), [(INFINITY, 2 * 66.0), (0.5, 3.5), (300, 2 * 66.0)])
async def test_all_that_runs_has_its_time_within_that_of_its_supervisor(
    limit: ShutdownLimit, seconds: float
) -> None:
    """A supervisor whose own limit is over kills everything below it at once (SUP-715)."""
    workers = [ChildSpec(name, steady, shutdown=60) for name in "ab"]
    below = SupervisorSpec("sub", workers, shutdown=limit)
    async with otpy.start(SupervisorSpec("app", [below]), hooks=()) as root:
        assert StopBound(root).seconds == seconds


async def test_children_of_a_dynamic_supervisor_have_the_same_time() -> None:
    """They are stopped at once, so that the slowest counts, and no other."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as root:
        assert StopBound(root).seconds == 0
        for seconds in (1, 5, 3):
            await root.start_child(ChildSpec("x", steady, shutdown=seconds))
        assert StopBound(root).seconds == 5 + 6


async def test_what_replaces_another_gets_no_time_beside_it() -> None:
    """A child and its replacement under one id count once, with the replacement's time."""
    root: otpy.DynamicSupervisor
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as root:
        bound = StopBound(root)
        for seconds in (2, 3):
            process = await root.start_child(ChildSpec("x", steady, shutdown=seconds))
            assert isinstance(process, Process)
            bound.note(live_of(process))
            assert bound.seconds == seconds + 6
            await root.terminate_child("x")


async def test_a_start_in_progress_has_its_time_too() -> None:
    """A child that is just starting may become ready before it is stopped."""
    specs = [ChildSpec(name, steady, shutdown=1) for name in "ab"]
    async with otpy.start(SupervisorSpec("app", specs), hooks=()) as root:
        starting = asyncio.create_task(root.start_child(ChildSpec("c", slow, (2,), shutdown=4)))
        await asyncio.sleep(1)
        assert StopBound(root).seconds == (1 + 6) + (1 + 6) + (4 + 4 + 6)
        await starting
        assert StopBound(root).seconds == (1 + 6) + (1 + 6) + (4 + 6)


def test_a_child_that_is_started_while_the_tree_stops_has_its_time() -> None:
    """A supervisor whose turn to stop has not come still starts what it is asked for."""

    async def starts_more() -> None:
        pool = otpy.current().root.child("pool").supervisor
        assert isinstance(pool, DynamicSupervisor)
        try:
            await asyncio.sleep(1e6)
        finally:
            await pool.start_child(ChildSpec("late", slow, (15,), shutdown=30))

    pool, late = DynamicSupervisor.spec("pool"), ChildSpec("last", starts_more, shutdown=20)
    assert simulate(SupervisorSpec("app", [pool, late]), seed=1, until=1).time == 1 + 15 + 15
