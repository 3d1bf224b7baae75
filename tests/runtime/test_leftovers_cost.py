"""The cost of finding left-over tasks: nothing where there are none."""

from __future__ import annotations

import asyncio

import pytest

import otpy
from otpy import ChildSpec, GenServer, SupervisorSpec
from otpy._runtime import leftovers
from otpy._runtime.leftovers import Leftovers
from otpy._runtime.life import Life, Presence
from otpy.server import NoReply, Reply
from otpy.testing import MockClock, simulate
from tests.runtime.children import Boom, forever
from tests.runtime.leaving import Left, crashes
from tests.runtime.test_memory import count


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the times of all searches through the tasks of the loop."""
    times: list[float] = []
    search = Leftovers._search

    def counted(self: Leftovers) -> None:
        times.append(asyncio.get_running_loop().time())
        search(self)

    monkeypatch.setattr(Leftovers, "_search", counted)
    return times


@pytest.mark.usefixtures("clock")
async def test_lives_without_tasks_of_their_own_cost_no_search(searches: list[float]) -> None:
    """This holds for all kinds of children and ends, with timers and finished tasks."""

    async def child() -> None:
        if otpy.current().incarnation > 1:
            await forever()
        await asyncio.sleep(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1))
        await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
        raise Boom

    async def asks(server: str) -> None:
        if otpy.current().incarnation == 1:
            await Pure.at(server, otpy.current().root).call(None)
        await forever()

    class Pure(GenServer[None, None, None]):
        def init(self) -> None:
            pass

        def handle_call(self, request: None, caller: object, state: None) -> Reply[None, None]:
            raise Boom

        async def handle_cast(self, request: None, state: None) -> NoReply[None]:
            raise Boom

    children = [
        ChildSpec("c", child),
        ChildSpec("s", Pure),
        ChildSpec("t", Pure),
        ChildSpec("a", asks, ("app/s",)),
    ]
    inner = SupervisorSpec("in", [ChildSpec("c", child)])
    spec = SupervisorSpec("app", [*children, inner], intensity=100)
    async with otpy.start(spec, hooks=()) as app:
        server, process = Pure.at("app/t", app), app.child("c")
        server.cast(None)
        await app.wait_for_restart("t", after=1)
        await app.wait_for_restart("c", after=1)
        await app.terminate_child("s")
        assert not process.alive
    assert searches == []


async def test_one_search_serves_all_that_ended_in_a_turn(
    clock: MockClock, left: Left, searches: list[float]
) -> None:
    """A hundred lives with tasks of their own leave nothing behind."""
    children = [ChildSpec(f"c{number}", crashes, (left,)) for number in range(100)]
    async with otpy.start(SupervisorSpec("app", children, intensity=1000), hooks=()):
        await asyncio.sleep(1.5)
        assert left.states == "c" * 100 + "r" * 100
        assert searches == [1, 1]  # the second for tasks that their clean-up may have made


async def test_searches_for_nothing_are_rare(clock: MockClock, searches: list[float]) -> None:
    """A cancelled timer keeps a context too, and so causes a search that finds nothing."""
    lives = 0

    async def child() -> None:
        nonlocal lives
        lives += 1
        async with asyncio.timeout(3600):
            await asyncio.sleep(0.001)
        raise Boom

    others = [ChildSpec(f"c{number}", forever) for number in range(500)]
    spec = SupervisorSpec("app", [*others, ChildSpec("c", child)], intensity=10_000)
    async with otpy.start(spec, hooks=()):
        await asyncio.sleep(1)
        assert lives > 900
        paid_for = (1 + leftovers._CREDIT) / leftovers._COST
        assert paid_for / 502 - 10 < len(searches) <= paid_for / 502 + 1
    assert clock.now == 1


@pytest.mark.usefixtures("clock")
async def test_nothing_is_kept_of_lives_that_left_nothing() -> None:
    """The tree keeps neither their processes nor the objects that represent them."""

    async def child() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(0.001)
        if otpy.current().incarnation < 200:
            raise Boom
        await forever()

    before = count(Life) + count(Presence)
    spec = SupervisorSpec("app", [ChildSpec("c", child)], intensity=1000)
    async with otpy.start(spec, hooks=()) as app:
        await app.wait_for_restart("c", after=199)
        await asyncio.sleep(2)
        assert count(Life) + count(Presence) - before == 1


async def test_without_reference_counts_every_life_is_looked_at(
    clock: MockClock, left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a Python without reference counts, the tasks are still found."""
    monkeypatch.setattr(leftovers, "_ALONE", 0)
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", crashes, (left,))])) as app:
        await app.wait_for_restart("c", after=3)
        await clock.advance(0.01)
        assert left.states == "cccr"
    assert left.states == "cccc"


@pytest.mark.parametrize("seed", range(20))
def test_they_end_in_every_order_of_a_simulation(seed: int) -> None:
    """No task is left, and each seed has exactly one trace."""
    left = Left()

    async def child() -> None:
        left.behind(name="a")
        left.behind(crashes(left), name="b")
        await asyncio.sleep(1)
        raise Boom

    spec = SupervisorSpec("app", [ChildSpec("c", child)], intensity=100)
    one = simulate(spec, seed=seed, until=5.0)
    assert simulate(spec, seed=seed, until=5.0).trace == one.trace
