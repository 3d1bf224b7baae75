"""Drawn plans against a tree of every kind of child: what holds under any failure."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    SupervisorFailed,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import NotRunning
from otpy.server import NoReply
from otpy.testing import FaultPlan, Hit, MockClock, Recording, faults
from tests.examples import examples
from tests.runtime.conftest import logs
from tests.testing.failing_children import (
    Script,
    context,
    in_anyio_group,
    in_group,
    in_hidden_group,
    in_timeout,
    later,
    plain,
    ready,
    seen,
)

__all__ = ["logs"]


class Ticker(GenServer[str, None, int]):
    """Sends itself a message now and then."""

    async def init(self, _: Script) -> int:
        await asyncio.sleep(0.1)
        self.tick()
        return 0

    def tick(self) -> None:
        server = Ticker.at(otpy.current())
        asyncio.get_running_loop().call_later(0.7, server.send, "tick")

    async def handle_info(self, message: object, state: int) -> NoReply[int]:
        await asyncio.sleep(0.01)
        self.tick()
        return NoReply(state + 1)

    async def terminate(self, reason: object, state: int) -> None:
        await asyncio.sleep(0.2)


KINDS: list[Callable[..., Any]] = [
    *(plain, ready, later, context, in_timeout),
    *(in_group, in_anyio_group, in_hidden_group, Ticker),
]
PATHS = [
    *(f"app/{kind.__name__}" for kind in KINDS),
    *("app/crew/plain*", "app/pool/plain*", "app/**"),
]


def tree() -> SupervisorSpec:
    children = [
        ChildSpec(kind.__name__, kind, (Script(),), start_timeout=3, shutdown=1) for kind in KINDS
    ]
    return SupervisorSpec(
        "app",
        [*children, TaskSupervisor.spec("crew", intensity=50), DynamicSupervisor.spec("pool")],
        intensity=50,
    )


class Outcome:
    def __init__(self) -> None:
        self.reports = Recording()
        self.complaints: list[object] = []
        self.hits: tuple[Hit, ...] = ()
        self.left = 0


async def scenario(plan: FaultPlan, outcome: Outcome) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, what: outcome.complaints.append(what))
    with plan.active() as injected:
        with suppress(SupervisorFailed):
            async with otpy.start(tree(), hooks=[outcome.reports]) as root:
                for _ in range(5):
                    with suppress(NotRunning):
                        await TaskSupervisor(root.child("crew")).start_child(plain, Script())
                        pool = root.child("pool").supervisor
                        assert isinstance(pool, DynamicSupervisor)
                        await pool.start_child(ChildSpec("plain", plain, (Script(),), shutdown=1))
                    await asyncio.sleep(2)
    outcome.hits = injected.hits
    await asyncio.sleep(20)  # long enough for abandoned children, which are released now
    outcome.left = len(asyncio.all_tasks()) - 1


def run(plan: FaultPlan) -> Outcome:
    outcome = Outcome()
    MockClock().run(scenario(plan, outcome))
    return outcome


@settings(max_examples=examples(25))
@given(st.integers(0, 10**6), st.integers(1, 8))
def test_a_tree_gets_over_any_plan(seed: int, count: int) -> None:
    """The tree ends, leaves neither a task nor an error on the loop, and a replay does the same."""
    plan = FaultPlan.random(random.Random(seed), PATHS, faults=count, within=8)
    first = run(plan)
    assert first.complaints == []
    assert first.left == 0
    names = {"FaultPlan": FaultPlan, "faults": faults}
    again = run(eval(repr(plan), names))  # noqa: S307 - this is the promise
    assert again.hits == first.hits
    assert [seen(report, 0) for report in again.reports] == [
        seen(report, 0) for report in first.reports
    ]
