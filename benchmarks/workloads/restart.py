"""Crashes: many at once, one after the other, and one that takes its siblings with it."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Final

from benchmarks.children import Crasher, Fragile, idle, settle
from benchmarks.meter import Stopwatch, percentile
from benchmarks.subject import Boom
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Subject

_STORM: Final = 1_000  # children that crash together
_BYSTANDERS: Final = 9
_ROUNDS: Final = 10


async def measure_storm(subject: Subject, size: int, *, hooks: int = 0) -> Reading:
    """Let up to 1000 children crash together until there were `size` restarts."""
    count = min(_STORM, size)
    children, watch = Fragile(count), Stopwatch()
    async with subject.group([children.body] * count, hooks=hooks):
        await children.running()
        watch.begin()
        for _ in range(size // count):
            children.end()
            await children.running()
        watch.end()
    return watch.per("restart", size // count * count)


async def measure_hooks(subject: Subject, size: int) -> Reading:
    """The same while one function, or three, hear of everything."""
    found: Reading = {}
    for hooks in (1, 3):
        reading = await measure_storm(subject, size, hooks=hooks)
        found |= {key.replace("restart", f"hooks_{hooks}"): us for key, us in reading.items()}
    return found


async def measure_burst(subject: Subject, size: int) -> Reading:
    """Let `size` children crash together, once."""
    reading = await measure_storm(subject, size)
    return {key.replace("restart", "once"): us for key, us in reading.items()}


async def measure_latency(subject: Subject, size: int) -> Reading:
    """Let one of ten children crash `size` times, one crash after the other."""
    child = Crasher(perf_counter)
    async with subject.group([*[idle] * _BYSTANDERS, child.body]):
        await child.running()
        times = [await child.crash() * 1e6 for _ in range(size)]
        await settle()
    return {"p50.wall": percentile(times, 50), "p99.wall": percentile(times, 99)}


async def measure_together(subject: Subject, size: int) -> Reading:
    """Let one of `size` children crash, and so restart them all."""
    running = asyncio.get_running_loop().create_future()
    crasher, watch = Crasher(perf_counter), Stopwatch()

    async def last() -> None:
        nonlocal running
        running.set_result(None)
        await idle()

    async with subject.group([crasher.body, *[idle] * (size - 2), last], together=True):
        await running
        watch.begin()
        for _ in range(_ROUNDS):
            running = asyncio.get_running_loop().create_future()
            await crasher.crash()
            await running
        watch.end()
    return watch.per("child", size * _ROUNDS)


async def measure_escalation(subject: Subject, size: int) -> Reading:
    """Let a child below `size` supervisors crash, none of which may restart anything."""
    watch = Stopwatch()

    async def leaf() -> None:
        await asyncio.sleep(0.05)  # until all supervisors wait
        watch.begin()
        raise Boom

    rounds = 5
    for _ in range(rounds):
        await subject.escalate(size, leaf)
        watch.end()
    return watch.per("level", size * rounds)


STORM = Workload(
    "storm",
    measure_storm,
    size=20_000,
    short=2_000,
    tiny=100,
    others=10_000,
    metrics=(Metric("restart", "restart, in a storm of 1000", goal=1.5),),
)
HOOKS = Workload(
    "hooks",
    measure_hooks,
    size=10_000,
    short=1_000,
    tiny=100,
    others=0,
    metrics=tuple(
        Metric(f"hooks_{hooks}", f"the same with {hooks} hooks that hear all") for hooks in (1, 3)
    ),
)
BURST = Workload(
    "burst",
    measure_burst,
    size=_STORM,
    short=_STORM,
    tiny=100,
    others=0,
    metrics=(Metric("once", "restart, in one burst of 1000", most=20.0),),
)
LATENCY = Workload(
    "latency",
    measure_latency,
    size=3_000,
    short=500,
    tiny=100,
    metrics=(
        Metric("p50", "crash to replacement, median", goal=1.0),
        Metric("p99", "crash to replacement, 99th percentile", goal=1.5),
    ),
)
TOGETHER = Workload(
    "together",
    measure_together,
    size=1_000,
    short=200,
    tiny=10,
    metrics=(Metric("child", "one_for_all of 1000, per child", goal=1.0),),
)
ESCALATION = Workload(
    "escalation",
    measure_escalation,
    size=100,
    short=100,
    tiny=3,
    metrics=(Metric("level", "escalation, per level of 100", goal=0.5),),
)
