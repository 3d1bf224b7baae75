"""Deadlines that share one timer of the loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import copy_context
from operator import itemgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otpy._runtime.deadlines import Deadlines, Line
from otpy.testing import MockClock
from tests.examples import examples


class Waiter:
    """A waiter that records when its time was over."""

    def __init__(self, name: int, told: list[tuple[int, float]]) -> None:
        self.name, self.told = name, told

    def overdue(self) -> None:
        self.told.append((self.name, asyncio.get_running_loop().time()))


def timers() -> list[asyncio.TimerHandle]:
    """Return the timers of the running loop."""
    loop: Any = asyncio.get_running_loop()
    scheduled: list[asyncio.TimerHandle] = loop._scheduled
    return [timer for timer in scheduled if not timer.cancelled()]


def made() -> Deadlines:
    """Return deadlines of the running loop."""
    return Deadlines(asyncio.get_running_loop(), copy_context())


async def test_many_share_one_timer_and_each_is_exact(clock: MockClock) -> None:
    """This includes a deadline that is earlier than those set before it."""
    deadlines, told = made(), list[tuple[int, float]]()
    for name, seconds in enumerate([5.0, 3.0, 7.0, 3.0, 0.0]):
        deadlines.set(seconds, Waiter(name, told))
        assert len(timers()) == 1
    await clock.advance(10)
    assert told == [(4, 0), (1, 3), (3, 3), (0, 5), (2, 7)]
    assert timers() == []


async def test_who_is_done_is_not_told_and_not_kept(clock: MockClock) -> None:
    """No timer is set for a waiter that is gone."""
    deadlines, told = made(), list[tuple[int, float]]()
    early, late = Waiter(1, told), Waiter(2, told)
    kept = weakref.ref(early)
    deadlines.set(2, early).meet(early)
    line = deadlines.set(4, late)
    del early
    gc.collect()
    assert kept() is None
    await clock.advance(3)
    assert [timer.when() for timer in timers()] == [4]
    await clock.advance(3)
    assert told == [(2, 4)]
    line.meet(late)
    assert not deadlines._lines


async def test_few_lines_are_kept_in_which_nobody_stands(clock: MockClock) -> None:
    """This holds however different the times of the waiters are."""
    deadlines, told = made(), list[tuple[int, float]]()
    deadlines.set(1, Waiter(0, told))
    for name in range(1, 1000):
        waiter = Waiter(name, told)
        deadlines.set(5 + name, waiter).meet(waiter)
        assert len(deadlines._lines) <= 66
        assert len(deadlines._heap) <= 66
    assert len(timers()) == 1
    await clock.advance(2000)
    assert told == [(0, 1)]
    assert not deadlines._lines
    assert timers() == []


async def test_what_lies_at_the_front_of_a_line_is_taken_away(clock: MockClock) -> None:
    """Otherwise each deadline of a long line would step over all earlier ones."""
    deadlines, told, count = made(), list[tuple[int, float]](), 1000
    line = deadlines.set(5000, Waiter(0, told))
    for name in range(1, count):
        await clock.advance(1)
        deadlines.set(5000, Waiter(name, told))
    before, rebuilt = line.waiting, 0
    await clock.advance(5000 - count)  # one second before the first
    for _ in range(count):
        rebuilt += line.waiting is not before
        before = line.waiting
        await clock.advance(1)
    assert [name for name, _ in told] == [*range(count)]
    assert 20 < rebuilt < 200


@settings(max_examples=examples(100), derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "meet", "wait"]), st.sampled_from([0.0, 0.5, 1.0, 3.0])),
        max_size=300,
    )
)
def test_whoever_still_waits_is_told_on_time(acts: list[tuple[str, float]]) -> None:
    """Each is told exactly once and on time; equal times keep their order; no other is told."""
    clock = MockClock()
    loop = clock.loop_factory()

    async def history() -> None:
        deadlines, told = made(), list[tuple[int, float]]()
        waiting: dict[int, tuple[float, Line, Waiter]] = {}
        wanted: list[tuple[int, float]] = []
        lengths = {name: seconds for name, (_, seconds) in enumerate(acts)}
        for name, (act, seconds) in enumerate(acts):
            if act == "set":
                waiter = Waiter(name, told)
                line = deadlines.set(seconds, waiter)
                waiting[name] = clock.now + seconds, line, waiter
            elif act == "meet" and waiting:
                _, line, waiter = waiting.pop(list(waiting)[int(seconds * 2) % len(waiting)])
                line.meet(waiter)
            elif act == "wait":
                await clock.advance(seconds)
                due = [name for name, (when, _, _) in waiting.items() if when <= clock.now]
                wanted += [(name, waiting.pop(name)[0]) for name in due]
            assert sorted(told) == sorted(wanted)
            assert told == sorted(told, key=itemgetter(1))
            for length in lengths.values():
                names = [name for name, _ in told if lengths[name] == length]
                assert names == sorted(names)
            assert len(timers()) <= 1
            assert len(timers()) >= bool(waiting)

    try:
        loop.run_until_complete(history())
    finally:
        loop.close()
