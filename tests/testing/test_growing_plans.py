"""Faults that are added to a plan while its trees run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

import otpy
from otpy import ChildSpec, DynamicSupervisor, InvalidSpec, Restart, SupervisorSpec
from otpy.reports import ChildExited
from otpy.testing import Fault, FaultPlan, Injected, MockClock, Recording, faults
from tests.runtime.children import Boom, forever
from tests.runtime.conftest import logs, reports

__all__ = ["logs", "reports"]


async def seconds() -> None:
    for _ in range(1000):
        await asyncio.sleep(1)


@asynccontextmanager
async def running(
    *children: ChildSpec, reports: Recording
) -> AsyncGenerator[tuple[otpy.Supervisor, Injected]]:
    """A tree in a block that grows, 2.5 seconds old."""
    with FaultPlan().active(growing=True) as injected:
        async with otpy.start(SupervisorSpec("app", children), hooks=[reports]) as root:
            await asyncio.sleep(2.5)
            yield root, injected


def exits(reports: Recording) -> list[tuple[float, str, str]]:
    return [(r.time, r.path, str(r.reason)) for r in reports.of(ChildExited)]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.crash("app/a", Boom("x")), "crashed: Boom: x"),
        (faults.cancel("app/a"), "killed"),
        (faults.return_early("app/a"), "normal"),
    ],
)
async def test_it_strikes_what_is_awaited_right_now(
    reports: Recording, fault: Fault, reason: str
) -> None:
    """A fault may be added after the child began; it hits that child, and the others live on."""
    children = ChildSpec("a", forever), ChildSpec("b", forever)
    async with running(*children, reports=reports) as (root, injected):
        injected.add(fault)
        await root.wait_for_restart("a", after=1)
        assert [(hit.time, hit.fault) for hit in injected.hits] == [(2.5, fault)]
    assert exits(reports) == [(2.5, "app/a", reason)]


async def test_what_it_counts_begins_when_it_is_added(reports: Recording) -> None:
    """Earlier awaits and seconds do not count."""
    children = ChildSpec("a", seconds), ChildSpec("b", seconds)
    async with running(*children, reports=reports) as (_, injected):
        injected.add(faults.crash("app/a", Boom("x"), nth=2))
        injected.add(faults.crash("app/b", Boom("y"), after=5.0))
        await asyncio.sleep(10)
    assert exits(reports) == [
        (3.0, "app/a", "crashed: Boom: x"),
        (7.5, "app/b", "crashed: Boom: y"),
    ]


async def test_it_holds_for_the_next_start_and_the_next_stop(reports: Recording) -> None:
    """A fault also holds for a child that did not exist when the fault was added."""
    pool = DynamicSupervisor.spec("pool")
    with FaultPlan().active(growing=True) as injected:
        async with otpy.start(pool, hooks=[reports]) as root:
            injected.add(faults.slow_ready("pool/job", 3.0))
            injected.add(faults.hang("pool/job"))
            job = ChildSpec("job", seconds, restart=Restart.TEMPORARY, shutdown=2)
            await root.start_child(job)
            await asyncio.sleep(4)
            (job_process,) = injected.workers
            job_process.exit()
            assert str(await job_process.wait()) == "killed"
            assert injected.workers == ()
    assert [(hit.time, hit.fault.kind) for hit in injected.hits] == [
        (0.0, "slow_ready"),
        (4.0, "hang"),
    ]


async def test_a_life_that_has_not_begun_is_hit_as_soon_as_it_waits(reports: Recording) -> None:
    """The life exists, and its first step is still to come."""
    with FaultPlan().active(growing=True) as injected:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("a", seconds)]), hooks=[reports]):
            injected.add(faults.crash("app/a", Boom("x")))
            await asyncio.sleep(5)
    assert exits(reports) == [(0.0, "app/a", "crashed: Boom: x")]


async def test_only_a_block_that_grows_takes_more(clock: MockClock) -> None:
    """It takes faults only while it is entered, and never a jump of the clock."""
    for growing in (False, True):
        injected = FaultPlan().active(growing=growing)
        with pytest.raises(RuntimeError, match="growing=True"):
            injected.add(faults.cancel("app/a"))
    with FaultPlan().active(growing=True) as injected:
        with pytest.raises(InvalidSpec, match=r"MockClock\.jump"):
            injected.add(faults.clock_jump(5))
    with pytest.raises(RuntimeError, match="growing=True"):
        injected.add(faults.cancel("app/a"))


@pytest.mark.real_time
async def test_a_kill_finds_the_processes_that_run_already(reports: Recording) -> None:
    """The process was started before the kill was planned."""
    started = asyncio.Event()

    async def runner() -> int:
        code = "import time; time.sleep(60)"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        started.set()
        raise SystemExit(await process.wait())

    spec = SupervisorSpec("app", [ChildSpec("a", runner, restart=Restart.TEMPORARY)])
    with FaultPlan().active(growing=True) as injected:
        async with otpy.start(spec, hooks=[reports]) as root:
            await asyncio.wait_for(started.wait(), 30)
            process = root.child("a")
            injected.add(faults.kill_process("app/a"))
            assert str(await asyncio.wait_for(process.wait(), 30)) == "crashed: SystemExit: -9"
            assert len(injected.hits) == 1
