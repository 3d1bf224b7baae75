"""Random trees and their faults."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

from attrs import evolve

from otpy import (
    INFINITY,
    AutoShutdown,
    ChildSpec,
    DynamicSupervisor,
    Ignore,
    PartitionSupervisor,
    Registry,
    Restart,
    Strategy,
    SupervisorSpec,
)
from otpy._core.spec import ShutdownLimit
from otpy.registry import Keys
from otpy.specs import ESCALATE, DynamicSpec
from otpy.testing import FaultPlan
from tests.simulation.children import (
    MECHANICAL,
    NAMED,
    PLAIN,
    SIGNALLING,
    TALKING,
    WORKING,
    Kind,
    drawn_worker,
)
from tests.simulation.rogues import Rogue
from tests.simulation.rough import DEEP, MEDDLING, ODD, THREADED, UNTIDY

THEMES: list[list[Kind]] = [
    *(PLAIN, PLAIN, SIGNALLING, SIGNALLING, TALKING, TALKING, TALKING, WORKING, WORKING, NAMED),
    *(ODD, MEDDLING, DEEP, THREADED, UNTIDY, MECHANICAL, MECHANICAL),
]


class Maker:
    """Makes the children of a supervisor at each of its starts; only the first always succeeds.

    Its result follows from the time alone, because a tree may be played more than once.
    """

    def __init__(self, rng: random.Random, children: list[Any]) -> None:
        self.children = children
        self._seed = rng.random()

    def __call__(self) -> list[Any]:
        """Return the children."""
        now = asyncio.get_running_loop().time()
        chance = random.Random(f"{self._seed} {now}").random() if now else 1
        if chance < 0.05:
            raise Ignore
        if chance < 0.15:
            raise OSError("no configuration")
        return self.children


class Draft:
    """A random tree in the making.

    Attributes:
        rng: The source of chance.
        kinds: The possible kinds of its workers.
        rogues: The hooks, callbacks and listeners that do harm.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.theme = theme = rng.choice(THEMES)
        self.kinds: list[Kind] = [*theme, *theme, *rng.sample(PLAIN, 3)]
        if rng.random() < 0.3:
            self.kinds += rng.choice(THEMES)
        self.strategy = rng.choice([*Strategy])
        self.rogues: list[Rogue] = []

    def root(self) -> SupervisorSpec:
        """Draw the whole tree."""
        rng = self.rng
        first: list[Any] = []
        if self.theme is NAMED:
            keys = rng.choice([*Keys])
            restart = rng.choice([Restart.PERMANENT, Restart.TRANSIENT])
            if rng.random() < 0.3:
                self.rogues.append(Rogue(rng, exits=False))
            first.append(Registry.spec("names", keys=keys, restart=restart, listeners=self.rogues))
        if self.theme is WORKING:
            most = rng.choice([None, 1, 2, 3])
            first.append(DynamicSupervisor.spec("tasks", max_children=most, intensity=9))
        return self._supervisor("app", 0, first)

    def _supervisor(self, id: str, depth: int, first: list[Any]) -> SupervisorSpec:
        rng = self.rng
        auto = rng.choice([AutoShutdown.NEVER, AutoShutdown.NEVER, *AutoShutdown])
        children = first
        for n in range(rng.choice([1, 2, 2, 3, 3, 4])):
            name, kind = f"c{n}", rng.random()
            if kind < 0.22 and depth < 2:
                children.append(self._supervisor(name, depth + 1, []))
            elif kind < 0.32:
                children.append(self._dynamic(name))
            elif kind < 0.37:
                children.append(self._partitions(name))
            else:
                children.append(drawn_worker(rng, name, self.kinds, auto))
        limits: dict[str, Any] = {}
        if depth:
            limits["restart"] = rng.choice([Restart.PERMANENT, *Restart])
            limits["shutdown"] = rng.choice([INFINITY, INFINITY, 0, 0.5, 2])
            if auto is AutoShutdown.ANY_SIGNIFICANT and limits["restart"] is Restart.TEMPORARY:
                limits["restart"] = Restart.TRANSIENT
        return SupervisorSpec(
            id,
            Maker(rng, children) if depth and rng.random() < 0.2 else children,
            strategy=self.strategy if rng.random() < 0.7 else rng.choice([*Strategy]),
            intensity=rng.choice([0, 1, 2, 3, 12, 5 if depth else 50]),  # these multiply
            period=rng.choice([1, 5]),
            auto_shutdown=auto,
            **limits,
        )

    def _dynamic(self, id: str) -> DynamicSpec:
        rng = self.rng
        limits: list[ShutdownLimit] = [INFINITY, 0, 1]
        return DynamicSupervisor.spec(
            id,
            restart=rng.choice([*Restart]),
            max_children=rng.choice([None, 1, 2]),
            intensity=rng.randint(0, 9),
            shutdown=rng.choice(limits),
        )

    def _partitions(self, id: str) -> SupervisorSpec:
        rng = self.rng
        child = drawn_worker(rng, "part", self.kinds)
        if child.restart is Restart.TEMPORARY:
            child = child.replace(restart=Restart.PERMANENT)
        if child.intensity is not None:
            child = child.replace(intensity=evolve(child.intensity, then=ESCALATE))
        return PartitionSupervisor.spec(
            id, child, partitions=rng.randint(1, 3), strategy=rng.choice([*Strategy]), intensity=9
        )


def workers(spec: SupervisorSpec | DynamicSpec, path: str = "") -> Iterator[str]:
    """Yield the paths of all workers of a spec."""
    path = f"{path}{spec.id}"
    maker = getattr(spec, "children_by", None)
    for child in maker.children if isinstance(maker, Maker) else getattr(spec, "children", ()):
        if isinstance(child, ChildSpec):
            yield f"{path}/{child.id}"
        else:
            yield from workers(child, f"{path}/")


def drawn_plan(rng: random.Random, spec: SupervisorSpec) -> FaultPlan:
    """Draw faults for the workers of `spec`."""
    paths = [*workers(spec)]
    if not paths:
        return FaultPlan()
    return FaultPlan.random(rng, paths, faults=rng.choice([0, 0, 1, 2, 3]), within=2.0)
