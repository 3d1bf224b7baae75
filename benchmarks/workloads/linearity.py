"""Ten times the children: how many times the time."""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

from benchmarks.children import Crasher, Fragile, idle, settle
from benchmarks.meter import Stopwatch
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Subject


_FEW_ROUNDS: Final = 3


async def _times(subject: Subject, size: int) -> dict[str, float]:
    """Return CPU seconds of start, group restart, stop and mass exit of `size` children."""
    loop = asyncio.get_running_loop()
    running, crasher = loop.create_future(), Crasher(perf_counter)
    start, restart, stop, leave = Stopwatch(), Stopwatch(), Stopwatch(), Stopwatch()

    async def last() -> None:
        running.set_result(None)
        await idle()

    block = subject.group([crasher.body, *[idle] * (size - 2), last], together=True)
    start.begin()
    async with block:
        await running
        start.end()
        running = loop.create_future()
        restart.begin()
        await crasher.crash()
        await running
        restart.end()
        stop.begin()
    stop.end()

    children = Fragile(size, crash=False)
    async with subject.pool(children.body, permanent=False) as pool:
        for _ in range(size):
            await pool.start()
        await children.running()
        leave.begin()
        children.end()
        await settle()
        leave.end()
    return {"start": start.cpu, "restart": restart.cpu, "stop": stop.cpu, "leave": leave.cpu}


async def measure_linearity(subject: Subject, size: int) -> Reading:
    """Divide the times of `size` children by those of a tenth of them.

    That tenth is measured several times, before and after, so that its time is as steady.
    """
    before = [await _times(subject, size // 10) for _ in range(_FEW_ROUNDS)]
    many = await _times(subject, size)
    rounds = before + [await _times(subject, size // 10) for _ in range(_FEW_ROUNDS)]
    few = {key: median(times[key] for times in rounds) for key in many}
    return {f"{key}_x10": many[key] / max(few[key], 1e-9) for key in few}


LINEARITY = Workload(
    "linearity",
    measure_linearity,
    size=30_000,
    short=5_000,
    tiny=100,
    others=10_000,
    metrics=tuple(
        Metric(f"{key}_x10", f"{title}, ten times the children", "times", most=11.0, compared=False)
        for key, title in (
            ("start", "start"),
            ("restart", "group restart"),
            ("stop", "ordered stop"),
            ("leave", "mass exit"),
        )
    ),
)
