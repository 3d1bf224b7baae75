"""A killed supervisor asks before it kills: the whole branch shares one second (SUP-719)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    ChildSpec,
    DynamicSupervisor,
    ExitReason,
    GenServer,
    Killed,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._core.spec import ShutdownLimit
from otpy.errors import StartFailed
from otpy.reports import ChildAbandoned, ChildStopped
from otpy.testing import MockClock, Recording
from tests.runtime.children import forever, stubborn

GRACE = 1  # seconds, KILL_GRACE
REFUSED = 2  # seconds until a child that ignores a kill is abandoned
Lines = list[tuple[float, str, object]]


class Flushing(GenServer[object, object, tuple[Lines, str, float]]):
    """A server that records when and why it terminates, which takes a while."""

    def init(self, lines: Lines, name: str, takes: float = 0.0) -> tuple[Lines, str, float]:
        """Start."""
        return lines, name, takes

    async def terminate(self, reason: ExitReason, state: tuple[Lines, str, float]) -> None:
        """Flush."""
        lines, name, takes = state
        clock = asyncio.get_running_loop().time
        lines.append((round(clock(), 6), name, reason))
        await asyncio.sleep(takes)
        lines.append((round(clock(), 6), name, "flushed"))


@pytest.fixture
def lines() -> Lines:
    """Return a list for the times and reasons of servers that terminate, and when they finish."""
    return []


def sup(id: str, *children: Any, shutdown: ShutdownLimit = INFINITY) -> SupervisorSpec:
    """Return a supervisor that is not restarted."""
    return SupervisorSpec(id, children, shutdown=shutdown, restart=Restart.TEMPORARY)


def server(lines: Lines, name: str, takes: float = 0.0, **more: Any) -> ChildSpec:
    """Return the spec of a server."""
    return ChildSpec(name, Flushing, (lines, name, takes), restart=Restart.TEMPORARY, **more)


async def left_after(*children: Any, hooks: Any = ()) -> float:
    """Start a tree, leave it, and return how long that took."""
    clock = asyncio.get_running_loop().time
    async with otpy.start(SupervisorSpec("app", children), hooks=hooks):
        await asyncio.sleep(0)  # a child that is cancelled before its first step never runs
        began = clock()
    return round(clock() - began, 6)


@pytest.mark.parametrize("hooks", [None, ()], ids=["default log", "no hooks"])
async def test_an_innocent_server_flushes_though_its_cousin_refuses(
    clock: MockClock, lines: Lines, release: asyncio.Event, hooks: Any
) -> None:
    """As in OTP 25 with the same tree, the reason below a nested supervisor is `shutdown`."""
    low = sup("low", server(lines, "server", 0.3))
    mid = sup("mid", low, ChildSpec("no", stubborn, (release,)), shutdown=0.1)
    took = await left_after(mid, hooks=hooks)
    assert lines == [(0.1, "server", Shutdown()), (0.4, "server", "flushed")]
    assert took == 0.1 + GRACE + REFUSED


async def test_children_of_the_killed_itself_hear_killed(clock: MockClock, lines: Lines) -> None:
    """As servers of OTP 25 that trap the exit of their parent, all get it at once."""
    mid = sup(
        "mid",
        server(lines, "first", 0.2),
        server(lines, "brutal", 0.2, shutdown=BRUTAL_KILL),
        sup("low", server(lines, "a", 0.2), server(lines, "b", 0.2)),
        shutdown=BRUTAL_KILL,
    )
    assert await left_after(mid) == 0.4
    assert sorted(lines[:3], key=str) == [
        (0, "b", Shutdown()),
        (0, "brutal", Killed()),
        (0, "first", Killed()),
    ]
    assert (0.2, "a", Shutdown()) in lines


@pytest.mark.parametrize("how", ["process", "supervisor", "brutal", "limit"])
async def test_it_is_the_same_however_it_is_killed(
    clock: MockClock, lines: Lines, how: str
) -> None:
    """The user or the supervisor kills it, at once or at its limit; it restarts only afterwards."""
    limit: Any = {"brutal": BRUTAL_KILL, "limit": 0}.get(how, 5)
    mid = SupervisorSpec("mid", [sup("low", server(lines, "a", 0.25))], shutdown=limit)
    async with otpy.start(SupervisorSpec("app", [mid]), hooks=()) as app:
        process = app.child("mid")
        assert process.supervisor is not None
        match how:
            case "process":
                process.kill()
            case "supervisor":
                process.supervisor.kill()
            case _:
                await app.terminate_child("mid")
        assert await process.wait() == Killed()
        assert lines == [(0, "a", Shutdown()), (0.25, "a", "flushed")]
        if how in {"process", "supervisor"}:
            await asyncio.sleep(0)
            assert app.child("mid").incarnation == 2


@pytest.mark.parametrize("depth", [1, 2, 3, 10])
async def test_the_time_is_shared_however_deep_the_tree(
    clock: MockClock, lines: Lines, release: asyncio.Event, depth: int
) -> None:
    """All levels together have one second, although each has a limit that it exceeds."""
    tree: Any = sup("low", ChildSpec("no", stubborn, (release,), shutdown=INFINITY))
    for number in range(depth):
        tree = sup(f"s{number}", server(lines, f"slow{number}", 1e9), tree, shutdown=0.2)
    assert await left_after(tree) == 0.2 + GRACE + REFUSED
    assert {name for _, name, what in lines if what != "flushed"} == {
        f"slow{number}" for number in range(depth)
    }


async def test_limits_below_do_not_count(clock: MockClock, lines: Lines) -> None:
    """Even INFINITY has no effect; a limit below one second still holds."""
    low = sup(
        "low",
        server(lines, "for ever", 100, shutdown=INFINITY),
        server(lines, "long", 100, shutdown=60),
        server(lines, "short", 100, shutdown=0.25),
    )
    mid = sup("mid", low, shutdown=BRUTAL_KILL)
    assert await left_after(mid) == GRACE
    assert lines == [
        (0, "short", Shutdown()),
        (0.25, "long", Shutdown()),
        (0.5, "for ever", Shutdown()),
    ]


async def test_who_waits_for_a_stubborn_neighbour_is_asked_in_time(
    clock: MockClock, lines: Lines, release: asyncio.Event
) -> None:
    """After half of the second, all levels stop their remaining children at once."""
    deep = sup("deep", server(lines, "c", 0.4), ChildSpec("no", stubborn, (release,)))
    low = sup("low", server(lines, "a", 0.4), deep, ChildSpec("no", stubborn, (release,)))
    mid = sup("mid", low, server(lines, "b", 0.4), shutdown=BRUTAL_KILL)
    assert await left_after(mid) == GRACE + REFUSED
    assert sorted(lines[:1] + lines[2:4], key=str) == [
        (0, "b", Killed()),
        (0.5, "a", Shutdown()),
        (0.5, "c", Shutdown()),
    ]
    assert [name for _, name, what in lines if what == "flushed"] == ["b", "a", "c"]


async def test_nobody_is_waited_for_who_has_ended(clock: MockClock, lines: Lines) -> None:
    """A tree that obeys ends as soon as its children have, and in order below."""
    low = sup("low", *(server(lines, name, 0.1) for name in "abc"))
    mid = sup("mid", sup("left", low), DynamicSupervisor.spec("pool"), shutdown=BRUTAL_KILL)
    assert await left_after(mid) == 0.3
    assert [name for _, name, what in lines if what == "flushed"] == ["c", "b", "a"]
    await asyncio.sleep(10)
    assert len(lines) == 6


async def test_a_pool_below_asks_all_its_children(clock: MockClock, lines: Lines) -> None:
    """Its children and nested trees may flush, whether the pool or a supervisor above is killed."""
    pools = [DynamicSupervisor.spec(name, shutdown=BRUTAL_KILL) for name in ("one", "two")]
    async with otpy.start(SupervisorSpec("app", [pools[0], sup("mid", pools[1])])) as app:
        for path in ("app/one", "app/mid/two"):
            pool = app.whereis(path).supervisor
            assert isinstance(pool, DynamicSupervisor)
            await pool.start_child(server(lines, f"{pool.process and pool.process.id}'s", 0.3))
            await pool.start_child(sup("low", server(lines, "low's", 0.3)))
        app.child("mid").kill()
        assert await app.child("mid").wait() == Killed()
        assert clock.now == 0.3
        app.child("one").kill()
        await asyncio.sleep(0.1)
    told = [(when, name, what) for when, name, what in lines if what != "flushed"]
    assert sorted(told, key=str) == [
        (0, "low's", Shutdown()),
        (0, "two's", Shutdown()),
        (0.3, "low's", Shutdown()),
        (0.3, "one's", Killed()),
    ]
    assert (clock.now, len(lines)) == (0.6, 8)


async def test_a_start_below_may_finish(clock: MockClock) -> None:
    """The start is hurried, its clean-up runs, and the caller gets the child."""
    done: list[str] = []

    @asynccontextmanager
    async def connection() -> AsyncGenerator[None]:
        await asyncio.sleep(0.6)
        try:
            yield
        finally:
            done.append("closed")

    async with otpy.start(SupervisorSpec("app", [sup("mid")]), hooks=()) as app:
        mid = app.child("mid").supervisor
        assert isinstance(mid, Supervisor)
        starting = asyncio.create_task(mid.start_child(ChildSpec("x", connection)))
        await asyncio.sleep(0.1)
        mid.kill()
        process = await starting
        assert process is not None
        assert await process.wait() == Killed()
    assert (done, clock.now) == (["closed"], 0.6)


async def test_a_start_below_that_takes_too_long_is_killed(clock: MockClock) -> None:
    """It is killed with the other children, when the second is over."""

    async def slow(*, task_status: TaskStatus[None]) -> None:
        await forever()

    async with otpy.start(SupervisorSpec("app", [sup("mid")]), hooks=()) as app:
        mid = app.child("mid").supervisor
        assert isinstance(mid, Supervisor)
        starting = asyncio.create_task(mid.start_child(ChildSpec("x", slow)))
        await asyncio.sleep(0)
        mid.kill()
        with pytest.raises(StartFailed, match="killed"):
            await starting
    assert clock.now == GRACE


async def test_plain_children_are_cancelled_once_and_killed_when_time_is_over(
    clock: MockClock, reports: Recording
) -> None:
    """A child that obeys its first cancellation has the whole second for its clean-up."""
    ends: list[tuple[str, float]] = []

    async def cleans_up(name: str, seconds: float) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(seconds)
            ends.append((name, clock.now))

    mid = sup(
        "mid",
        ChildSpec("quick", cleans_up, ("quick", 0.9)),
        ChildSpec("slow", cleans_up, ("slow", 1.1)),
        ChildSpec("own", cleans_up, ("own", 0.5), shutdown=0.2),
        shutdown=BRUTAL_KILL,
    )
    assert await left_after(mid, hooks=[reports]) == GRACE
    assert ends == [("quick", 0.9)]
    assert {r.id: r.reason for r in reports.of(ChildStopped, "app/mid/*")} == dict.fromkeys(
        ["quick", "slow", "own"], Killed()
    )
    assert reports.of(ChildAbandoned) == ()


async def test_no_grace_waits_for_nobody(clock: MockClock, lines: Lines) -> None:
    """As at a second Ctrl-C, every level is killed at once."""
    async with otpy.start(
        SupervisorSpec("app", [sup("low", server(lines, "a")), server(lines, "b")]), hooks=()
    ) as app:
        app.kill(grace=0)
        assert await app.wait() == Killed()
    assert (lines, clock.now) == ([], 0)


async def test_a_later_kill_makes_the_time_shorter(clock: MockClock, lines: Lines) -> None:
    """It never extends the time, because the earlier limit still holds."""
    tree = SupervisorSpec("app", [sup("mid", server(lines, "a", 100, shutdown=INFINITY))])
    async with otpy.start(tree, hooks=()) as app:
        app.kill(grace=30)
        await asyncio.sleep(3)
        app.kill(grace=60)
        app.kill(grace=7)
        assert await app.wait() == Killed()
        assert clock.now == 10
    assert lines == [(0, "a", Shutdown())]


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf"), "1", None, True])
async def test_a_grace_that_is_none_is_refused(grace: Any) -> None:
    """The call raises an error, and nothing has happened."""
    async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
        with pytest.raises(ValueError, match=r"^app: kill: grace is .*, wanted seconds"):
            app.kill(grace=grace)
        assert app.running


async def test_whoever_is_told_of_the_end_is_told_once(clock: MockClock, lines: Lines) -> None:
    """A monitor gets `Killed` of the supervisor when the whole branch has ended."""
    tree = SupervisorSpec("app", [sup("mid", sup("low", server(lines, "a", 0.5)))])
    async with otpy.start(tree, hooks=()) as app:
        process = app.child("mid")
        below = app.whereis("app/mid/low")
        monitor = process.monitor()
        process.kill()
        process.kill()
        assert (await monitor).reason == Killed()
        assert (clock.now, below.exit_reason) == (0.5, Killed())
