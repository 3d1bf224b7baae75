"""What a tree costs while nothing happens."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from benchmarks.children import idle
from benchmarks.meter import wake_ups
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Subject

_CHILDREN: Final = 10_000


async def measure_idle(subject: Subject, size: int) -> Reading:
    """Do nothing for `size` milliseconds over idle children: 10,000, if it is a second or more."""
    async with subject.group([idle] * (_CHILDREN if size >= 1_000 else size)):
        await asyncio.sleep(0.05)
        woken, cpu = wake_ups(), time.process_time()
        await asyncio.sleep(size / 1000)
        cpu, woken = time.process_time() - cpu, wake_ups() - woken
    woken = max(woken - 1, 0)  # the end of this function's own sleep is one
    return {"idle_cpu": cpu * 1000 * 10_000 / size, "wake_ups": woken * 10_000 / size}


IDLE = Workload(
    "idle",
    measure_idle,
    size=5_000,
    short=500,
    tiny=10,
    others=1_000,
    metrics=(
        Metric("idle_cpu", "10,000 idle children for 10 s, CPU", "ms", goal=1.2),
        Metric("wake_ups", "10,000 idle children for 10 s, wake-ups", "times", most=0.0),
    ),
)
