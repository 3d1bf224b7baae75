"""triotp: the workloads on trio, where no coroutine of asyncio runs; hence a program of its own.

`python -m benchmarks.subjects.triotp_program WORKLOAD SIZE` prints what `benchmarks.measure` does.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import asynccontextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from benchmarks.meter import Bytes, Stopwatch, percentile, wake_ups
from benchmarks.subject import NO_LIMIT, PERIOD, Boom

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from benchmarks.meter import Reading
    from benchmarks.subject import Body

# Installed on demand, and so unknown to type checkers.
_TRIO: Final[Any] = import_module("trio")
_MAILBOX: Final[Any] = import_module("triotp.mailbox")
_SUPERVISOR: Final[Any] = import_module("triotp.supervisor")
_POOL: Final[Any] = import_module("triotp.dynamic_supervisor")
_GEN_SERVER: Final[Any] = import_module("triotp.gen_server")
_LOGBOOK: Final[Any] = import_module("logbook")

_STORM: Final = 1_000
_BATCH: Final = 100
_CALLERS: Final = 100
_BURST: Final = 1_000


def _spec(number: int, body: Body, *, permanent: bool = True) -> Any:
    kinds = _SUPERVISOR.restart_strategy
    restart = kinds.PERMANENT if permanent else kinds.TEMPORARY
    return _SUPERVISOR.child_spec(id=f"child-{number}", task=body, args=[], restart=restart)


def _options() -> Any:
    return _SUPERVISOR.options(max_restarts=NO_LIMIT, max_seconds=PERIOD)


@asynccontextmanager
async def _group(bodies: list[Body]) -> AsyncGenerator[None]:
    specs = [_spec(number, body) for number, body in enumerate(bodies)]
    async with _TRIO.open_nursery() as nursery:
        await nursery.start(_SUPERVISOR.start, specs, _options())
        yield
        nursery.cancel_scope.cancel()


async def _echo_call(message: Any, _caller: Any, state: Any) -> Any:
    return _GEN_SERVER.Reply(payload=message), state


async def _echo_cast(message: Any, state: Any) -> Any:
    if callable(message):
        message()
    return _GEN_SERVER.NoReply(), state


async def _echo_init(_: Any) -> None:
    pass


_ECHO: Final = SimpleNamespace(init=_echo_init, handle_call=_echo_call, handle_cast=_echo_cast)


@asynccontextmanager
async def _server() -> AsyncGenerator[None]:
    async with _TRIO.open_nursery() as nursery:
        nursery.start_soon(_GEN_SERVER.start, _ECHO, None, "echo")
        await _TRIO.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def _turns(count: int) -> None:
    for _ in range(count):
        await _TRIO.lowlevel.checkpoint()


# --- workloads ------------------------------------------------------------------------------------


async def _start(size: int) -> Reading:
    starting, stopping = Stopwatch(), Stopwatch()
    starting.begin()
    async with _group([_TRIO.sleep_forever] * size):
        await _turns(2)
        starting.end()
        stopping.begin()
    stopping.end()
    return starting.per("start", size) | stopping.per("stop", size)


async def _memory(size: int) -> Reading:
    held = Bytes()
    async with _group([_TRIO.sleep_forever] * size):
        await _turns(2)
        return {"idle_bytes": held.grown() / size}


class _Fragile:
    def __init__(self, count: int) -> None:
        self._count = count
        self._gate, self._complete, self._running = _TRIO.Event(), _TRIO.Event(), 0

    async def body(self) -> None:
        self._running += 1
        if self._running == self._count:
            self._complete.set()
        await self._gate.wait()
        raise Boom

    async def running(self) -> None:
        await self._complete.wait()

    def end(self) -> None:
        gate, self._gate = self._gate, _TRIO.Event()
        self._complete, self._running = _TRIO.Event(), 0
        gate.set()


async def _storm(size: int) -> Reading:
    count = min(_STORM, size)
    children, watch = _Fragile(count), Stopwatch()
    async with _group([children.body] * count):
        await children.running()
        watch.begin()
        for _ in range(size // count):
            children.end()
            await children.running()
        watch.end()
    return watch.per("restart", size // count * count)


async def _latency(size: int) -> Reading:
    gate, began = _TRIO.Event(), _TRIO.Event()
    crashed, running = 0.0, 0.0

    async def child() -> None:
        nonlocal crashed, running
        running = time.perf_counter()
        began.set()
        await gate.wait()
        crashed = time.perf_counter()
        raise Boom

    times: list[float] = []
    async with _group([*[_TRIO.sleep_forever] * 9, child]):
        await began.wait()
        for _ in range(size):
            old, gate, began = gate, _TRIO.Event(), _TRIO.Event()
            old.set()
            await began.wait()
            times.append((running - crashed) * 1e6)
    return {"p50.wall": percentile(times, 50), "p99.wall": percentile(times, 99)}


async def _calls(times: int) -> None:
    for request in range(times):
        await _GEN_SERVER.call("echo", request)


async def _call(size: int) -> Reading:
    one, many, each = Stopwatch(), Stopwatch(), size // _CALLERS
    async with _server():
        await _calls(_CALLERS)
        one.begin()
        await _calls(size)
        one.end()
        many.begin()
        async with _TRIO.open_nursery() as nursery:
            for _ in range(_CALLERS):
                nursery.start_soon(_calls, each)
        many.end()
    return one.per("call", size) | many.per("crowd", each * _CALLERS)


async def _cast(size: int) -> Reading:
    watch = Stopwatch()
    async with _server():
        watch.begin()
        for _ in range(size // _BURST):
            for request in range(_BURST - 1):
                await _GEN_SERVER.cast("echo", request)
            done = _TRIO.Event()
            await _GEN_SERVER.cast("echo", done.set)
            await done.wait()
        watch.end()
    return watch.per("cast", size // _BURST * _BURST)


async def _idle(size: int) -> Reading:
    async with _group([_TRIO.sleep_forever] * (10_000 if size >= 1_000 else size)):
        await _TRIO.sleep(0.05)
        woken, cpu = wake_ups(), time.process_time()
        await _TRIO.sleep(size / 1000)
        cpu, woken = time.process_time() - cpu, wake_ups() - woken
    woken = max(woken - 1, 0)  # the end of this function's own sleep is one
    return {"idle_cpu": cpu * 1000 * 10_000 / size, "wake_ups": woken * 10_000 / size}


async def _come_and_go(pool: Any, count: int) -> None:
    for _ in range(count // _BATCH):
        for number in range(_BATCH):
            spec = _spec(number, _TRIO.lowlevel.checkpoint, permanent=False)
            await _POOL.start_child(pool, spec)
        await _turns(5)


async def _churn(size: int) -> Reading:
    watch = Stopwatch()
    async with _TRIO.open_nursery() as nursery:
        pool = await nursery.start(_POOL.start, _options())
        watch.begin()
        await _come_and_go(pool, size)
        watch.end()
        nursery.cancel_scope.cancel()
    return watch.per("churn", size)


async def _churn_memory(size: int) -> Reading:
    async with _TRIO.open_nursery() as nursery:
        pool = await nursery.start(_POOL.start, _options())
        await _come_and_go(pool, _BATCH * 10)
        held = Bytes()
        await _come_and_go(pool, size)
        left = held.grown()
        nursery.cancel_scope.cancel()
    return {"churn_bytes": round(left / size)}


_WORKLOADS: Final[dict[str, Callable[[int], Awaitable[Reading]]]] = {
    "start": _start,
    "memory": _memory,
    "storm": _storm,
    "latency": _latency,
    "call": _call,
    "cast": _cast,
    "idle": _idle,
    "churn": _churn,
    "churn-memory": _churn_memory,
}


def main() -> None:
    """Do what the command line says: workload, size."""
    import_module("trio.testing")
    name, size = sys.argv[1:]
    measure = _WORKLOADS.get(name)
    if measure is None:
        print(
            json.dumps({"unsupported": f"triotp: {name} was not written, or it has nothing for it"})
        )
        return

    async def twice() -> Reading:
        _MAILBOX._init()
        await measure(_BURST)
        return await measure(int(size))

    with _LOGBOOK.NullHandler().applicationbound():
        print(json.dumps(_TRIO.run(twice)))


if __name__ == "__main__":
    main()
