"""Processes, sockets and the work a `hold()` stands for: the clock does not jump over them."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from otpy.testing import MockClock
from tests.testing.delays import BRIEF, YEAR, stranger


async def test_a_child_process_does_not_lose_against_timers() -> None:
    """A child process ends before a timeout that is longer than it, however it was started."""
    with anyio.fail_after(50):
        result = await anyio.run_process(["sh", "-c", f"sleep {BRIEF}; echo hi"])
    assert result.stdout == b"hi\n"
    async with asyncio.timeout(50):
        shell = await asyncio.create_subprocess_shell(f"sleep {BRIEF}; exit 3")
        assert await shell.wait() == 3


async def test_a_child_process_that_is_too_slow_times_out(clock: MockClock) -> None:
    """A timeout around a child process fires if the process really takes longer."""
    with anyio.move_on_after(BRIEF) as scope:
        await anyio.run_process(["sleep", "60"])
    assert scope.cancelled_caught
    assert clock.now < 50


async def test_a_finished_child_process_does_not_hold_the_clock(clock: MockClock) -> None:
    """A process that has ended is no longer in flight."""
    await (await asyncio.create_subprocess_exec("true")).wait()
    began = time.perf_counter()
    await asyncio.sleep(YEAR)
    assert clock.now >= YEAR
    assert time.perf_counter() - began < 1


async def test_a_process_that_never_started_does_not_hold_the_clock(clock: MockClock) -> None:
    """A program that cannot be started is an error, and nothing is in flight afterwards."""
    with pytest.raises(FileNotFoundError):
        await asyncio.create_subprocess_exec("/there/is/no/such/program")
    began = time.perf_counter()
    await asyncio.sleep(YEAR)
    assert clock.now >= YEAR
    assert time.perf_counter() - began < 1


async def test_a_pool_of_processes_does_not_lose_against_timers(clock: MockClock) -> None:
    """A call in another process is in flight like one in a thread, and an idle pool is not."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        async with asyncio.timeout(50):
            call = asyncio.get_running_loop().run_in_executor(pool, divmod, 7, 2)
            assert await call == (3, 1)
        expected = clock.now + YEAR
        await asyncio.sleep(YEAR)
        assert clock.now == expected


async def test_a_hold_keeps_the_clock_from_jumping(clock: MockClock) -> None:
    """Inside `hold()`, nested or not, the loop waits for work that it does not know."""
    with clock.hold(), clock.hold():
        assert await asyncio.wait_for(stranger(BRIEF), 5) == 7
    began = time.perf_counter()
    await asyncio.sleep(YEAR)
    assert time.perf_counter() - began < 1


async def test_the_inner_hold_does_not_end_the_outer(clock: MockClock) -> None:
    """The clock jumps again only when the last `hold()` has been left."""
    with clock.hold():
        with clock.hold():
            pass
        assert await asyncio.wait_for(stranger(BRIEF), 5) == 7


async def test_a_hold_ends_with_an_error_in_it(clock: MockClock) -> None:
    """An exception leaves the `hold()` behind, and is not swallowed."""
    with pytest.raises(LookupError, match="lost"), clock.hold():
        raise LookupError("lost")
    began = time.perf_counter()
    await asyncio.sleep(YEAR)
    assert time.perf_counter() - began < 1


async def test_a_sleep_inside_a_hold_ends_on_time(clock: MockClock) -> None:
    """A `hold()` takes away the jumps, not the timers."""
    began = time.perf_counter()
    with clock.hold():
        await asyncio.sleep(BRIEF)
    assert clock.now == BRIEF
    assert time.perf_counter() - began > BRIEF / 2


def test_a_hold_needs_a_loop() -> None:
    """A clock that drives no loop yet has nothing to hold."""
    with pytest.raises(RuntimeError, match="no loop"):
        MockClock().hold()


async def test_sockets_do_not_lose_against_timers(clock: MockClock) -> None:
    """An exchange over a local socket takes no time, and an idle socket holds nothing up."""

    async def echo(stream: SocketStream) -> None:
        async with stream:
            async for data in stream:
                await stream.send(data)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, echo)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django
        async with await anyio.connect_tcp("127.0.0.1", port) as client:
            for _ in range(50):
                with anyio.fail_after(1e-6):
                    await client.send(b"x")
                    assert await client.receive() == b"x"
            expected = clock.now + 3600
            await asyncio.sleep(3600)
            assert clock.now == expected
        group.cancel_scope.cancel()
