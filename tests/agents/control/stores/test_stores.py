"""Stores of the control plane: the promises of each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otpy_agents.control.state import CompletedTask, ProjectState, ProjectStatus
from otpy_agents.control.stores import ControlStore, Record, SqliteControl
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.stores.redis import RedisControl
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import ProjectHeld, StateMissing
from tests.agents.host import PATIENCE
from tests.examples import examples

pytestmark = pytest.mark.real_time

Opens = Callable[[], AbstractAsyncContextManager[ControlStore]]

RUNNING = evolve(ProjectState(), status=ProjectStatus.RUNNING, description="Build it")


def task(name: str) -> ControlTask:
    return ControlTask(
        task_id=name,
        intent="i",
        tool="claude",
        instructions="do it",
        acceptance_criteria=(f"{name}.py exists",),
    )


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.slow)])
def opens(tmp_path: Path, request: pytest.FixtureRequest) -> Opens:
    """Opens the store of one project, as a new host does."""
    log = tmp_path / "events.sqlite3"
    if request.param == "sqlite":
        return lambda: SqliteControl(log, "control/x/key", "sandbox")
    port: int = request.getfixturevalue("redis_port")
    name = tmp_path.name
    place = RedisPlace(host="127.0.0.1", port=port, state_key=name, queue_name=name)
    return lambda: RedisControl(place, log, "control/x/key")


async def test_without_a_state_there_is_one_clear_error(opens: Opens) -> None:
    """CTL-23: the error names the command that makes a state."""
    async with opens() as store:
        with pytest.raises(StateMissing, match=r"got no state, .* control init-state"):
            await store.load()


async def test_a_state_is_what_was_written_for_the_next_host_too(opens: Opens) -> None:
    """CTL-22."""
    async with opens() as store:
        assert await store.change(None, RUNNING) == RUNNING
    async with opens() as store:
        assert await store.load() == RUNNING


async def test_beginning_anew_forgets_what_was_there(opens: Opens) -> None:
    """`init-state` does this."""
    async with opens() as store:
        await store.change(None, evolve(RUNNING, iteration=4, retry_counts={"t": 1}))
        assert await store.change(None, RUNNING) == RUNNING


async def test_who_was_halted_meanwhile_stays_halted(opens: Opens) -> None:
    """The other writer's changes are not lost."""
    async with opens() as loop, opens() as operator:
        seen = await loop.change(None, RUNNING)
        halted = seen.halted("operator", "lunch")
        await operator.change(seen, halted, actor="ann")
        done = CompletedTask("t", "2025-01-01T00:00:00.000Z", {"valid": True})
        stands = await loop.change(seen, evolve(seen, iteration=1, completed_tasks=(done,)))
        assert (stands.status, stands.halt_reason) == (ProjectStatus.HALTED, "operator")
        assert (stands.iteration, stands.completed_tasks) == (1, (done,))
        resumed = evolve(stands, status=ProjectStatus.RUNNING, halt_reason=None)
        assert (await operator.change(stands, resumed)).status is ProjectStatus.RUNNING


async def test_two_writers_lose_nothing_of_each_other(opens: Opens) -> None:
    """An operator sets the goal while the loop counts."""
    async with opens() as loop, opens() as operator:
        seen = await loop.change(None, RUNNING)
        await asyncio.gather(
            operator.change(seen, evolve(seen, description="another")),
            loop.change(seen, evolve(seen, retry_counts={"t": 2})),
        )
        stands = await loop.load()
    assert (stands.description, stands.retry_counts) == ("another", {"t": 2})


async def test_tasks_come_in_their_order_and_a_reserved_one_first(opens: Opens) -> None:
    """CTL-25, C-39: it comes first until it is settled, for the next host too."""
    async with opens() as store:
        assert await store.reserve() is None
        await store.push([task("a"), task("b")], actor="ann")
        await store.push([task("c")])
        assert await store.reserve() == task("a")
    async with opens() as store:
        assert await store.reserve() == task("a")
        assert [one.task_id for one in await store.queued()] == ["a", "b", "c"]
        await store.settle("a")
        await store.settle("a")
        await store.settle("c")
        assert await store.reserve() == task("b")
        assert [one.task_id for one in await store.queued()] == ["b", "c"]


async def test_a_project_is_worked_on_by_one_host(opens: Opens) -> None:
    """G-19: the other host's error names the process; lease numbers grow."""
    async with opens() as first, opens() as second:
        async with first.lease() as number:
            with pytest.raises(ProjectHeld, match=r"project that process \d+ works on"):
                await second.lease().__aenter__()
        async with second.lease() as later:
            assert later > number


async def test_who_has_lost_its_lease_writes_nothing(opens: Opens) -> None:
    """Such a host was asleep, for example, while another one took over."""
    async with opens() as first, opens() as second:
        seen = await first.change(None, RUNNING)
        held = first.lease()
        await held.__aenter__()
        if isinstance(first, SqliteControl):
            first._lock.release()
        else:
            assert isinstance(first, RedisControl)
            await first._states.delete(first._lease_key)
        async with second.lease():
            with pytest.raises(ProjectHeld):
                await first.change(seen, evolve(seen, iteration=1))
        await held.__aexit__(None, None, None)
        assert (await second.load()).iteration == 0


async def test_a_halt_of_another_program_is_heard_at_once(opens: Opens) -> None:
    """CTL-54: a waiting loop hears of the halt."""
    async with opens() as loop, opens() as operator:
        await loop.change(None, RUNNING)
        waiting = asyncio.create_task(loop.halted())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await operator.halt("OPERATOR", "lunch", actor="ann")
        async with asyncio.timeout(PATIENCE):
            assert (await waiting).halt_details == "lunch"


async def test_a_change_and_what_is_told_of_it_are_one(opens: Opens) -> None:
    """C-19: the record is in the log, after the change, with its actor."""
    async with opens() as store:
        await store.change(None, RUNNING, Record("halted", {"reason": "x"}), actor="ann")
        events = [event async for event in store.log.read(stream=store.stream)]
    assert [(event.name, event.actor) for event in events] == [
        ("project_changed", "ann"),
        ("halted", "ann"),
    ]


steps = st.lists(
    st.one_of(st.just("push"), st.just("take"), st.just("settle"), st.just("open again")),
    max_size=30,
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_no_task_is_lost_and_none_is_served_again_once_settled(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """The host may be stopped at any point between taking and settling."""
    path = tmp_path_factory.mktemp("queue") / "events.sqlite3"

    async def play() -> None:
        pushed: list[str] = []
        served: list[str] = []
        hand: str | None = None
        store = SqliteControl(path, "control/x/key", "sandbox")
        await store.__aenter__()
        for step in steps:
            match step:
                case "push":
                    pushed.append(f"t{len(pushed)}")
                    await store.push([task(pushed[-1])])
                case "take":
                    got = await store.reserve()
                    assert hand is None or (got is not None and got.task_id == hand)
                    hand = got.task_id if got else None
                case "settle" if hand is not None:
                    await store.settle(hand)
                    served.append(hand)
                    hand = None
                case _:
                    await store.__aexit__(None, None, None)
                    store = SqliteControl(path, "control/x/key", "sandbox")
                    await store.__aenter__()
        waiting = [one.task_id for one in await store.queued()]
        await store.__aexit__(None, None, None)
        assert served + waiting == pushed

    asyncio.run(play())
