"""Errors and notes of the loop: asyncio's debug mode, tasks that never wait, jumps over reads."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import anyio
import pytest

from otpy.testing import MockClock, NoProgress, virtual_loop
from tests.testing import peer
from tests.testing.conftest import RunTests


@pytest.fixture
async def debugged() -> Any:
    """Switch debug mode on."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    return loop


async def nothing() -> None:
    """End at once."""


async def test_a_timer_needs_something_to_call(debugged: Any) -> None:
    """A forgotten call or `create_task` is found in the test."""
    for wrong in (None, nothing):
        with pytest.raises(TypeError, match="call_at"):
            debugged.call_later(1, wrong)
    with pytest.raises(TypeError, match="run_in_executor"):
        debugged.run_in_executor(None, nothing)
    coroutine = nothing()
    with pytest.raises(TypeError, match="call_at"):
        debugged.call_at(1, coroutine)
    coroutine.close()


async def test_a_timer_is_set_in_the_thread_of_the_loop(debugged: Any) -> None:
    """A timer that another thread sets raises: production would fail on that bug."""
    caught: list[Exception] = []

    def set_timer() -> None:
        try:
            debugged.call_later(1, print)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=set_timer)
    thread.start()
    thread.join()
    assert "Non-thread-safe" in str(*caught)


async def test_a_timer_tells_where_it_was_set(debugged: Any) -> None:
    """The last line is the one that set it, not a line of otpy."""
    for timer in (debugged.call_later(1, print), debugged.call_at(1, print)):
        assert timer._source_traceback[-1].name == "test_a_timer_tells_where_it_was_set"
        timer.cancel()


# --- no progress ----------------------------------------------------------------------------------


def test_a_task_that_never_waits_is_no_silent_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that polls a timer in a loop stops time; the error names the task and its line."""
    monkeypatch.setattr(virtual_loop, "MOST_TURNS", 1000)
    cleaned: list[str] = []

    async def main() -> None:
        done: list[int] = []
        asyncio.get_running_loop().call_later(0.002, done.append, 1)
        try:
            while not done:  # noqa: ASYNC110 - it is the point
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(5)
            cleaned.append("cleaned")

    with pytest.raises(NoProgress, match=r"1000 turns .* 0\.0 s: Task-\d+ always") as caught:
        MockClock().run(main())
    assert "main (" in caught.value.__notes__[0]
    assert cleaned


async def test_who_asks_for_a_thread_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call in flight ends at some time, even while a task keeps polling it."""
    monkeypatch.setattr(virtual_loop, "MOST_TURNS", 100)
    ends = threading.Event()
    call = asyncio.ensure_future(asyncio.to_thread(ends.wait))
    for _ in range(1000):
        await asyncio.sleep(0)
    ends.set()
    while not call.done():  # noqa: ASYNC110 - it is the point
        await asyncio.sleep(0)


async def test_turns_count_only_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any wait, and any moment that passes, resets the count."""
    monkeypatch.setattr(virtual_loop, "MOST_TURNS", 100)
    for _ in range(20):
        for _ in range(90):
            await asyncio.sleep(0)
        await asyncio.sleep(1)


# --- jumps over reads -----------------------------------------------------------------------------


async def with_timeout(reading: Awaitable[bytes]) -> None:
    async with asyncio.timeout(5):
        await reading


async def with_wait_for(reading: Awaitable[bytes]) -> None:
    await asyncio.wait_for(reading, 5)


async def with_fail_after(reading: Awaitable[bytes]) -> None:
    with anyio.fail_after(5):
        await reading


WAYS = [with_timeout, with_wait_for, with_fail_after]


@pytest.mark.parametrize("way", WAYS)
async def test_a_jump_over_a_read_is_noted_where_it_is_raised(
    clock: MockClock, way: Callable[[Awaitable[bytes]], Awaitable[None]]
) -> None:
    """A timeout says that the clock jumped, from where, and what to do."""
    clock.patience = 0
    with peer.tcp_peer(peer.ANSWERS, 1) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"x")
        with pytest.raises(TimeoutError) as caught:
            await way(reader.read(9))
        number = writer.get_extra_info("socket").fileno()
        (note,) = caught.value.__notes__
        assert (
            f"to 5.0 s while a peer outside the loop could have spoken (descriptor {number})"
            in note
        )
        assert "patience" in note
        assert "hold()" in note
        writer.close()
        await writer.wait_closed()
    with pytest.raises(TimeoutError) as caught:
        await asyncio.wait_for(asyncio.Event().wait(), 5)
    assert not hasattr(caught.value, "__notes__")


def test_a_jump_over_a_read_is_noted_on_what_ends_a_run() -> None:
    """A timeout that a library raises itself has the note; one that was really due has none."""

    async def raises(address: tuple[str, int], seconds: float) -> None:
        _, writer = await asyncio.open_connection(*address)
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds, failed.set_exception, TimeoutError())
        try:
            await failed
        finally:
            writer.close()
            await writer.wait_closed()

    with peer.tcp_peer(peer.SWALLOWS) as address, pytest.raises(TimeoutError) as caught:
        MockClock(patience=0.01).run(raises(address, 5))
    assert "patience" in caught.value.__notes__[0]
    with peer.tcp_peer(peer.SWALLOWS) as address, pytest.raises(TimeoutError) as caught:
        MockClock().run(raises(address, 0.01))
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("late", [0, 10])
def test_a_jump_over_a_read_is_noted_on_each_timeout_of_a_group(late: float) -> None:
    """The library raises it itself, and the group later, when time has moved on."""

    async def fetch(address: tuple[str, int]) -> None:
        _, writer = await asyncio.open_connection(*address)
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(5, failed.set_exception, TimeoutError())
        try:
            await failed
        finally:
            writer.close()
            await writer.wait_closed()
            await asyncio.sleep(late)

    async def main(address: tuple[str, int]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fetch(address))

    with peer.tcp_peer(peer.SWALLOWS) as address, pytest.raises(ExceptionGroup) as caught:
        MockClock(patience=0.01).run(main(address))
    (timeout,) = caught.value.exceptions
    assert "patience" in timeout.__notes__[0]


async def test_a_jump_over_an_answer_to_aiohttp_is_noted_where_it_is_raised(
    clock: MockClock,
) -> None:
    """It has a timer of its own, and who catches its timeout sees the note."""
    clock.patience = 0.01
    with peer.tcp_peer(peer.SWALLOWS) as (host, port):
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            with pytest.raises(TimeoutError) as caught:
                await session.get(f"http://{host}:{port}/")
    assert "a peer outside the loop could have spoken" in caught.value.__notes__[0]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
async def test_a_jump_over_a_thread_that_waits_is_noted(clock: MockClock) -> None:
    """A driver in a thread may wait for its peer; `hold()` is named as a way out."""
    clock.patience = 0.01
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1, "driver") as pool:
        answer = pool.submit(ours.recv, 1)
        with pytest.raises(TimeoutError) as caught:
            await asyncio.wait_for(asyncio.wrap_future(answer), 5)
        theirs.send(b"x")
    (note,) = caught.value.__notes__
    assert "to 5.0 s while a thread that waits could have woken the loop (driver_0)" in note
    assert "hold()" in note


@pytest.mark.parametrize("way", ["add_reader", "add_writer"])
async def test_time_flows_beside_a_descriptor_that_is_always_ready(
    clock: MockClock, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in asyncio: a sleep ends although something is there to be read all the time."""
    monkeypatch.setattr(virtual_loop, "_BUSY", 100)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        loop = asyncio.get_running_loop()
        getattr(loop, way)(ours, lambda: None)
        await asyncio.sleep(0.02)
        assert 0.02 <= clock.now < 1
        (loop.remove_reader if way == "add_reader" else loop.remove_writer)(ours)


def test_a_jump_over_a_read_is_noted_on_what_ends_a_test(run_tests: RunTests) -> None:
    """The plugin shows it, too."""
    result = run_tests(
        """
async def test_it(mock_clock):
    import socket
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    failed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(5, failed.set_exception, TimeoutError())
    with ours, theirs:
        try:
            await failed
        finally:
            writer.close()
            await writer.wait_closed()
""",
        asyncio_mode="auto",
    )
    result.stdout.fnmatch_lines(["*mock clock jumped from*"])
