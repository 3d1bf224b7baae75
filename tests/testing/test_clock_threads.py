"""Threads: the clock never jumps over a call in flight, and times one out only in real time."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from otpy.testing import MockClock, VirtualLoop, virtual_loop
from otpy.testing.anyio_threads import any_at_work
from tests.testing.delays import BRIEF, YEAR, slow, stranger


async def test_threads_do_not_lose_against_timers() -> None:
    """A call in a thread ends before a timeout that is longer than it, however it was made."""
    async with asyncio.timeout(5):
        calls = [asyncio.to_thread(slow, number, number * BRIEF / 2) for number in range(3)]
        assert await asyncio.gather(*calls) == [0, 1, 2]
    for abandon in (False, True):
        with anyio.fail_after(5):
            assert await anyio.to_thread.run_sync(slow, abandon_on_cancel=abandon) == 7


async def test_a_call_that_ends_while_the_clock_looks_counts(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop has polled, the thread reports and waits again, and then the clock looks at it."""
    may_end = threading.Event()

    def look(loop: asyncio.AbstractEventLoop) -> bool:
        may_end.set()
        patience = time.monotonic() + 5
        while any_at_work(loop) and time.monotonic() < patience:
            time.sleep(0.001)  # until the thread waits for work again
        return any_at_work(loop)

    monkeypatch.setattr(virtual_loop, "any_at_work", look)
    async with asyncio.timeout(YEAR):
        await anyio.to_thread.run_sync(may_end.wait)
    assert clock.now < BRIEF


async def test_an_exception_comes_back_from_a_thread() -> None:
    """A call that fails raises in the loop, and holds the clock no longer."""
    with pytest.raises(ValueError, match="sleep length"):
        await asyncio.to_thread(slow, seconds=-1)
    with pytest.raises(ValueError, match="sleep length"):
        await anyio.to_thread.run_sync(slow, 7, -1)
    began = time.perf_counter()
    await asyncio.sleep(YEAR)
    assert time.perf_counter() - began < 1


async def test_a_thread_can_wait_for_the_loop(clock: MockClock) -> None:
    """A thread may ask the loop for something that takes time, and gets its answer."""
    loop = asyncio.get_running_loop()

    def ask() -> int:
        return asyncio.run_coroutine_threadsafe(asyncio.sleep(BRIEF, 7), loop).result(5)

    async with asyncio.timeout(5):
        assert await asyncio.to_thread(ask) == 7
        await anyio.to_thread.run_sync(anyio.from_thread.run, anyio.sleep, BRIEF)
    assert 2 * BRIEF <= clock.now < 5


async def test_the_loop_takes_an_executor_of_its_users() -> None:
    """Calls in a pool of one's own, as default or by name, are in flight like any other."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as default, ThreadPoolExecutor(1) as other:
        loop.set_default_executor(default)
        async with asyncio.timeout(5):
            assert await loop.run_in_executor(None, slow, 1) == 1
            assert await loop.run_in_executor(other, slow, 2) == 2
        assert len(default._threads) == 1


async def test_the_clock_flows_at_real_speed_around_a_thread(clock: MockClock) -> None:
    """While a thread works, as much time passes in the loop as outside it, and no more."""
    began = time.monotonic()
    await asyncio.to_thread(slow)
    assert 0 < clock.now <= time.monotonic() - began


@pytest.mark.parametrize("deadline", [YEAR, 1000 * YEAR])
async def test_a_far_deadline_does_not_hinder_a_thread(clock: MockClock, deadline: float) -> None:
    """The loop can wait for a thread although its next timer is further away than it can count."""
    async with asyncio.timeout(deadline):
        assert await asyncio.to_thread(slow) == 7
    assert clock.now < 5


async def test_a_thread_that_is_too_slow_times_out(busy: threading.Event) -> None:
    """A timeout around a thread fires exactly on time if the thread really takes longer."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(BRIEF):
            await asyncio.to_thread(busy.wait)
    assert MockClock.current().now == BRIEF
    with pytest.raises(TimeoutError), anyio.fail_after(BRIEF):
        await anyio.to_thread.run_sync(busy.wait, abandon_on_cancel=True)


async def test_an_abandoned_thread_still_holds_the_clock(busy: threading.Event) -> None:
    """A thread still works after its call was cancelled, so the clock must not jump."""
    call = asyncio.ensure_future(asyncio.to_thread(busy.wait))
    await MockClock.current().advance(0)
    call.cancel()
    began = time.perf_counter()
    await asyncio.sleep(BRIEF)
    assert time.perf_counter() - began > BRIEF / 2


@pytest.mark.parametrize("steps", range(6))
async def test_a_call_that_was_cancelled_before_it_began_does_not_hold_the_clock(
    steps: int,
) -> None:
    """Before 4.16 anyio never counts its thread as idle again; the clock jumps all the same."""
    call = anyio.to_thread.run_sync(time.sleep, 0.0, abandon_on_cancel=True)
    calling = asyncio.create_task(call)
    for _ in range(steps):  # one of them is the moment after the call was handed to the thread
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait({calling})
    await asyncio.sleep(YEAR)
    assert await anyio.to_thread.run_sync(int, "7") == 7


async def test_an_idle_thread_does_not_hold_the_clock(clock: MockClock) -> None:
    """Threads that wait in their pools for the next call are not in flight."""
    await asyncio.to_thread(slow, seconds=0)
    await anyio.to_thread.run_sync(slow, 7, 0)
    began = time.perf_counter()
    await asyncio.sleep(YEAR)
    assert clock.now >= YEAR
    assert time.perf_counter() - began < 1


async def test_unknown_threads_get_a_moment_before_each_jump(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread unknown to the loop may report before the clock jumps past it."""
    monkeypatch.setattr(virtual_loop, "GRACE", 10)
    assert await asyncio.wait_for(stranger(BRIEF), 5) == 7


def test_the_time_to_join_threads_is_not_jumped_over() -> None:
    """A loop that closes waits for its threads as long as they really need."""
    clock = MockClock()
    pool = ThreadPoolExecutor(1)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(pool)

    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        runner.run(main())
        answer = pool.submit(slow)
    assert answer.result(timeout=0) == 7
    assert clock.now < 50  # asyncio allows 300


async def test_joining_threads_waits_for_those_that_end_in_time(clock: MockClock) -> None:
    """A thread that ends in the real seconds it is given is joined, without a warning."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    call = loop.run_in_executor(None, slow)
    await loop.shutdown_default_executor(5)
    assert call.done()
    assert await call == 7
    assert clock.now < 5


@pytest.mark.skipif(
    sys.version_info < (3, 12, 3),
    reason="Python always waits: github.com/python/cpython/pull/115641",
)
async def test_joining_threads_takes_no_longer_than_allowed(busy: threading.Event) -> None:
    """A thread that does not end in the real seconds it is given is left behind, with a warning."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    call = loop.run_in_executor(None, busy.wait)
    with pytest.warns(RuntimeWarning, match="did not finish"):
        await loop.shutdown_default_executor(BRIEF)
    assert not call.done()
    busy.set()
    assert await call


def test_a_call_may_end_after_its_loop_was_closed(caplog: pytest.LogCaptureFixture) -> None:
    """An abandoned call that outlives the loop ends in peace: nothing is raised or logged."""
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        loop = MockClock().loop_factory()
        call = loop.run_in_executor(pool, free.wait)
        call.cancel()
        loop.close()
        with caplog.at_level(logging.DEBUG):
            free.set()
            pool.shutdown()
    assert caplog.records == []
