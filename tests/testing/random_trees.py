"""Trees, faults and users by chance, to run otpy's own supervisors under simulation."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import otpy
from otpy import (
    BRUTAL_KILL,
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    OtpyError,
    Process,
    Restart,
    Strategy,
    Supervisor,
    SupervisorSpec,
)
from otpy.testing import FaultPlan
from tests.behaviours.servers import Add, Counter
from tests.testing.toy import steady

AnySpec: TypeAlias = ChildSpec | SupervisorSpec | DynamicSpec


async def short(seconds: float, error: Exception | None = None) -> None:
    """Live for a while, then end in order or with `error`."""
    await asyncio.sleep(seconds)
    if error is not None:
        raise error


async def slow_to_stop(seconds: float) -> None:
    """Take its time to clean up."""
    try:
        await asyncio.sleep(1e6)
    finally:
        await asyncio.sleep(seconds)


async def slow_to_start(seconds: float, *, task_status: Any) -> None:
    """Take its time to be ready."""
    await asyncio.sleep(seconds)
    task_status.started(seconds)
    await steady()


async def polite() -> None:
    """Wait to be asked."""
    await otpy.current().stop_requested()
    await asyncio.sleep(0.1)


@asynccontextmanager
async def resource() -> AsyncGenerator[str]:
    """Open and close something."""
    await asyncio.sleep(0.05)
    try:
        yield "open"
    finally:
        await asyncio.sleep(0.05)


def drawn_worker(rng: random.Random, id: str) -> ChildSpec:
    """Draw a worker of some kind."""
    seconds = round(rng.uniform(0, 3), 1)
    kinds: list[tuple[Any, tuple[Any, ...]]] = [
        (steady, ()),
        (polite, ()),
        (short, (seconds,)),
        (short, (seconds, LookupError("lost"))),
        (slow_to_stop, (seconds,)),
        (slow_to_start, (seconds,)),
        (resource, ()),
        (Counter, (1,)),
    ]
    start, args = rng.choice(kinds)
    limits: list[Any] = [BRUTAL_KILL, 0.5, 1, 5]
    return ChildSpec(
        id,
        start,
        args,
        restart=rng.choice([*Restart]),
        shutdown=rng.choice(limits),
        backoff=rng.choice([None, None, Backoff.exponential(0.5, jitter=0.5)]),
    )


def drawn_supervisor(rng: random.Random, id: str, depth: int = 0) -> SupervisorSpec:
    """Draw a supervisor and what stands below it."""
    children: list[AnySpec] = []
    for n in range(rng.randint(1, 4)):
        name, kind = f"c{n}", rng.random()
        if kind < 0.3 and depth < 2:
            children.append(drawn_supervisor(rng, name, depth + 1))
        elif kind < 0.4:
            restart, limit = rng.choice([*Restart]), rng.choice([None, 2])
            children.append(
                DynamicSupervisor.spec(
                    name, restart=restart, max_children=limit, intensity=rng.randint(0, 9)
                )
            )
        else:
            children.append(drawn_worker(rng, name))
    return SupervisorSpec(
        id,
        children,
        strategy=rng.choice([*Strategy]),
        intensity=rng.choice([0, 3, 12, 50]),
        restart=rng.choice([*Restart]) if depth else Restart.PERMANENT,
    )


def supervisors(root: Supervisor | DynamicSupervisor) -> Iterator[Supervisor | DynamicSupervisor]:
    """Yield every supervisor that runs."""
    yield root
    for node in root.snapshot().children:
        try:
            below = root.child(node.id).supervisor
        except OtpyError:
            continue
        if below is not None:
            yield from supervisors(below)


def workers(spec: SupervisorSpec | DynamicSpec, path: str = "") -> Iterator[str]:
    """Yield the paths of all workers of a spec."""
    path = f"{path}{spec.id}"
    for child in getattr(spec, "children", ()):
        if isinstance(child, ChildSpec):
            yield f"{path}/{child.id}"
        else:
            yield from workers(child, f"{path}/")


class Users:
    """Several users of a tree, who ask for whatever comes to their minds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.asked = 0

    async def drive(self, root: Supervisor | DynamicSupervisor) -> None:
        """Let the users at the tree for a while."""
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(
                    self._use(root, random.Random(self.rng.random())), name=f"user{n}"
                )

    async def _use(self, root: Supervisor | DynamicSupervisor, rng: random.Random) -> None:
        for _ in range(15):
            await asyncio.sleep(rng.choice([0, 0, 0.1, rng.uniform(0, 1)]))
            if root.ended:
                return
            supervisor = rng.choice([*supervisors(root)])
            self.asked += 1
            try:
                async with asyncio.timeout(rng.choice([0.01, 1, 60])):
                    await self._ask(supervisor, rng)
            except (OtpyError, TimeoutError):
                continue

    async def _ask(self, on: Supervisor | DynamicSupervisor, rng: random.Random) -> object:
        ids = [node.id for node in on.snapshot().children] or ["nobody"]
        key = rng.choice(ids)
        fresh = drawn_worker(rng, f"n{rng.randint(0, 5)}")

        async def end() -> None:
            process: Process = on.child(key)
            rng.choice([process.kill, process.exit])()

        async def call() -> object:
            return await Counter.at(f"{on.path}/{key}", on.tree.root).call(Add(1), timeout=1)

        async def stop() -> None:
            if rng.random() < 0.2:
                await on.stop()

        asks: list[Callable[[], Awaitable[object]]] = [
            end,
            call,
            stop,
            on.which_children,
            lambda: on.start_child(fresh),
            lambda: on.terminate_child(key),
            lambda: on.retry_now(key),
        ]
        if isinstance(on, Supervisor):
            asks += [lambda: on.restart_child(key), lambda: on.delete_child(key)]
        return await rng.choice(asks)()


def drawn_plan(rng: random.Random, spec: SupervisorSpec) -> FaultPlan:
    """Draw faults for the workers of `spec`."""
    paths = [*workers(spec)]
    return (
        FaultPlan.random(rng, paths, faults=rng.randint(0, 4), within=3.0) if paths else FaultPlan()
    )
