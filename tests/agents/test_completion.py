from __future__ import annotations

import asyncio

import pytest

from otpy_agents.completion import to_completion


async def test_work_is_carried_to_its_end_under_cancellation() -> None:
    """The caller hears of its cancellations once, after the work."""
    done: list[str] = []
    hurried: list[str] = []

    async def work() -> None:
        await asyncio.sleep(1)
        done.append("work")

    task = asyncio.create_task(to_completion(work(), on_cancel=lambda: hurried.append("x")))
    for _ in range(3):
        await asyncio.sleep(0.1)
        task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert (done, hurried) == (["work"], ["x", "x", "x"])


async def test_results_and_errors_come_through() -> None:
    """Without cancellation it is as if the work had been awaited."""

    async def give(answer: int) -> int:
        return answer

    async def fail() -> None:
        raise ValueError("no")

    assert await to_completion(give(3)) == 3
    with pytest.raises(ValueError, match="no"):
        await to_completion(fail())


async def test_an_error_is_not_hidden_by_a_cancellation() -> None:
    """The error counts more than the cancellation."""

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("no")

    task = asyncio.create_task(to_completion(fail()))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(ValueError, match="no"):
        await task


async def test_a_timeout_around_it_is_still_a_timeout() -> None:
    """The cancellation of `asyncio.timeout` is turned into its error."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await to_completion(asyncio.sleep(1))
