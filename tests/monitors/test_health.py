from __future__ import annotations

import asyncio
import time

import pytest

from otpy.testing import MockClock
from otpy_monitors import (
    AgentAppeared,
    AgentGone,
    Feed,
    LoopLag,
    LoopStalled,
    OutputSeen,
    Progressed,
    RestBegan,
    RestEnded,
    Stalled,
    StallWarned,
    ToolCallBegan,
    ToolCallEnded,
    watch_blocks,
    watch_health,
)
from tests.monitors.agents import card
from tests.monitors.shown import Scene, running


@pytest.fixture
def feed() -> Feed:
    """A feed without agents."""
    return Feed()


async def test_a_stall_is_warned_of_and_then_reported_once_each(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """Each is told when due, however many bytes come out meanwhile (TREE-30, TREE-43, G-05)."""
    async with running(watch_health(feed, scene.report)):
        feed.tell(AgentAppeared(0.0, card(stall=10.0, warn_stall_at=8.0, incarnation=3)))
        for _ in range(50):
            await clock.advance(1)
            feed.tell(OutputSeen("site/a", clock.now, 1))
    assert scene.found == [
        StallWarned("app/pool/a", 3, 8.0, 10.0, "site/a", 2.0),
        Stalled("app/pool/a", 3, 10.0, 10.0, "site/a"),
    ]
    assert scene.times == [8.0, 10.0]


async def test_progress_puts_a_stall_off(feed: Feed, scene: Scene, clock: MockClock) -> None:
    """An agent with timely progress is never reported; a silence after a stall is a new one."""
    feed.tell(AgentAppeared(0.0, card(stall=5.0)))
    async with running(watch_health(feed, scene.report)):
        for _ in range(10):
            await clock.advance(4.9)
            feed.tell(Progressed("site/a", clock.now, "message"))
        assert scene.found == []
        await clock.advance(60)
        feed.tell(Progressed("site/a", clock.now, "message"))
        await clock.advance(60)
    assert scene.times == pytest.approx([54.0, 114.0])


async def test_a_declared_long_tool_is_no_stall_until_its_own_limit(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """After its end, the agent's own limit holds again at once."""
    feed.tell(AgentAppeared(0.0, card(stall=5.0, long_tools={"Bash": 600.0})))
    async with running(watch_health(feed, scene.report)):
        feed.tell(ToolCallBegan("site/a", 0.0, "c1", "Bash"))
        await clock.advance(599)
        assert scene.found == []
        feed.tell(ToolCallEnded("site/a", 599.0, "c1"))
        await clock.advance(4.9)
        assert scene.found == []
        feed.tell(ToolCallBegan("site/a", clock.now, "c2", "Bash"))
        await clock.advance(1000)
    (stall,) = scene.found
    assert isinstance(stall, Stalled)
    assert stall.tool == "Bash"
    assert scene.times == pytest.approx([1203.9])
    assert "in a call of 'Bash'" in str(stall)


async def test_a_tool_that_ends_early_lets_the_stall_come_early(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The timer that was set for the tool's own limit is set again."""
    feed.tell(AgentAppeared(0.0, card(stall=5.0, long_tools={"Bash": 600.0})))
    feed.tell(ToolCallBegan("site/a", 0.0, "c1", "Bash"))
    async with running(watch_health(feed, scene.report)):
        await clock.advance(10)
        feed.tell(ToolCallEnded("site/a", 10.0, "c1"))
        await clock.advance(10)
    assert scene.times == [15.0]


async def test_who_waits_for_something_outside_is_not_stalled(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """Silence counts from the end of the wait: for a rate limit, an answer, a pause."""
    feed.tell(AgentAppeared(0.0, card(stall=5.0)))
    async with running(watch_health(feed, scene.report)):
        feed.tell(RestBegan("site/a", 0.0, "rate limit"))
        await clock.advance(3600)
        assert scene.found == []
        feed.tell(RestEnded("site/a", 3600.0))
        await clock.advance(60)
    assert scene.times == [3605.0]


async def test_a_life_that_is_over_is_not_judged(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """The next life is judged, from its own beginning."""
    feed.tell(AgentAppeared(0.0, card(stall=5.0)))
    async with running(watch_health(feed, scene.report)):
        await clock.advance(4)
        feed.tell(AgentGone("site/a", 4.0, "crashed"))
        await clock.advance(60)
        assert scene.found == []
        feed.tell(AgentAppeared(64.0, card(stall=5.0, incarnation=2)))
        await clock.advance(60)
    assert scene.found == [Stalled("app/pool/a", 2, 5.0, 5.0, "site/a")]


async def test_killed_at_any_moment_it_misses_nothing(
    feed: Feed, scene: Scene, clock: MockClock
) -> None:
    """Its next life reads the feed once, and finds both missed activities and the current state."""
    feed.tell(AgentAppeared(0.0, card("site/a", stall=5.0)))
    feed.tell(AgentAppeared(0.0, card("site/b", stall=30.0, long_tools={"Bash": 50.0})))
    async with running(watch_health(feed, scene.report)):
        await clock.advance(3)
    feed.tell(Progressed("site/a", 4.0, "message"))
    feed.tell(ToolCallBegan("site/b", 4.0, "c1", "Bash"))
    feed.tell(AgentAppeared(4.0, card("site/c", stall=1.0)))
    await clock.advance(4)
    async with running(watch_health(feed, scene.report)):
        await clock.advance(100)
    names = [one.agent for one in scene.found if isinstance(one, Stalled)]
    assert list(zip(names, scene.times, strict=True)) == [
        ("site/c", 7.0),
        ("site/a", 9.0),
        ("site/b", 54.0),
    ]
    async with running(watch_health(feed, scene.report)):
        await clock.advance(1)
    assert len(scene.found) == 6


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_step_that_blocks_the_loop_is_reported(scene: Scene) -> None:
    """The report shows the blocking line, as soon as the loop turns again (AIO-01)."""
    async with running(watch_blocks(scene.report)):
        await asyncio.sleep(0.3)
        time.sleep(1.0)  # noqa: ASYNC251 - it blocks the loop
        async with asyncio.timeout(30):
            while not scene.found:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    (blocked,) = scene.found
    assert isinstance(blocked, LoopStalled)
    assert (blocked.path, blocked.incarnation) == ("", 0)
    assert 0.5 <= blocked.seconds < 30
    assert "test_a_step_that_blocks_the_loop_is_reported" in blocked.stack[-1]


def test_a_blocked_loop_is_told_in_one_line() -> None:
    """The line names the blocker, the duration and the place."""
    blocked = LoopStalled("app/pool/a", 1, 2.5, ("File a.py, line 1, in spin",))
    assert str(blocked) == (
        "app/pool/a blocks the event loop for 2.50 s at File a.py, line 1, in spin"
    )


@pytest.mark.slow
@pytest.mark.real_time
async def test_a_late_wake_up_is_nobodys_silence(feed: Feed, scene: Scene) -> None:
    """The pipe of a stopped host is read first; an agent that stays silent is reported later."""
    loop = asyncio.get_running_loop()
    for name in ("site/busy", "site/dead"):
        feed.tell(AgentAppeared(loop.time(), card(name, stall=0.8)))
    async with running(watch_health(feed, scene.report)):
        await asyncio.sleep(0.1)
        feed.tell(Progressed("site/busy", loop.time(), "message"))
        time.sleep(1.6)  # noqa: ASYNC251 - as if the process had been stopped
        woke = loop.time()
        await asyncio.sleep(0.1)
        for _ in range(3):  # the pipe is read after the daemon has woken up
            feed.tell(Progressed("site/busy", loop.time(), "message"))
            await asyncio.sleep(0.35)
    lag, stall = scene.found
    assert isinstance(lag, LoopLag)
    assert lag.seconds > 0.5
    assert isinstance(stall, Stalled)
    assert stall.agent == "site/dead"
    assert stall.quiet == pytest.approx(0.8, abs=0.2)
    assert scene.times[1] > woke + 0.25


@pytest.mark.slow
@pytest.mark.real_time
async def test_what_is_read_late_does_not_hide_the_lag_from_the_others(
    feed: Feed, scene: Scene
) -> None:
    """The daemon judges the second agent only after its pipe is read, not with the first."""
    loop = asyncio.get_running_loop()
    for name in ("site/first", "site/second"):
        feed.tell(AgentAppeared(loop.time(), card(name, stall=0.8)))
    async with running(watch_health(feed, scene.report)):
        await asyncio.sleep(0)
        loop.call_soon(lambda: feed.tell(Progressed("site/first", loop.time(), "message")))
        time.sleep(1.6)  # noqa: ASYNC251 - as if the process had been stopped
        await asyncio.sleep(0.1)
        feed.tell(Progressed("site/second", loop.time(), "message"))
        await asyncio.sleep(0.3)
    assert [type(one) for one in scene.found] == [LoopLag]
