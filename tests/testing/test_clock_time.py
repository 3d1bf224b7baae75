"""Time in the loop: it passes at once, stops exactly where it should, and keeps every order."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from otpy.testing import MockClock
from tests.testing.delays import YEAR, blocked


async def test_time_starts_at_zero(clock: MockClock) -> None:
    """A new loop begins at exactly 0.0 seconds."""
    assert clock.now == asyncio.get_running_loop().time() == 0


async def test_ten_years_of_sleep_take_no_time(clock: MockClock) -> None:
    """Ten years of sleep pass at once, and every clock of the loop agrees on their length."""
    began = time.perf_counter()
    assert MockClock.current() is clock
    await asyncio.sleep(10 * YEAR)
    assert clock.now == asyncio.get_running_loop().time() == anyio.current_time() == 10 * YEAR
    assert time.perf_counter() - began < 1


async def test_a_thousand_restarts_with_backoff_take_no_time(clock: MockClock) -> None:
    """Code that fails, backs off and tries again for weeks is done at once."""
    began = time.perf_counter()
    expected = 0.0
    for attempt in range(1000):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await blocked()
        pause = min(2.0**attempt, 3600)
        await asyncio.sleep(pause)
        expected += 5 + pause
    assert clock.now == expected
    assert time.perf_counter() - began < 5


async def test_time_stands_still_while_anything_can_run(clock: MockClock) -> None:
    """The clock never moves past a task that is ready."""
    timer = asyncio.create_task(asyncio.sleep(1))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert clock.now == 0
    await timer


async def test_sleeps_end_exactly_when_they_should(clock: MockClock) -> None:
    """A sleep ends at its own moment to the last bit, not a rounding error beside it."""
    for seconds in (0.1, 0.2, 1e-12, 3600, 1 / 3, YEAR):
        expected = clock.now + seconds
        await asyncio.sleep(seconds)
        assert clock.now == expected


async def test_neighbouring_deadlines_are_not_lumped_together(clock: MockClock) -> None:
    """Two deadlines that differ in the last bit are two moments."""
    moments: list[float] = []
    for when in (0.1 + 0.2, 0.3):
        asyncio.get_running_loop().call_at(when, lambda: moments.append(clock.now))
    await clock.advance(1)
    assert moments == [0.3, 0.1 + 0.2]


async def test_equal_deadlines_keep_their_order() -> None:
    """Timers for the same moment fire in the order they were set in."""
    order: list[int] = []
    for number in range(500):
        asyncio.get_running_loop().call_at(1, order.append, number)
    await asyncio.sleep(2)
    assert order == list(range(500))


async def test_a_deadline_in_the_past_is_due_now(clock: MockClock) -> None:
    """A timer for a moment that has passed fires, and the clock does not go back for it."""
    await asyncio.sleep(10)
    moments: list[float] = []
    asyncio.get_running_loop().call_at(3, lambda: moments.append(clock.now))
    await clock.advance(0)
    assert moments == [10]


@pytest.mark.parametrize("cancelled", [1, 500])
async def test_the_clock_never_visits_a_cancelled_timer(
    cancelled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes straight to the next timer that was not cancelled."""
    visited: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time_moved", lambda: visited.append(loop.time()))
    for number in range(cancelled):
        loop.call_later(1 + number / 1000, pytest.fail).cancel()
    await asyncio.sleep(10)
    assert visited == [10]


async def test_every_kind_of_timeout_fires_on_time(clock: MockClock) -> None:
    """The timeouts of asyncio and of anyio follow the clock."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await blocked()
    assert clock.now == 30
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(blocked(), 30)
    assert clock.now == 60
    with pytest.raises(TimeoutError), anyio.fail_after(30):
        await anyio.Event().wait()
    assert clock.now == 90
    with anyio.move_on_after(30) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert clock.now == 120
