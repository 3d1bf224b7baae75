"""Deadlines that share one timer of the loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import copy_context
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpy._runtime.deadlines import Deadline, Deadlines
from otpy.testing import MockClock


class Waiter:
    """Writes down when its time was over."""

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
    """Also one that is earlier than those that were there before."""
    deadlines, told = made(), list[tuple[int, float]]()
    for name, seconds in enumerate([5.0, 3.0, 7.0, 3.0, 0.0]):
        deadlines.set(seconds, Waiter(name, told))
        assert len(timers()) == 1
    await clock.advance(10)
    assert told == [(4, 0), (1, 3), (3, 3), (0, 5), (2, 7)]
    assert timers() == []


async def test_who_is_done_is_not_told_and_not_kept(clock: MockClock) -> None:
    """Nor is a timer set for anybody who is not there any more."""
    deadlines, told = made(), list[tuple[int, float]]()
    early, late = Waiter(1, told), Waiter(2, told)
    kept = weakref.ref(early)
    deadline = deadlines.set(2, early)
    deadlines.set(4, late)
    del early
    deadlines.meet(deadline)
    gc.collect()
    assert kept() is None
    await clock.advance(3)
    assert [timer.when() for timer in timers()] == [4]
    await clock.advance(3)
    assert told == [(2, 4)]
    deadlines.meet(deadline)
    assert deadlines._met == 0


@pytest.mark.usefixtures("clock")
async def test_few_that_were_met_are_kept() -> None:
    """However many were, behind one that takes its time."""
    deadlines, told = made(), list[tuple[int, float]]()
    deadlines.set(1, Waiter(0, told))
    for name in range(1, 1000):
        deadlines.meet(deadlines.set(5, Waiter(name, told)))
        assert len(deadlines._heap) <= 66
    assert len(timers()) == 1


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "meet", "wait"]), st.sampled_from([0.0, 0.5, 1.0, 3.0])),
        max_size=300,
    )
)
def test_whoever_still_waits_is_told_on_time(acts: list[tuple[str, float]]) -> None:
    """Exactly once, and in order; nobody else is."""
    clock = MockClock()
    loop = clock.loop_factory()

    async def history() -> None:
        deadlines, told = made(), list[tuple[int, float]]()
        waiting: dict[int, tuple[float, Deadline]] = {}
        wanted: list[tuple[int, float]] = []
        for name, (act, seconds) in enumerate(acts):
            if act == "set":
                when = clock.now + seconds
                waiting[name] = when, deadlines.set(seconds, Waiter(name, told))
            elif act == "meet" and waiting:
                deadlines.meet(waiting.pop(list(waiting)[int(seconds * 2) % len(waiting)])[1])
            elif act == "wait":
                await clock.advance(seconds)
                due = [name for name, (when, _) in waiting.items() if when <= clock.now]
                wanted += sorted(((n, waiting.pop(n)[0]) for n in due), key=lambda pair: pair[1])
            assert told == wanted
            assert len(timers()) <= 1
            assert len(timers()) >= bool(waiting)

    try:
        loop.run_until_complete(history())
    finally:
        loop.close()
