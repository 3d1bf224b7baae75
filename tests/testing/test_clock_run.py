"""`run()`: the clock without pytest, and its clean-up."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator

import pytest

from otpy.testing import MockClock, strange_threads
from otpy.testing import clock as clock_module
from tests.testing.delays import BRIEF, blocked, slow, year_in


async def stubborn(interval: float) -> None:
    """Refuse to end."""
    while True:
        try:
            await asyncio.sleep(interval)
        except asyncio.CancelledError:
            continue


async def leave_behind(interval: float) -> asyncio.Task[None]:
    """Leave a task that refuses to end, and whose loop says nothing when it is collected."""
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    task = asyncio.create_task(stubborn(interval), name="stubborn")
    await asyncio.sleep(0)
    return task


def test_each_run_starts_again_and_returns_the_result() -> None:
    """One clock serves any number of runs, each from `start`, and hands out what each returns."""
    clock = MockClock()
    for _ in range(2):
        assert clock.run(asyncio.sleep(90, "done")) == "done"
        assert clock.now == 90
    assert clock.run(year_in(0)) == clock.start.year


def test_it_passes_exceptions_on() -> None:
    """An exception of the coroutine is raised unchanged."""

    async def fail() -> None:
        await asyncio.sleep(1)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        MockClock().run(fail())


def test_it_closes_its_loop_and_its_generators() -> None:
    """Asynchronous generators finish, with time to do so, and the loop takes no more work."""
    seen: list[object] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            seen.append("closed")

    async def main() -> asyncio.AbstractEventLoop:
        seen.append(await anext(generator))
        await asyncio.to_thread(slow)
        return asyncio.get_running_loop()

    generator = numbers()
    loop = MockClock().run(main())
    assert seen == [1, "closed"]
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)
    with pytest.raises(RuntimeError, match="closed"):
        _ = loop.run_in_executor(None, print)


def test_it_cancels_leftovers_and_lets_them_clean_up() -> None:
    """A task that is left over is cancelled and awaited, and its failure is reported."""
    clock = MockClock()
    cleaned: list[float] = []
    reports: list[str] = []

    async def child() -> None:
        try:
            await blocked()
        finally:
            await asyncio.sleep(5)
            cleaned.append(clock.now)
            raise LookupError("lost")

    async def main() -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(str(context["exception"])))
        task = asyncio.create_task(child())
        await asyncio.sleep(1)
        return task

    assert clock.run(main()).done()
    assert cleaned == [6]
    assert reports == ["lost"]


def test_leftovers_that_end_well_are_not_reported() -> None:
    """A leftover may return, or just be cancelled, without a word in the log."""
    reports: list[object] = []

    async def returns() -> str:
        try:
            await blocked()
        except asyncio.CancelledError:
            return "well"
        return "never"

    async def main() -> tuple[asyncio.Task[str], asyncio.Task[None]]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(context))
        tasks = asyncio.create_task(returns()), asyncio.create_task(blocked())
        await asyncio.sleep(1)
        return tasks

    returned, cancelled = MockClock().run(main())
    assert returned.result() == "well"
    assert cancelled.cancelled()
    assert reports == []


def test_the_alarm_for_a_task_that_never_ends_does_not_hold_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits in a thread, and a clock that took that for work would wait for it in real time."""
    monkeypatch.setattr(strange_threads, "LONGEST_NAP", 3600.0)
    monkeypatch.setattr(clock_module, "_PATIENCE_REAL", 1.0)

    async def child() -> None:
        try:
            await blocked()
        finally:
            await asyncio.sleep(30)

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(child())
        await asyncio.sleep(1)
        return task

    assert MockClock().run(main()).done()


def test_leftovers_have_a_minute_of_the_clock() -> None:
    """A clean-up of almost sixty virtual seconds is awaited to its end."""
    clock = MockClock()

    async def child() -> str:
        try:
            await blocked()
        finally:
            await asyncio.sleep(59)
        return "never"

    async def main() -> asyncio.Task[str]:
        task = asyncio.create_task(child())
        await asyncio.sleep(1)
        return task

    assert clock.run(main()).cancelled()
    assert clock.now == 60


@pytest.mark.parametrize("interval", [1.0, 0.0])
def test_it_ends_even_if_a_task_refuses_to(
    interval: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that swallows its cancellation is named in an error, and cannot hang the test."""
    monkeypatch.setattr(clock_module, "_PATIENCE_REAL", BRIEF)

    async def main() -> None:
        refusers.append(await leave_behind(interval))

    refusers: list[asyncio.Task[None]] = []
    with pytest.raises(RuntimeError, match="1 tasks refused to end when cancelled: stubborn"):
        MockClock().run(main())


def test_a_refusal_does_not_hide_what_went_wrong_before() -> None:
    """The error about a task that refused to end carries the failure of the coroutine itself."""

    async def main() -> None:
        refusers.append(await leave_behind(1))
        raise LookupError("lost")

    refusers: list[asyncio.Task[None]] = []
    with pytest.raises(RuntimeError, match="refused to end") as caught:
        MockClock().run(main())
    assert isinstance(caught.value.__context__, LookupError)


async def test_it_refuses_to_nest(clock: MockClock) -> None:
    """Inside a running loop it raises at once, and does not disturb that loop."""
    coroutine = blocked()
    with pytest.raises(RuntimeError, match="without a running loop"):
        MockClock().run(coroutine)
    # Closed by the refused run, so Python does not warn that it was never awaited.
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    await asyncio.sleep(1)
    assert clock.now == 1
