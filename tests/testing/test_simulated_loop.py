"""The same seed gives the same run: neither chance nor an address decides anything."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from otpy.testing import MockClock, NoProgress, SeededClock
from otpy.testing import schedule as schedule_module
from otpy.testing.schedule import Entry
from otpy.testing.simulated_loop import SimulatedLoop

Main = Callable[[], Coroutine[Any, Any, object]]


def record_of(main: Main, seed: int) -> list[Entry]:
    """Run `main` and return what ran."""
    clock = SeededClock(seed)
    clock.run(main())
    return clock.schedule.record


async def groups() -> None:
    """Cancel sets of tasks, which asyncio and anyio order by hash."""

    async def child(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def fail() -> None:
        await asyncio.sleep(0.02)
        raise LookupError

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(child(n / 100), name=f"a{n}")
            group.create_task(fail())
    except* LookupError:
        pass
    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(child, n, name=f"b{n}")
        await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    futures = {asyncio.ensure_future(child(1)) for _ in range(20)}
    done, _ = await asyncio.wait(futures)
    for future in done:
        assert future.done()
        await asyncio.sleep(0)


def test_the_same_seed_gives_the_same_run() -> None:
    """The addresses of its tasks in memory do not matter."""
    first = record_of(groups, 5)
    for _ in range(5):
        junk = [object() for _ in range(random.randrange(5000))]
        assert record_of(groups, 5) == first
        del junk
    assert record_of(groups, 6) != first


def test_sets_of_tasks_and_futures_have_the_order_they_were_made_in() -> None:
    """Iterating over a set of them is the same in every process."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(asyncio.sleep(0)) for _ in range(7)}
        names = [task.get_name() for task in tasks]
        assert names == [f"task {n}" for n in range(2, 9)]
        futures = [loop.create_future() for _ in range(7)]
        assert list(set(futures)) == futures
        await asyncio.wait(tasks)
        assert sorted(task.get_name() for task in tasks) == [f"main.{n}" for n in range(1, 8)]

    SeededClock(1).run(main())


def test_tasks_are_labelled_by_name_or_by_who_made_them() -> None:
    """A label is unique, and does not depend on what other tasks make."""

    async def leaf() -> None:
        await asyncio.sleep(0)

    async def branch() -> None:
        await asyncio.gather(leaf(), leaf())

    async def main() -> None:
        named = [asyncio.create_task(leaf(), name="n") for _ in range(2)]
        assert [task.get_name() for task in named] == ["n", "n"]
        await asyncio.gather(branch(), *named)

    labels = {entry for entry in record_of(main, 1) if isinstance(entry, str)}
    assert labels >= {"main", "n", "n#2", "main.1", "main.1.1", "main.1.2"}


def test_random_goes_by_the_seed_and_is_put_back() -> None:
    """Inside, the module `random` repeats itself; outside, it continues its own sequence."""

    async def main() -> float:
        drawn = random.random()
        await asyncio.sleep(1)
        return drawn + random.random()

    random.seed(1)
    expected = [random.random() for _ in range(2)]
    random.seed(1)
    first = random.random()
    drawn = SeededClock(7).run(main())
    assert [first, random.random()] == expected
    assert SeededClock(7).run(main()) == drawn != SeededClock(8).run(main())


def test_the_collector_waits_and_is_put_back() -> None:
    """The garbage collector would end abandoned generators at a different moment each time."""

    async def main() -> bool:
        return gc.isenabled()

    assert SeededClock(1).run(main()) is False
    assert gc.isenabled()
    gc.disable()
    try:
        SeededClock(1).run(main())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_is_a_mock_clock() -> None:
    """Time, wall clock and all the rest are a mock clock's."""

    async def main() -> None:
        assert MockClock.current() is clock
        await clock.advance(5)
        assert clock.now == 5

    clock = SeededClock(1)
    clock.run(main())


def test_a_program_without_progress_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that keeps the clock from moving for ever is named, and can still clean up."""
    monkeypatch.setattr(schedule_module, "MOST_TURNS", 5000)
    cleaned: list[str] = []

    async def spin() -> None:
        try:
            while True:  # noqa: ASYNC110 - it is to make no progress
                await asyncio.sleep(0)
        finally:
            cleaned.append("spin")

    async def main() -> None:
        await asyncio.create_task(spin(), name="top")

    with pytest.raises(NoProgress, match=r"stood still: top took \d+ of 1000 steps"):
        SeededClock(1).run(main())
    assert cleaned == ["spin"]


def test_many_callbacks_are_no_lack_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted between two moves of the clock."""
    monkeypatch.setattr(schedule_module, "MOST_TURNS", 50)

    async def main() -> None:
        for _ in range(100):
            await asyncio.sleep(0.001)

    SeededClock(1).run(main())


def test_the_clock_stops_at_its_horizon() -> None:
    """A loop with a horizon does not go on for ever, and can still be closed."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.horizon = 10
        while True:  # noqa: ASYNC110 - it is to go on for ever
            await asyncio.sleep(3)

    with pytest.raises(NoProgress, match="still running after 10 s"):
        SeededClock(1).run(main())
