"""Children that come and go."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from benchmarks.children import idle, settle
from benchmarks.meter import Bytes, Stopwatch, resident
from benchmarks.subject import Boom
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Pool, Subject

_MEGABYTE: Final = 1_000_000
_BATCH: Final = 100  # children alive at the same time


async def _come_and_go(pool: Pool, count: int) -> None:
    for _ in range(count // _BATCH):
        for _ in range(_BATCH):
            await pool.start()
        await settle()


async def _brief() -> None:
    await asyncio.sleep(0)


async def measure_churn(subject: Subject, size: int) -> Reading:
    """Start `size` temporary children that end at once, 100 at a time."""
    watch = Stopwatch()
    async with subject.pool(_brief, permanent=False) as pool:
        watch.begin()
        await _come_and_go(pool, size)
        watch.end()
    return watch.per("churn", size)


async def measure_churn_memory(subject: Subject, size: int) -> Reading:
    """Count what is left of such children, when the supervisor is warm."""
    async with subject.pool(_brief, permanent=False) as pool:
        await _come_and_go(pool, _BATCH * 10)
        held = Bytes()
        await _come_and_go(pool, size)
        left = held.grown()
    return {"churn_bytes": round(left / size)}


async def measure_pool(subject: Subject, size: int) -> Reading:
    """Start `size` idle children one by one, then stop them together."""
    starting, stopping = Stopwatch(), Stopwatch()
    async with subject.pool(idle, permanent=True) as pool:
        starting.begin()
        for _ in range(size):
            await pool.start()
        await asyncio.sleep(0)
        starting.end()
        stopping.begin()
    stopping.end()
    return starting.per("pool_start", size) | stopping.per("pool_stop", size)


async def measure_million(subject: Subject, size: int) -> Reading:
    """The same, with one crash in the middle, and what the system says of the memory."""
    loop = asyncio.get_running_loop()
    gate: asyncio.Future[None] = loop.create_future()
    again: asyncio.Future[float] = loop.create_future()
    lives, crashed = 0, 0.0

    async def body() -> None:
        nonlocal lives, crashed
        lives += 1
        if lives == size + 1:
            again.set_result(time.perf_counter())
        if lives == size // 2:
            await gate
            crashed = time.perf_counter()
            raise Boom
        await idle()

    starting, stopping = Stopwatch(), Stopwatch()
    async with subject.pool(body, permanent=True) as pool:
        starting.begin()
        for _ in range(size):
            await pool.start()
        await asyncio.sleep(0)
        starting.end()
        memory = resident() / _MEGABYTE
        gate.set_result(None)
        delay = await again - crashed
        stopping.begin()
    stopping.end()
    found = starting.per("start", size) | stopping.per("stop", size)
    return found | {"crash.wall": delay * 1e6, "resident_mb": memory}


CHURN = Workload(
    "churn",
    measure_churn,
    size=100_000,
    short=5_000,
    tiny=100,
    others=20_000,
    metrics=(Metric("churn", "a temporary child, start to end", goal=1.8),),
)
CHURN_MEMORY = Workload(
    "churn-memory",
    measure_churn_memory,
    size=100_000,
    short=2_000,
    tiny=100,
    others=10_000,
    metrics=(Metric("churn_bytes", "what is left of a temporary child", "bytes", most=0.0),),
)
POOL = Workload(
    "pool",
    measure_pool,
    size=100_000,
    short=5_000,
    tiny=20,
    others=20_000,
    metrics=(
        Metric("pool_start", "start of a child, pool of 100,000"),
        Metric("pool_stop", "stop of a child, all at once"),
    ),
)
MILLION = Workload(
    "million",
    measure_million,
    size=1_000_000,
    short=0,
    tiny=20,
    metrics=(
        Metric("start", "start of a child, pool of a million"),
        Metric("crash", "crash to replacement among a million", most=100.0),
        Metric("stop", "stop of a child, a million at once"),
        Metric("resident_mb", "resident memory of it all, a million", "MB", most=2000.0),
    ),
    others=0,
    everywhere=False,
)
