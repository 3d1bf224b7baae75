"""`advance()`: so much time passes, every timer due by then fires, and no other does."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from otpy.testing import MockClock
from tests.testing.delays import BRIEF, YEAR


async def test_it_ends_exactly_that_much_later(clock: MockClock) -> None:
    """The clock is where it was, plus the seconds asked for, to the last bit."""
    for seconds in (0, 0.1, 0.2, 3600, YEAR):
        expected = clock.now + seconds
        await clock.advance(seconds)
        assert clock.now == expected


async def test_it_runs_what_is_due_in_order_and_nothing_later(clock: MockClock) -> None:
    """Everything due meanwhile runs, each at its own moment, and what is due later waits."""
    moments: list[float] = []

    async def heartbeat(interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            moments.append(clock.now)

    beats = [asyncio.create_task(heartbeat(interval)) for interval in (3, 2, 7.000001)]
    await clock.advance(7)
    assert moments == [2, 3, 4, 6, 6]
    for beat in beats:
        beat.cancel()


async def test_it_runs_all_that_follows_at_its_last_moment(clock: MockClock) -> None:
    """A callback that is ready at the last moment runs, and so does everything it starts."""

    async def chain(links: int) -> int:
        await asyncio.sleep(0)
        return links and await asyncio.create_task(chain(links - 1))

    async def later() -> int:
        await asyncio.sleep(5)
        return await chain(20)

    task = asyncio.create_task(later())
    await clock.advance(5)
    assert task.done()
    assert clock.now == 5


async def test_by_nothing_it_lets_the_ready_run(clock: MockClock) -> None:
    """`advance(0)` runs every task up to where it has to wait, and no time passes."""
    lines: list[str] = []

    async def child() -> None:
        for number in range(10):
            lines.append(f"turn {number}")
            await asyncio.sleep(0)
        await asyncio.sleep(1e-9)
        lines.append("later")

    task = asyncio.create_task(child())
    await clock.advance(0)
    assert lines == [f"turn {number}" for number in range(10)]
    assert clock.now == 0
    await task


async def test_several_tasks_may_advance_at_once(clock: MockClock) -> None:
    """Concurrent calls each end at their own moment; their times do not add up."""
    moments: list[tuple[float, float]] = []

    async def advance(seconds: float) -> None:
        await clock.advance(seconds)
        moments.append((seconds, clock.now))

    await asyncio.gather(*(advance(seconds) for seconds in (10, 5, 5, 0)))
    assert moments == [(0, 0), (5, 5), (5, 5), (10, 10)]
    assert clock.now == 10


async def test_it_does_not_wait_for_threads(clock: MockClock, busy: threading.Event) -> None:
    """It ends on time although a thread is still in flight, and that thread goes on."""
    call = asyncio.create_task(asyncio.to_thread(busy.wait))
    await clock.advance(BRIEF)
    assert clock.now == BRIEF
    assert not call.done()
    busy.set()
    assert await call


async def test_cancelling_it_leaves_the_clock_where_it_is(clock: MockClock) -> None:
    """A call that is cut off does not take back the time that has passed."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(clock.advance(60), 10)
    assert clock.now == 10
    await asyncio.sleep(100)
    assert clock.now == 110


@pytest.mark.parametrize("turns", [1, 2])  # it sleeps; it waits until nothing can run
async def test_cancelling_it_at_any_moment_disturbs_no_other(clock: MockClock, turns: int) -> None:
    """A call that is cut off ends as cancelled, and the next call works as ever."""
    waiting = asyncio.create_task(clock.advance(0))
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    await clock.advance(1)
    assert waiting.cancelled()
    assert clock.now == 1


@pytest.mark.parametrize("seconds", [-1, -1e-9, math.inf, math.nan])
async def test_it_refuses_what_is_no_duration(clock: MockClock, seconds: float) -> None:
    """A span is finite and not negative: any other is an error, and no time passes."""
    with pytest.raises(ValueError, match="seconds must be"):
        await clock.advance(seconds)
    assert clock.now == 0


async def test_it_refuses_the_loop_of_another_clock() -> None:
    """A clock moves only from inside the loop that it drives."""
    with pytest.raises(RuntimeError, match="this clock"):
        await MockClock().advance(1)


@pytest.mark.real_time
async def test_it_refuses_a_real_loop() -> None:
    """Real time cannot be advanced."""
    with pytest.raises(RuntimeError, match="this clock"):
        await MockClock().advance(1)
