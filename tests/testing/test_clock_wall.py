"""The wall clock: it moves with the loop while the loop runs, and is left alone otherwise."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import anyio
import pytest

from otpy.testing import MockClock, VirtualLoop
from tests.testing.delays import YEAR, year_in

UUID_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)  # RFC 9562, section 5.1


def stamp(identifier: uuid.UUID) -> datetime:
    """Return when a time-based id says it was made."""
    return UUID_EPOCH + timedelta(microseconds=identifier.time // 10)


async def test_it_begins_at_the_start_of_the_clock(clock: MockClock) -> None:
    """Before any time has passed, the calendar shows the clock's `start`."""
    assert datetime.now(UTC) == clock.start
    assert time.time() == clock.start.timestamp()


async def test_it_keeps_in_step(clock: MockClock) -> None:
    """Many small steps add up to the nanosecond."""
    start_ns = round(clock.start.timestamp()) * 10**9
    for _ in range(1000):
        await asyncio.sleep(0.1)
        assert time.time_ns() - start_ns == round(clock.now * 1e9)
    assert datetime.now(UTC) - clock.start == timedelta(seconds=100)


async def test_it_keeps_in_step_over_years(clock: MockClock) -> None:
    """One jump over years is exact to the nanosecond."""
    start_ns = time.time_ns()
    await asyncio.sleep(10 * YEAR + 0.1)
    whole, part = divmod(clock.now, 1)
    assert time.time_ns() - start_ns == int(whole) * 10**9 + round(part * 1e9)
    assert datetime.now(UTC) - clock.start == timedelta(days=3650, seconds=0.1)


async def test_time_based_ids_follow_it(clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """`uuid1()` carries the date that the clock shows, and ids of one moment still differ."""
    monkeypatch.setattr(uuid, "_last_timestamp", None)  # it never goes back, not even between tests
    first, second = uuid.uuid1(), uuid.uuid1()
    assert first != second
    assert stamp(first) == clock.start
    await asyncio.sleep(YEAR)
    assert stamp(uuid.uuid1()) == clock.start + timedelta(days=365)


async def test_the_monotonic_clock_stays_real() -> None:
    """`time.monotonic()` and `time.perf_counter()` measure what a test really takes."""
    began = time.monotonic(), time.perf_counter()
    await asyncio.sleep(YEAR)
    assert 0 <= time.monotonic() - began[0] < 1
    assert 0 <= time.perf_counter() - began[1] < 1


def test_it_is_real_outside_the_loop() -> None:
    """The mocked date ends with each step of the loop, and goes on with the next."""
    before = time.time()
    clock = MockClock(datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC))
    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        assert runner.run(year_in(1)) == 2000
        assert runner.run(year_in(YEAR)) == 2000  # a leap year: one day is missing
        assert before <= time.time() < before + 60
        assert runner.run(year_in(86_400)) == 2001
    assert time.time() >= before


def test_it_is_real_after_a_loop_that_failed() -> None:
    """An exception that breaks out of the loop does not leave the mocked date behind."""
    before = time.time()
    loop = MockClock(datetime(1999, 1, 1, tzinfo=UTC)).loop_factory()
    with closing(loop):
        loop.call_later(1, sys.exit, 3)
        with pytest.raises(SystemExit):
            loop.run_forever()
        assert before <= time.time() < before + 60


def test_a_thread_reads_it_at_every_moment() -> None:
    """No read of a thread fails, even while the mocked date begins or ends in the loop's thread."""
    reads: list[datetime] = []
    failed: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                reads.append(datetime.now(UTC))
            except Exception as error:  # noqa: BLE001 - whatever it is
                failed.append(error)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=read)
    thread.start()
    sys.setswitchinterval(1e-6)
    try:
        with asyncio.Runner(loop_factory=MockClock().loop_factory) as runner:
            for _ in range(1000):
                runner.run(asyncio.sleep(0))
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert reads
    assert failed == []


def test_each_of_several_clocks_shows_its_own_date() -> None:
    """Loops that take turns do not disturb each other, nor does the end of one."""
    before = time.time()
    first = asyncio.Runner(loop_factory=MockClock(datetime(2001, 1, 1, tzinfo=UTC)).loop_factory)
    second = asyncio.Runner(loop_factory=MockClock(datetime(2005, 1, 1, tzinfo=UTC)).loop_factory)
    assert first.run(year_in(0)) == 2001
    assert second.run(year_in(YEAR)) == 2006
    assert first.run(year_in(YEAR)) == 2002
    first.close()
    assert second.run(year_in(YEAR)) == 2007
    second.close()
    assert before <= time.time() < before + 60


def test_a_bare_virtual_loop_leaves_it_alone() -> None:
    """Without a `MockClock`, virtual time passes and the date stays real."""
    before = time.time()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(asyncio.sleep(YEAR))
        assert runner.get_loop().time() == YEAR
        assert before <= time.time() < before + 60


@pytest.mark.parametrize("seconds", [3600, -3600, 0.1, -YEAR])
async def test_a_jump_moves_it_alone(clock: MockClock, seconds: float) -> None:
    """`jump()` sets the wall clock forward or back, and no timer notices."""
    loop = asyncio.get_running_loop()
    real = time.monotonic()
    fired: list[float] = []
    loop.call_at(5, lambda: fired.append(loop.time()))
    await asyncio.sleep(1)
    before = time.time_ns()
    clock.jump(seconds)
    assert time.time_ns() - before == round(seconds * 1e9)
    assert datetime.now(UTC) == clock.start + timedelta(seconds=1 + seconds)
    assert clock.now == loop.time() == anyio.current_time() == 1
    assert 0 <= time.monotonic() - real < 1
    await clock.advance(10)
    assert fired == [5]
    assert datetime.now(UTC) == clock.start + timedelta(seconds=11 + seconds)


def test_jumps_add_up_and_last_as_long_as_the_loop() -> None:
    """A jump outlives the step of the loop it was made in, or was made between, and no new loop."""
    clock = MockClock(datetime(2001, 6, 1, tzinfo=UTC))

    async def jump(seconds: float) -> int:
        clock.jump(seconds)
        return await year_in(0)

    with asyncio.Runner(loop_factory=clock.loop_factory) as runner:
        assert runner.run(jump(YEAR)) == 2002
        clock.jump(YEAR)
        assert runner.run(year_in(0)) == 2003
        assert runner.run(jump(-YEAR)) == 2002
    assert clock.run(year_in(0)) == 2001


@pytest.mark.parametrize("seconds", [math.inf, -math.inf, math.nan])
async def test_a_jump_has_a_length(clock: MockClock, seconds: float) -> None:
    """A jump to no moment is an error, and the wall clock stays."""
    with pytest.raises(ValueError, match="must be finite"):
        clock.jump(seconds)
    assert datetime.now(UTC) == clock.start


def test_a_jump_needs_a_loop() -> None:
    """A clock that drives no loop yet shows no date that could be changed."""
    with pytest.raises(RuntimeError, match="no loop"):
        MockClock().jump(1)


def test_the_start_may_be_in_any_zone() -> None:
    """`start` is a moment, whichever zone it is written in."""
    east = datetime(2031, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert MockClock(east).run(year_in(3599)) == 2030
    assert MockClock(east).run(year_in(3600)) == 2031


def test_the_start_must_have_a_zone() -> None:
    """A naive `start` is refused: it would mean another moment on each machine."""
    with pytest.raises(ValueError, match="time zone"):
        MockClock(datetime(2030, 1, 1))  # noqa: DTZ001 - this is what's refused
