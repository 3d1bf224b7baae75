"""The cost of monitors while nothing happens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import otpy
from otpy import SupervisorSpec
from otpy.testing import MockClock
from otpy_monitors import (
    Action,
    AgentAppeared,
    CommandBlocked,
    Deletion,
    Feed,
    OutputSeen,
    Progressed,
    RuleBook,
    SameCall,
    Stalled,
    TooManyChildren,
    ViolationRule,
    cleanup_spec,
    hygiene_supervisor,
    watch_health,
    watch_violations,
)
from tests.monitors.agents import card
from tests.monitors.shown import Scene

AGENTS = 1000
BOOK = RuleBook(
    [
        ViolationRule("wipe", CommandBlocked((re.compile("rm"),)), Action.REAP),
        ViolationRule("row", SameCall(5), Action.WARN),
        ViolationRule("kids", TooManyChildren(5), Action.PAUSE),
    ]
)


async def nothing() -> AsyncIterator[Deletion]:
    found: list[Deletion] = []
    for deletion in found:
        yield deletion


@asynccontextmanager
async def branch(feed: Feed, scene: Scene) -> AsyncGenerator[None]:
    """Run the monitors that listen to a feed, and hygiene."""
    spec = SupervisorSpec(
        "monitors",
        [
            otpy.ChildSpec("HealthMonitor", watch_health, (feed, scene.report)),
            hygiene_supervisor([cleanup_spec({"chore": nothing}, scene.report)]),
            otpy.ChildSpec(
                "ViolationMonitor", watch_violations, (feed, scene.report), {"book": BOOK}
            ),
        ],
    )
    async with otpy.start(spec, hooks=()):
        yield


@asynccontextmanager
async def counted() -> AsyncGenerator[list[float]]:
    """Yield the times of all timers set in the block."""
    loop: Any = asyncio.get_running_loop()
    seen: list[float] = []
    real = loop.call_at

    def call_at(when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        seen.append(when)
        timer: asyncio.TimerHandle = real(when, *args, **kwargs)
        return timer

    loop.call_at = call_at
    try:
        yield seen
    finally:
        del loop.call_at


HOUR = 3600.0
ROUNDS = [300.0 * number for number in range(1, 13)]


async def test_at_a_thousand_idle_agents_only_hygiene_wakes_up(clock: MockClock) -> None:
    """In an hour, the timers are twelve rounds of hygiene and the hour's own end: no polling."""
    feed, scene = Feed(), Scene()
    for number in range(AGENTS):
        feed.tell(AgentAppeared(0.0, card(f"site/{number}")))
    async with branch(feed, scene):
        await clock.advance(0)
        async with counted() as timers:
            await clock.advance(HOUR)
    assert set(timers) <= {*ROUNDS, HOUR, HOUR + 300.0}
    assert len(timers) <= len(ROUNDS) + 2


async def test_an_agent_that_is_busy_costs_a_timer_for_each_silence_it_may_keep(
    clock: MockClock,
) -> None:
    """Its 3600 messages and 3600 bytes cost some 60 timers, one for each allowed silence."""
    feed, scene = Feed(), Scene()
    feed.tell(AgentAppeared(0.0, card(stall=60.0)))
    async with branch(feed, scene):
        await clock.advance(0)
        async with counted() as timers:
            for _ in range(3600):
                await clock.advance(1)
                feed.tell(Progressed("site/a", clock.now, "message"))
                feed.tell(OutputSeen("site/a", clock.now, 1))
    seconds = 3600
    assert len(timers) - seconds - len(ROUNDS) <= 3600 / 59 + 2
    assert not any(isinstance(one, Stalled) for one in scene.found)


async def test_agents_with_limits_cost_one_timer_together(clock: MockClock) -> None:
    """A thousand agents that may stall at a thousand times share a timer, set for the earliest."""
    feed, scene = Feed(), Scene()
    for number in range(AGENTS):
        feed.tell(AgentAppeared(0.0, card(f"site/{number}", stall=4000.0 + number)))
    async with branch(feed, scene):
        await clock.advance(0)
        async with counted() as timers:
            await clock.advance(HOUR)
            await clock.advance(500)
    own = [when for when in timers if when not in {4100.0, *ROUNDS, HOUR, HOUR + 300.0, 4200.0}]
    assert len([one for one in scene.found if isinstance(one, Stalled)]) == 101
    assert own == [4000.0 + number for number in range(1, 102) if number != 100]
