"""The clock and the loop it drives: how to find it, who may run it, and its foundations."""

from __future__ import annotations

import asyncio
import inspect
import threading
from asyncio import sslproto
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import anyio
import anyio.to_thread
import pytest
from anyio._backends import _asyncio as anyio_asyncio
from anyio.lowlevel import _run_vars

import otpy.testing
from otpy.testing import MockClock, VirtualLoop
from tests.testing.delays import slow


def test_what_is_not_there_is_said_to_be_missing() -> None:
    """The package imports its names late, and an unknown name is an `AttributeError`."""
    misspelt = "MokcClock"
    with pytest.raises(AttributeError, match=r"'otpy\.testing' has no attribute 'MokcClock'"):
        getattr(otpy.testing, misspelt)


def test_a_clock_without_a_loop_shows_zero() -> None:
    """A clock can be read before it drives anything."""
    assert MockClock().now == 0.0


async def test_it_can_be_found_from_inside(clock: MockClock) -> None:
    """Code that was not given the clock finds it through the running loop, in any task."""

    async def find() -> MockClock:
        return MockClock.current()

    assert await asyncio.create_task(find()) is clock


@pytest.mark.real_time
async def test_a_real_loop_has_no_clock() -> None:
    """On a real loop `current()` raises, and creates no clock."""
    with pytest.raises(RuntimeError, match="no mock clock"):
        MockClock.current()


async def test_a_bare_virtual_loop_has_no_clock() -> None:
    """A `VirtualLoop` without a `MockClock` has none to be found."""

    def look() -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(find())

    async def find() -> None:
        with pytest.raises(RuntimeError, match="no mock clock"):
            MockClock.current()

    await asyncio.to_thread(look)


def test_outside_any_loop_there_is_no_clock() -> None:
    """Without a running loop `current()` raises."""
    with pytest.raises(RuntimeError, match="no running event loop"):
        MockClock.current()


def test_it_works_under_anyio_run() -> None:
    """`anyio.run` takes the loop as an option of its backend."""
    clock = MockClock()
    options = {"loop_factory": clock.loop_factory}
    anyio.run(anyio.sleep, 3600, backend_options=options)
    assert clock.now == 3600


def test_it_works_in_the_runner_of_anyios_pytest_plugin() -> None:
    """Tests that run under anyio's plugin have virtual time too, each from the start."""
    clock = MockClock()
    options = {"loop_factory": clock.loop_factory}
    for _ in range(2):
        with anyio_asyncio.backend_class.create_test_runner(options) as runner:
            runner.run_test(anyio.sleep, {"delay": 3600})
        assert clock.now == 3600


async def test_it_takes_no_calls_once_its_executor_is_shut_down() -> None:
    """As in asyncio, a loop whose threads are gone refuses to start another."""
    loop = asyncio.get_running_loop()
    await loop.shutdown_default_executor()
    with pytest.raises(RuntimeError, match="shutdown"):
        _ = loop.run_in_executor(None, print)


async def test_its_timers_can_be_compared_with_those_of_asyncio() -> None:
    """A timer is ordered by its moment among timers of any kind."""
    loop = asyncio.get_running_loop()
    timer = loop.call_at(5, pytest.fail)
    assert timer < asyncio.TimerHandle(6, pytest.fail, (), loop)
    assert not timer < asyncio.TimerHandle(4, pytest.fail, (), loop)
    timer.cancel()


async def test_the_private_names_still_mean_what_they_did() -> None:
    """Each private name of asyncio and anyio that the loop stands on is there, and works."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    with closing(asyncio.SelectorEventLoop()) as plain:
        assert {"_scheduled", "_clock_resolution"} <= vars(plain).keys()
    timer = loop.call_later(5, print)
    assert timer in loop._scheduled
    assert "_scheduled" in vars(asyncio.TimerHandle)  # a slot
    timer.cancel()
    assert vars(loop)["_timer_cancelled_count"] == 1  # it looked at the slot
    sleeping = asyncio.create_task(asyncio.sleep(5))
    await asyncio.sleep(0)
    (timer,) = (timer for timer in loop._scheduled if not timer.cancelled())
    assert vars(asyncio.futures)["_set_result_unless_cancelled"] is timer._callback  # type: ignore[attr-defined]
    sleeping.cancel()
    for kind in ("socket", "ssl", "datagram"):
        method = getattr(asyncio.SelectorEventLoop, f"_make_{kind}_transport")
        assert [*inspect.signature(method).parameters][1] in {"sock", "rawsock"}
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    reading = asyncio.create_task(reader.read())
    assert reader._waiter is None  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    assert isinstance(reader._waiter, asyncio.Future)  # type: ignore[attr-defined]
    assert getattr(protocol, "_stream_reader") is reader  # noqa: B009 - typeshed has it not
    reading.cancel()
    assert "_app_protocol" in inspect.getsource(sslproto.SSLProtocol)
    await anyio.to_thread.run_sync(slow, 7, 0)
    workers = _run_vars[loop][anyio_asyncio._threadpool_workers]
    assert set(_run_vars[loop][anyio_asyncio._threadpool_idle_workers]) == workers
    with ThreadPoolExecutor(1) as pool:
        pool.submit(slow, seconds=0).result()
        assert [isinstance(thread, threading.Thread) for thread in pool._threads] == [True]
