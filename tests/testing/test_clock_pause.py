"""A paused clock: time stands until the test moves it, by a span or to the next timer."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

import anyio
import pytest

from otpy.testing import Deadlock, MockClock
from tests.testing.delays import BRIEF, blocked, slow, stranger


async def tick(moments: list[float], interval: float) -> None:
    """Append the current time after each `interval`."""
    while True:
        await asyncio.sleep(interval)
        moments.append(MockClock.current().now)


def test_a_paused_clock_never_moves_by_itself() -> None:
    """A task that sleeps on a paused clock gets an error that says so, instead of waking up."""

    async def main() -> None:
        MockClock.current().pause()
        await asyncio.sleep(5)

    with pytest.raises(Deadlock, match=r"at 0\.0 s.*clock is paused.* next .* due at 5\.0 s"):
        MockClock().run(main())


def test_a_deadlock_without_timers_does_not_blame_the_pause() -> None:
    """If moving the clock would not help, the message does not propose it."""

    async def main() -> None:
        MockClock.current().pause()
        await blocked()

    with pytest.raises(Deadlock, match=r"^(?!.*paused)"):
        MockClock().run(main())


async def test_advance_moves_a_paused_clock_as_far_as_asked(clock: MockClock) -> None:
    """Timers due within the seconds fire at their moments, and then time stands again."""
    moments: list[float] = []
    beat = asyncio.create_task(tick(moments, 2))
    clock.pause()
    await clock.advance(5)
    assert moments == [2, 4]
    await asyncio.to_thread(slow)
    assert clock.now == 5
    beat.cancel()


async def test_several_may_advance_a_paused_clock(clock: MockClock) -> None:
    """Concurrent calls each end at their own moment, and time stops at the latest."""
    clock.pause()
    moments: list[float] = []

    async def advance(seconds: float) -> None:
        await clock.advance(seconds)
        moments.append(clock.now)

    await asyncio.gather(*(advance(seconds) for seconds in (10, 5, 0)))
    assert moments == [0, 5, 10]


async def test_a_cancelled_advance_moves_a_paused_clock_no_further(clock: MockClock) -> None:
    """After the cancellation the clock stands at its current time."""
    clock.pause()
    advancing = asyncio.create_task(clock.advance(60))
    asyncio.get_running_loop().call_later(10, advancing.cancel)
    with pytest.raises(asyncio.CancelledError):
        await advancing
    await asyncio.to_thread(slow)
    assert clock.now == 10


async def test_time_stands_for_a_thread_too(clock: MockClock) -> None:
    """A paused clock waits for work in a thread, known or not, without any time passing."""
    clock.pause()
    async with asyncio.timeout(BRIEF / 10):
        assert await asyncio.to_thread(slow) == 7
        assert await stranger(BRIEF) == 7
    with clock.hold():
        assert await stranger(BRIEF) == 7
    assert clock.now == 0


async def test_advance_flows_while_a_thread_is_in_flight(
    clock: MockClock, busy: threading.Event
) -> None:
    """Paused or not, `advance` does not jump over work in flight, and does not wait for it."""
    call = asyncio.create_task(asyncio.to_thread(busy.wait))
    await asyncio.sleep(0)
    clock.pause()
    await clock.advance(BRIEF)
    assert clock.now == BRIEF
    assert not call.done()
    busy.set()
    assert await call


async def test_timeouts_fire_when_the_clock_is_moved(clock: MockClock) -> None:
    """A timeout of asyncio or anyio on a paused clock fires at its moment, not before."""
    clock.pause()

    async def asyncios() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await blocked()
        return clock.now

    async def anyios() -> float:
        with pytest.raises(TimeoutError), anyio.fail_after(4):
            await blocked()
        return clock.now

    waiting = asyncio.gather(asyncios(), anyios())
    await clock.advance(2)
    assert not waiting.done()
    await clock.advance(2)
    assert list(await waiting) == [3, 4]


async def test_after_resume_time_moves_by_itself_again(clock: MockClock) -> None:
    """`resume()` ends the pause, and does no harm without one; `paused` says which it is."""
    assert not clock.paused
    clock.pause()
    assert clock.paused
    clock.resume()
    clock.resume()
    assert not clock.paused
    await asyncio.sleep(3600)
    assert clock.now == 3600


async def test_a_step_goes_to_the_next_timer(clock: MockClock) -> None:
    """Each step ends at the next moment at which anything is due, and all of it has run then."""
    clock.pause()
    moments: list[float] = []
    beats = [asyncio.create_task(tick(moments, interval)) for interval in (2, 3)]
    assert [await clock.step() for _ in range(4)] == [2, 3, 4, 6]
    assert moments == [2, 3, 4, 6, 6]
    for beat in beats:
        beat.cancel()
    assert await clock.step() is None
    assert clock.now == 6


async def test_a_step_runs_first_what_is_ready(clock: MockClock) -> None:
    """A task that was just made may set its timer before the step looks for the next one."""
    sleeping = asyncio.create_task(asyncio.sleep(7))
    asyncio.get_running_loop().call_later(9, print)
    assert await clock.step() == 7
    assert sleeping.done()


@pytest.mark.parametrize("prepare", [MockClock.pause, MockClock.resume])
async def test_a_step_skips_what_is_never_due(
    clock: MockClock, prepare: Callable[[MockClock], None]
) -> None:
    """Cancelled timers and an endless sleep are no moments to go to."""
    prepare(clock)
    loop = asyncio.get_running_loop()
    loop.call_later(1, pytest.fail).cancel()
    endless = asyncio.create_task(asyncio.sleep(math.inf))
    assert await clock.step() is None
    due = loop.call_later(2, print)
    loop.call_later(1, pytest.fail).cancel()
    assert await clock.step() == 2
    assert not due.cancelled()
    endless.cancel()


async def test_a_step_needs_the_loop_of_its_clock() -> None:
    """A clock steps only from inside the loop that it drives."""
    with pytest.raises(RuntimeError, match=r"step\(\) works only inside"):
        await MockClock().step()


def test_a_pause_needs_a_loop() -> None:
    """A clock that drives no loop yet has nothing to pause, and is not paused."""
    clock = MockClock()
    assert not clock.paused
    for move in (clock.pause, clock.resume):
        with pytest.raises(RuntimeError, match="no loop"):
            move()


def test_a_pause_ends_with_its_loop() -> None:
    """Clean-up after a paused run has time, and the next run of the clock begins unpaused."""
    clock = MockClock()
    cleaned: list[float] = []

    async def child() -> None:
        try:
            await blocked()
        finally:
            await asyncio.sleep(5)
            cleaned.append(clock.now)

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(child())
        await clock.advance(1)
        clock.pause()
        return task

    assert clock.run(main()).cancelled()
    assert cleaned == [6]
    clock.run(asyncio.sleep(3))
    assert clock.now == 3


def test_of_several_open_loops_the_running_one_is_meant() -> None:
    """A clock that has made a second loop still means the first one inside it."""
    clock = MockClock()

    async def look(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return clock.now

    with asyncio.Runner(loop_factory=clock.loop_factory) as first:
        assert first.run(look(5)) == 5
        with asyncio.Runner(loop_factory=clock.loop_factory) as second:
            assert second.run(look(1)) == 1
            assert first.run(look(5)) == 10
            assert clock.now == 1
