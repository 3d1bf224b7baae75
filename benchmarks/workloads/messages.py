"""Servers: calls, casts, and what one costs while nobody talks to it."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.meter import Bytes, Stopwatch
from benchmarks.workload import Metric, Workload

if TYPE_CHECKING:
    from benchmarks.meter import Reading
    from benchmarks.subject import Server, Subject

_CALLERS: Final = 100
_BURST: Final = 1_000  # casts before the sender waits for the server


async def _call(server: Server, times: int) -> None:
    call = server.call
    for request in range(times):
        await call(request)


async def measure_call(subject: Subject, size: int) -> Reading:
    """Call `size` times, one call after the other; then with 100 callers at once."""
    one, many = Stopwatch(), Stopwatch()
    async with subject.server() as server:
        await _call(server, _CALLERS)
        one.begin()
        await _call(server, size)
        one.end()
        callers = [_call(server, size // _CALLERS) for _ in range(_CALLERS)]
        many.begin()
        await asyncio.gather(*callers)
        many.end()
    return one.per("call", size) | many.per("crowd", size // _CALLERS * _CALLERS)


async def measure_cast(subject: Subject, size: int) -> Reading:
    """Cast `size` times, in bursts, until the server has dealt with them all."""
    loop, watch = asyncio.get_running_loop(), Stopwatch()
    async with subject.server() as server:
        cast = server.cast
        awaits = inspect.iscoroutinefunction(cast)
        watch.begin()
        for _ in range(size // _BURST):
            if awaits:
                for request in range(_BURST - 1):
                    await cast(request)
            else:
                for request in range(_BURST - 1):
                    cast(request)
            done = loop.create_future()
            sent = cast(lambda done=done: done.set_result(None))
            if awaits:
                await sent
            await done
        watch.end()
    return watch.per("cast", size // _BURST * _BURST)


async def measure_servers(subject: Subject, size: int, *, asynchronous: bool = False) -> Reading:
    """Start servers that nobody talks to."""
    watch, block = Stopwatch(), subject.servers(size, asynchronous=asynchronous)
    watch.begin()
    async with block:
        await asyncio.sleep(0)
        watch.end()
    return watch.per("server", size)


async def measure_server_memory(
    subject: Subject, size: int, *, asynchronous: bool = False
) -> Reading:
    """Count what such servers hold, all that their supervisor knows included."""
    held = Bytes()
    async with subject.servers(size, asynchronous=asynchronous):
        await asyncio.sleep(0)
        return {"server_bytes": held.grown() / size}


CALL = Workload(
    "call",
    measure_call,
    size=20_000,
    short=4_000,
    tiny=200,
    metrics=(
        Metric("call", "call, one caller", goal=1.1),
        Metric("crowd", "call, 100 callers", goal=1.3),
    ),
)
CAST = Workload(
    "cast",
    measure_cast,
    size=100_000,
    short=10_000,
    tiny=1000,
    metrics=(Metric("cast", "cast, served", goal=2.0),),
)
SERVERS = Workload(
    "servers",
    measure_servers,
    size=10_000,
    short=1_000,
    tiny=20,
    metrics=(Metric("server", "start of an idle server, plain handlers", most=1.0),),
)
ASYNC_SERVERS = Workload(
    "async-servers",
    partial(measure_servers, asynchronous=True),
    size=10_000,
    short=1_000,
    tiny=20,
    metrics=(Metric("server", "start of an idle server, async handlers"),),
)
SERVER_MEMORY = Workload(
    "server-memory",
    measure_server_memory,
    size=10_000,
    short=500,
    tiny=20,
    metrics=(
        Metric("server_bytes", "memory of an idle server, plain handlers", "bytes", most=500),
    ),
)
ASYNC_SERVER_MEMORY = Workload(
    "async-server-memory",
    partial(measure_server_memory, asynchronous=True),
    size=10_000,
    short=500,
    tiny=20,
    metrics=(
        Metric("server_bytes", "memory of an idle server, async handlers", "bytes", most=2000),
    ),
)
