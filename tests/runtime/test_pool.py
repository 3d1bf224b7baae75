"""Dynamic supervisors at work: children that come and go, and what they refuse."""

from __future__ import annotations

import asyncio

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import Backoff, ChildSpec, DynamicSupervisor, Shutdown, SupervisorSpec
from otpy._runtime.shells import shell_of
from otpy.errors import (
    MaxChildren,
    NotFound,
    NotRunning,
    StartFailed,
)
from otpy.snapshot import Counts
from otpy.testing import MockClock, assert_tree
from tests.runtime.children import Boom, Journal, crash, forever


async def slow(seconds: float, *, task_status: TaskStatus[None]) -> None:
    await asyncio.sleep(seconds)
    task_status.started()
    await forever()


async def broken(*, task_status: TaskStatus[None]) -> None:
    raise Boom


async def test_a_pool_names_its_children(journal: Journal) -> None:
    """Equal ids get a number; each child is found, ended and forgotten by its own name."""
    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        processes = [await pool.start_child(journal.spec("w")) for _ in range(3)]
        assert [p.id for p in processes if p] == ["w", "w#2", "w#3"]
        assert pool.child("w#2") is processes[1]
        assert [info.id for info in await pool.which_children()] == ["w#3", "w#2", "w"]
        await pool.terminate_child("w#2")
        first = processes[0]
        assert first is not None
        await pool.terminate_child(first)
        with pytest.raises(NotFound):
            await pool.terminate_child(first)
        with pytest.raises(NotFound):
            await pool.terminate_child("w#2")
        assert await pool.count_children() == Counts(1, 1, 0, 1)


async def test_a_pool_ends_only_its_own_processes() -> None:
    """A process of another supervisor is unknown here, even under the same id."""
    async with otpy.start(DynamicSupervisor.spec("one")) as one:
        async with otpy.start(DynamicSupervisor.spec("two")) as two:
            mine = await one.start_child(ChildSpec("w", forever))
            other = await two.start_child(ChildSpec("w", forever))
            assert mine is not None
            assert other is not None
            with pytest.raises(NotFound, match="two/w"):
                await one.terminate_child(other)
            assert mine.alive


async def test_a_pool_is_full_at_max_children(clock: MockClock) -> None:
    """A child that waits for a restart counts; a place is free when a child is gone."""
    async with otpy.start(DynamicSupervisor.spec("pool", max_children=2)) as pool:
        await pool.start_child(ChildSpec("a", crash, backoff=Backoff.sequence(50)))
        await pool.start_child(ChildSpec("b", forever))
        await asyncio.sleep(1)
        with pytest.raises(MaxChildren, match=r"^pool: "):
            await pool.start_child(ChildSpec("c", forever))
        await pool.terminate_child("a")
        assert await pool.start_child(ChildSpec("c", forever)) is not None
    async with otpy.start(DynamicSupervisor.spec("none", max_children=0)) as none:
        with pytest.raises(MaxChildren):
            await none.start_child(ChildSpec("c", forever))


async def test_a_slow_start_delays_no_sibling_in_a_pool(clock: MockClock) -> None:
    """Starts run side by side, and a failed start leaves nothing."""
    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        slow_one = asyncio.create_task(pool.start_child(ChildSpec("slow", slow, (10,))))
        await clock.advance(0)
        assert not pool.settled
        assert await pool.start_child(ChildSpec("fast", forever)) is not None
        with pytest.raises(StartFailed):
            await pool.start_child(ChildSpec("bad", broken))
        assert clock.now == 0
        assert_tree(
            pool,
            """
            pool running
            ├─ slow starting
            └─ fast running
            """,
        )
        await slow_one
        assert clock.now == 10
        assert pool.settled


async def test_a_pool_that_ends_answers_everybody(clock: MockClock, journal: Journal) -> None:
    """Starts and stops in progress are finished, later calls refused."""
    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        await pool.start_child(journal.spec("w", 3))
        await clock.advance(0)
        starting = asyncio.create_task(pool.start_child(ChildSpec("s", slow, (2,))))
        ending = [asyncio.create_task(pool.terminate_child("w")) for _ in range(2)]
        await clock.advance(0)
        shell_of(pool).shut_down(Shutdown())
        process = await starting
        assert process is not None
        assert (clock.now, await process.wait()) == (2, Shutdown())
        await asyncio.gather(*ending)
        assert clock.now == 3
        with pytest.raises(NotRunning):
            await pool.start_child(ChildSpec("x", forever))
        with pytest.raises(NotRunning):
            await pool.retry_now("x")


async def test_a_pool_restarts_and_retries_like_anybody(clock: MockClock) -> None:
    """Backoff, `retry_now` and supervisors as children work in a pool too."""

    async def crash_once() -> None:
        if otpy.current().incarnation > 1:
            await forever()
        await asyncio.sleep(1)
        raise Boom

    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        await pool.start_child(ChildSpec("w", crash_once, backoff=Backoff.sequence(50)))
        sub = await pool.start_child(SupervisorSpec("sub", [ChildSpec("x", forever)]))
        assert sub is not None
        assert pool.whereis("pool/sub/x").alive
        await asyncio.sleep(2)
        assert await pool.retry_now("w") is True
        assert await pool.retry_now("w") is False
        with pytest.raises(NotFound):
            await pool.retry_now("nobody")
        assert pool.child("w").incarnation == 2
        assert await pool.count_children() == Counts(2, 2, 1, 1)
