from __future__ import annotations

import asyncio

import pytest

from benchmarks.catalogue import FLOOR, OTPY, OWN, WORKLOADS, subject_of
from benchmarks.subject import Subject, Unsupported
from benchmarks.workload import Metric


def _has(metric: Metric, reading: dict[str, float]) -> bool:
    return bool({metric.key, f"{metric.key}.cpu", f"{metric.key}.wall"} & set(reading))


@pytest.mark.parametrize("subject", [FLOOR, OTPY])
@pytest.mark.parametrize("name", list(WORKLOADS))
async def test_every_workload_gives_every_metric_it_names(name: str, subject: str) -> None:
    """Each workload runs with the floor and with otpy, and fills its rows of the table."""
    workload = WORKLOADS[name]
    reading = await workload.measure(subject_of(subject), workload.tiny)
    assert [metric.title for metric in workload.metrics if not _has(metric, reading)] == []


@pytest.mark.parametrize("subject", OWN)
async def test_all_stop_in_strict_reverse_order(subject: str) -> None:
    """The floor stops as otpy does, one by one, the last first, and so has no unfair advantage."""
    stopped: list[int] = []

    async def run(number: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            stopped.append(number)

    bodies = [lambda number=number: run(number) for number in range(5)]
    async with subject_of(subject).group(bodies):
        await asyncio.sleep(0)
    assert stopped == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("subject", OWN)
async def test_all_give_up_when_no_restart_is_allowed(subject: str) -> None:
    """The floor counts its restarts, and so has no unfair advantage."""
    lives = 0

    async def crash() -> None:
        nonlocal lives
        lives += 1
        raise ValueError

    await subject_of(subject).escalate(3, crash)
    assert lives == 1


async def test_a_project_that_cannot_do_something_says_so() -> None:
    """A missing feature of a subject raises an error, so that its cell stays empty."""

    class Nothing(Subject):
        name = "nothing"

    with pytest.raises(Unsupported, match="nothing has no monitors"):
        await WORKLOADS["signals"].measure(Nothing(), 1)
