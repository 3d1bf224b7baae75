"""Many idle children under one supervisor: what it costs to start, keep and stop them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.children import idle
from benchmarks.meter import Bytes, Stopwatch
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Subject


async def measure_start(subject: Subject, size: int) -> Reading:
    """Time the description, the start until every child runs, and the stop until none does."""
    describing, starting, stopping = Stopwatch(), Stopwatch(), Stopwatch()
    describing.begin()
    block = subject.group([idle] * size)
    describing.end()
    starting.begin()
    async with block:
        await asyncio.sleep(0)
        starting.end()
        stopping.begin()
    stopping.end()
    times = starting.per("start", size) | stopping.per("stop", size)
    return times | describing.per("describe", size)


async def measure_memory(subject: Subject, size: int) -> Reading:
    """Count what children hold while they wait, all that their supervisor knows included."""
    held = Bytes()
    async with subject.group([idle] * size):
        await asyncio.sleep(0)
        grown = held.grown()
    return {"idle_bytes": grown / size}


START = Workload(
    "start",
    measure_start,
    size=10_000,
    short=2_000,
    tiny=100,
    others=5_000,
    metrics=(
        Metric("start", "start of an idle child", goal=1.3),
        Metric("stop", "ordered stop, per child", goal=0.8),
        Metric("describe", "description of a child (its spec), before", compared=False),
    ),
)
MEMORY = Workload(
    "memory",
    measure_memory,
    size=10_000,
    short=1_000,
    tiny=20,
    others=3_000,
    metrics=(Metric("idle_bytes", "memory of an idle child", "bytes", goal=1.35, most=1500.0),),
)
