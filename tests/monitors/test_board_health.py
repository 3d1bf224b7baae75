from __future__ import annotations

import asyncio
import time

import pytest

from otpy.testing import MockClock
from otpy_monitors import LoopLag, Stalled, health_monitor
from tests.monitors.shown import Scene, Worker, running


async def test_a_stall_is_reported_once_and_in_time(scene: Scene, clock: MockClock) -> None:
    """The first look after the limit reports it, with the silence; later looks say nothing."""
    with scene.showing(Worker(stall=10.0, incarnation=3)):
        async with running(health_monitor(scene.board, scene.report)):
            await clock.advance(9.99)
            assert scene.found == []
            await clock.advance(500)
    assert scene.found == [Stalled("app/pool/a", 3, 10.0, 10.0)]
    assert scene.times == [10.0]


async def test_the_next_life_is_judged_anew(scene: Scene, clock: MockClock) -> None:
    """A worker that was restarted and stalls again is reported again."""
    async with running(health_monitor(scene.board, scene.report)):
        for incarnation in (1, 2):
            worker = Worker(stall=5.0, incarnation=incarnation, pid=incarnation, heard=clock.now)
            with scene.showing(worker):
                await clock.advance(20)
    assert [one.incarnation for one in scene.found if isinstance(one, Stalled)] == [1, 2]


async def test_a_life_that_went_unseen_for_a_moment_is_a_new_one_only_if_it_is(
    scene: Scene, clock: MockClock
) -> None:
    """Two lives of one path and incarnation, as after a restart of the pool, differ by pid."""
    async with running(health_monitor(scene.board, scene.report)):
        for pid in (1, 2):
            with scene.showing(Worker(stall=5.0, pid=pid, heard=clock.now)):
                await clock.advance(20)
    assert len(scene.found) == 2


async def test_silence_of_who_declares_no_limit_means_nothing(
    scene: Scene, clock: MockClock
) -> None:
    """Without `stall` a worker may be silent for ever (C-01)."""
    with scene.showing(Worker()):
        async with running(health_monitor(scene.board, scene.report)):
            await clock.advance(3600)
    assert scene.found == []


async def test_progress_puts_a_stall_off(scene: Scene, clock: MockClock) -> None:
    """Who speaks in time, again and again, is never reported."""
    worker = Worker(stall=5.0)
    with scene.showing(worker):
        async with running(health_monitor(scene.board, scene.report)):
            for _ in range(10):
                await clock.advance(4.9)
                worker.heard = clock.now
            assert scene.found == []
            await clock.advance(5.25)
    assert len(scene.found) == 1


@pytest.mark.real_time
async def test_a_blocked_loop_is_reported_with_its_length(scene: Scene) -> None:
    """AIO-01: code that blocks the loop for 0.6 s shows as a lag; a loop that breathes does not."""
    reported = asyncio.Event()

    def report(finding: LoopLag | object) -> None:
        assert isinstance(finding, LoopLag)
        scene.report(finding)
        reported.set()

    async with running(health_monitor(scene.board, report, interval=0.01)):
        await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251 - blocking the loop is the point
        async with asyncio.timeout(10):
            await reported.wait()
    (lag,) = scene.found
    assert isinstance(lag, LoopLag)
    assert 0.5 < lag.seconds < 5
    assert "blocked for" in str(lag)


@pytest.mark.real_time
async def test_a_late_look_takes_the_lag_off_the_silence(scene: Scene) -> None:
    """A host that was stopped lets its readers go first; who stays silent is reported later."""
    began = asyncio.get_running_loop().time()
    busy, dead = Worker("busy", stall=1.0, heard=began), Worker("dead", stall=1.0, heard=began)
    with scene.showing(busy), scene.showing(dead):
        async with running(health_monitor(scene.board, scene.report, interval=0.05)):
            await asyncio.sleep(0.2)
            time.sleep(1.2)  # noqa: ASYNC251 - as if the process had been stopped
            await asyncio.sleep(0.06)
            assert [type(one) for one in scene.found] == [LoopLag]
            for _ in range(20):
                busy.heard = asyncio.get_running_loop().time()
                await asyncio.sleep(0.05)
    lag, stall = scene.found
    assert isinstance(lag, LoopLag)
    assert isinstance(stall, Stalled)
    assert stall.path == "dead"
    assert stall.quiet < 1.2
