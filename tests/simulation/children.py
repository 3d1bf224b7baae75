"""The children of random trees: what they do, and how they end."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import anyio

import otpy
from otpy import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    Exit,
    Ignore,
    Intensity,
    OtpyError,
    Restart,
    Shutdown,
)
from otpy._core.protocol import KILL_GRACE
from otpy._core.spec import Then
from otpy._runtime.process import live_of
from otpy.tasks import Exited, Ok, OnTimeout, Task
from tests.simulation.ledger import Ledger
from tests.simulation.machines import MACHINES
from tests.simulation.servers import SERVERS, Till


async def forever() -> None:
    """Do nothing."""
    await asyncio.sleep(1e6)


async def short(seconds: float, error: Exception | None = None) -> None:
    """Live for a while, then end in order or with `error`."""
    await asyncio.sleep(seconds)
    if error is not None:
        raise error


async def slow_to_stop(seconds: float) -> None:
    """Clean up slowly."""
    try:
        await asyncio.sleep(1e6)
    finally:
        await asyncio.sleep(seconds)


async def slow_at_both(seconds: float, *, task_status: Any) -> None:
    """Become ready slowly, and clean up slowly after a request to end."""
    try:
        await asyncio.sleep(seconds)
        task_status.started()
        await asyncio.sleep(1e6)
    finally:
        await asyncio.sleep(seconds)


async def reluctant() -> None:
    """Ask only after a cancellation whether the supervisor wants a stop."""
    loop = asyncio.get_running_loop()
    try:
        await asyncio.sleep(1e6)
    except asyncio.CancelledError:
        told = loop.time()
        try:
            if live_of(otpy.current()).ending is not None:
                await otpy.current().stop_requested()
        finally:
            Ledger.current().expect(loop.time() == told, "it was not told that it is to stop")
        raise


async def slow_to_start(seconds: float, *, task_status: Any) -> None:
    """Become ready slowly."""
    await asyncio.sleep(seconds)
    task_status.started(seconds)
    await asyncio.sleep(1e6)


async def declines_at_times(*, task_status: Any) -> None:
    """Decline every other start."""
    await asyncio.sleep(0)
    if otpy.current().incarnation % 2 == 0:
        raise Ignore
    task_status.started()
    await asyncio.sleep(2)
    raise LookupError("and again")


async def fails_to_restart(*, task_status: Any) -> None:
    """Start once, and then only at every third attempt."""
    await asyncio.sleep(0.1)
    if otpy.current().incarnation % 3 != 1:
        raise ConnectionError("not yet")
    task_status.started()
    await asyncio.sleep(1)
    raise LookupError("lost")


async def polite() -> None:
    """Wait for the request to stop."""
    await otpy.current().stop_requested()
    await asyncio.sleep(0.1)


@asynccontextmanager
async def resource() -> AsyncGenerator[str]:
    """Open and close a resource."""
    await asyncio.sleep(0.05)
    try:
        yield "open"
    finally:
        await asyncio.sleep(0.05)


async def grouped(seconds: float) -> None:
    """Start tasks in a group, of which one fails."""

    async def member(error: Exception | None) -> None:
        await asyncio.sleep(seconds)
        if error is not None:
            raise error

    me = otpy.current()
    name = None if me.alive else me.path  # an abandoned child may leave tasks that count as its own
    async with anyio.create_task_group() as group:
        group.start_soon(forever, name=name)
        group.start_soon(member, None, name=name)
        if seconds > 1:
            group.start_soon(member, LookupError("in a group"), name=name)


async def linked(seconds: float, error: Exception | None) -> None:
    """Link a neighbour, and end after a while."""
    ledger, me = Ledger.current(), otpy.current()
    neighbour = ledger.anybody(me)
    if neighbour is not None:
        ledger.signals.link(me, neighbour)
    await asyncio.sleep(seconds)
    if error is not None:
        raise error
    if neighbour is not None and neighbour.alive and seconds < 1:
        ledger.signals.unlink(me, neighbour)


async def trapping(count: int) -> None:
    """Link neighbours and receive their ends as values."""
    ledger, me = Ledger.current(), otpy.current()
    signals = otpy.signals.trap_exit()
    for _ in range(2):
        neighbour = ledger.anybody(me)
        if neighbour is not None:
            ledger.signals.link(me, neighbour)
    for _ in range(count):
        await signals.get()
    raise Exit(Shutdown("enough"))


async def watching() -> None:
    """Wait for the end of a neighbour, and check that the notice is right."""
    ledger, me = Ledger.current(), otpy.current()
    neighbour = random.choice([ledger.anybody(me), ledger.anyone_ever()])
    if neighbour is None or neighbour is me:
        return
    monitor = neighbour.monitor()
    down = await monitor
    told = down.process is neighbour and down.reason is neighbour.exit_reason
    ledger.expect(told, "{} was told {}", me, down)


async def registered(key: str) -> None:
    """Hold a name while it is free."""
    ledger = Ledger.current()
    for registry in ledger.registries:
        try:
            registry.register(key, "somebody")
            if registry.unique:
                found = registry.whereis(key)
                ledger.expect(found is otpy.current(), "{} leads to {}", key, found)
            async with registry.lock(key):
                await asyncio.sleep(0.1)
            if random.random() < 0.3:
                registry.unregister(key)
        except OtpyError:
            continue
    await asyncio.sleep(1e6)


async def double(item: int) -> int:
    """Be a task; every fifth fails, every seventh is slow."""
    try:
        await asyncio.sleep(9 if item % 7 == 6 else 0.1 * (item % 3))
    except asyncio.CancelledError:
        await asyncio.sleep(4 if item % 7 == 6 else item % 3)
        raise
    if item % 5 == 4:
        raise ArithmeticError(item)
    return 2 * item


async def employer(seed: int) -> None:
    """Give work to a task supervisor, one piece at a time."""
    rng, ledger, me = random.Random(seed), Ledger.current(), otpy.current()
    while True:
        crew = ledger.supervisor_of_tasks()
        if crew is None:
            await asyncio.sleep(1e6)
            continue
        item, linked = rng.randrange(9), rng.random() < 0.6
        with suppress(OtpyError):
            task = await (crew.spawn_linked if linked else crew.spawn)(double, item)
            if linked:
                ledger.signals.linked(me, task.process)
            result = await task.poll(rng.choice([0.05, 1, None]))
            right = result is None or result == Ok(2 * item) or isinstance(result, Exited)
            ledger.expect(right, "{} of {}: {}", task, me, result)
            if result is None:
                await dismissed(task, rng.choice([0, 0.1, 5]))
        await asyncio.sleep(rng.choice([0, 0.5]))


async def dismissed(task: Task[Any], seconds: float) -> None:
    """Shut a task down, and check that it ends in time."""
    ledger, began = Ledger.current(), asyncio.get_running_loop().time()
    if task.owner is not None:
        ledger.signals.unlinked(task.owner, task.process)
    await task.shutdown(seconds)
    ledger.expect(not task.process.alive, "{} was shut down", task)
    late = asyncio.get_running_loop().time() > began + seconds + 2 * KILL_GRACE
    ledger.expect(not late, "{} took longer than {} s to be shut down", task, seconds)


async def streaming(seed: int) -> None:
    """Run a stream of tasks, and check that all results come, in order."""
    rng, ledger = random.Random(seed), Ledger.current()
    crew = ledger.supervisor_of_tasks()
    if crew is None:
        return
    items = [rng.choice([0, 1, 2, 3, 6]) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.4:
        items.append(rng.randrange(9))
    most = rng.randint(1, 3)
    at_once = 0

    async def counted(item: int) -> int:
        nonlocal at_once
        at_once += 1
        try:
            ledger.expect(at_once <= most, "too many tasks at once")
            return await double(item)
        finally:
            at_once -= 1

    found: list[Ok[int] | Exited] = []
    options: dict[str, Any] = {"linked": rng.random() < 0.5, "ordered": rng.random() < 0.7}
    options["on_timeout"] = rng.choice([*OnTimeout])
    leave, loop, told = rng.choice([1, 99, 99]), asyncio.get_running_loop(), math.inf
    results = crew.stream(counted, items, max_concurrency=most, timeout=2, **options)
    try:
        async with aclosing(results):
            async for result in results:
                found.append(result)
                if len(found) == leave:
                    told = loop.time()
                    break
    except OtpyError:
        leave = 0
    ledger.expect(loop.time() <= told + 5, "a stream that was left at {} took its time", told)
    ledger.expect(at_once == 0, "{} tasks of a stream are left", at_once)
    if not leave:
        return
    if options["ordered"]:
        for item, result in zip(items, found, strict=False):
            if isinstance(result, Ok):
                ledger.expect(result.value == 2 * item, "{} of {}", found, items)
    ledger.expect(len(found) == min(leave, len(items)), "{} of {}", found, items)


async def customer(seed: int) -> None:
    """Call the servers of the tree repeatedly."""
    rng, ledger = random.Random(seed), Ledger.current()
    for _ in range(6):
        await asyncio.sleep(rng.choice([0, 0.1, 0.7]))
        process = ledger.anybody(otpy.current(), servers=True)
        if process is None:
            return
        await ledger.desk.visit(process, rng)


Kind = Callable[[random.Random], tuple[Any, tuple[Any, ...]]]


def seconds(rng: random.Random) -> float:
    """Draw a short time; several children often get the same."""
    return rng.choice([0.0, 0.1, 0.3, 0.5, 1.0, 1.0, 2.0, round(rng.uniform(0, 3), 1)])


PLAIN: list[Kind] = [
    lambda _: (forever, ()),
    lambda rng: (short, (seconds(rng),)),
    lambda rng: (short, (seconds(rng), LookupError("lost"))),
    lambda rng: (short, (seconds(rng), LookupError("lost"))),
    lambda rng: (short, (seconds(rng), Exit(Shutdown("done")))),
    lambda rng: (slow_to_stop, (seconds(rng),)),
    lambda rng: (slow_to_start, (seconds(rng),)),
    lambda rng: (slow_to_start, (seconds(rng),)),
    lambda _: (declines_at_times, ()),
    lambda _: (fails_to_restart, ()),
    lambda _: (fails_to_restart, ()),
    lambda _: (polite, ()),
    lambda rng: (slow_at_both, (seconds(rng),)),
    lambda _: (reluctant, ()),
    lambda _: (resource, ()),
    lambda _: (slow_to_stop, (20,)),
    lambda rng: (slow_to_start, (rng.choice([1, 60]),)),
    lambda rng: (grouped, (seconds(rng),)),
]
SIGNALLING: list[Kind] = [
    lambda rng: (linked, (seconds(rng), rng.choice([None, LookupError("linked")]))),
    lambda rng: (trapping, (rng.randint(1, 3),)),
    lambda _: (watching, ()),
    lambda rng: (rng.choice(SERVERS), (rng.randrange(99),)),
    lambda rng: (short, (seconds(rng), LookupError("lost"))),
    lambda _: (forever, ()),
]
TALKING: list[Kind] = [
    lambda rng: (Till, (rng.randrange(99),)),
    lambda rng: (rng.choice(SERVERS), (rng.randrange(99),)),
    lambda rng: (customer, (rng.randrange(99),)),
]
MECHANICAL: list[Kind] = [
    lambda rng: (rng.choice(MACHINES), (rng.randrange(99),)),
    lambda rng: (rng.choice(MACHINES), (rng.randrange(99),)),
    lambda rng: (customer, (rng.randrange(99),)),
]
WORKING: list[Kind] = [
    lambda rng: (employer, (rng.randrange(99),)),
    lambda rng: (streaming, (rng.randrange(99),)),
]
NAMED: list[Kind] = [lambda rng: (registered, (rng.choice("ab"),))]


def drawn_worker(
    rng: random.Random, id: str, kinds: list[Kind], auto: AutoShutdown = AutoShutdown.NEVER
) -> ChildSpec:
    """Draw a worker of one of these kinds."""
    start, args = rng.choice(kinds)(rng)
    restart = rng.choice([Restart.PERMANENT, *Restart])
    chance = rng.random()
    optional: dict[str, Any] = {}
    if chance < 0.25:
        optional["backoff"] = rng.choice(
            [Backoff.exponential(0.5, jitter=0.5), Backoff.sequence(0, 1), Backoff.sequence(1)]
        )
    elif chance < 0.35:
        optional["intensity"] = Intensity(rng.randint(0, 2), 5, rng.choice([*Then]))
    if rng.random() < 0.25:
        optional["start_timeout"] = rng.choice([0.1, 1, 2])
    if auto is not AutoShutdown.NEVER and restart is not Restart.PERMANENT:
        optional["significant"] = rng.random() < 0.7
    limit: Any = rng.choice([otpy.BRUTAL_KILL, 0, 0.5, 1, 1, 5, 30])
    return ChildSpec(id, start, args, restart=restart, shutdown=limit, **optional)
