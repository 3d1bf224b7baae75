"""A tree in a child of another tree: it ends with the child, and is killed with it."""

from __future__ import annotations

import asyncio

import pytest

import otpy
from otpy import ChildSpec, Killed, Restart, Shutdown, SupervisorSpec
from otpy.reports import ChildAbandoned, ChildStopped
from otpy.testing import MockClock, Recording


async def slow() -> None:
    """Take a minute to end."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(60)


async def host(inner: Recording, shutdown: float) -> None:
    """Run an inner tree."""
    spec = SupervisorSpec("inner", [ChildSpec("slow", slow, shutdown=shutdown)])
    async with otpy.start(spec, hooks=[inner]):
        await asyncio.get_running_loop().create_future()


@pytest.fixture
def inner() -> Recording:
    """Return a recording for the reports of the inner tree."""
    return Recording()


def outer(inner: Recording, shutdown: float = 120) -> SupervisorSpec:
    child = ChildSpec("host", host, (inner, 100), restart=Restart.TEMPORARY, shutdown=shutdown)
    return SupervisorSpec("outer", [child])


async def test_stopped_in_order_it_takes_its_time(
    clock: MockClock, reports: Recording, inner: Recording
) -> None:
    """The children of the inner tree have their full limits."""
    async with otpy.start(outer(inner), hooks=[reports]):
        await asyncio.sleep(1)
    assert clock.now == 61
    assert reports.one(ChildStopped).reason == Shutdown()
    assert inner.one(ChildStopped).reason == Shutdown()


@pytest.mark.parametrize("asked_before", [False, True])
async def test_killed_with_its_child_it_ends_within_the_second_of_a_kill(
    clock: MockClock, reports: Recording, inner: Recording, asked_before: bool
) -> None:
    """The child is not abandoned because of its tree, whether that sleeps or stops in order."""
    async with otpy.start(outer(inner), hooks=[reports]) as root:
        process = root.child("host")
        await asyncio.sleep(1)
        if asked_before:
            process.exit()
            await asyncio.sleep(1)
        began = clock.now
        process.kill()
        assert await process.wait() == Killed()
        assert clock.now - began < 1
    assert reports.of(ChildAbandoned) == ()
    assert inner.one(ChildStopped).path == "inner/slow"


async def test_a_child_whose_time_is_over_takes_its_tree_along(
    clock: MockClock, reports: Recording, inner: Recording
) -> None:
    """The child's limit counts, not the limits below."""
    async with otpy.start(outer(inner, shutdown=10), hooks=[reports]):
        await asyncio.sleep(1)
    assert 11 <= clock.now < 12
    assert reports.of(ChildAbandoned) == ()
    assert reports.one(ChildStopped).reason == Killed()


async def test_a_killed_root_takes_trees_in_its_children_along(
    clock: MockClock, reports: Recording, inner: Recording
) -> None:
    """The second Ctrl-C under `otpy.run` does the same."""
    async with otpy.start(outer(inner), hooks=[reports]) as root:
        await asyncio.sleep(1)
        stopping = asyncio.create_task(root.stop())
        await asyncio.sleep(5)
        root.kill(grace=0)
        await stopping
        assert clock.now < 7
    assert reports.of(ChildAbandoned) == ()
