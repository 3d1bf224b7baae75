"""A tree whose files cannot be written for a while: it waits, and no child is blamed."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from otpy.reports import ChildExited
from otpy_agents.agent.memory import Disk
from otpy_agents.errors import LedgerUnwritable
from otpy_agents.store.records import State
from otpy_agents.testing import Hang, Script, UseTool
from tests.agents.world import World, agent, assignment, path_of, program, typed, work

FULL = os.strerror(errno.ENOSPC)
CRASHES = program(code=1)


class FullDisk:
    """A disk below stores, whose changes fail as on a real one while it is full."""

    full = True

    def below(self, *stores: Any) -> FullDisk:
        for store in stores:
            self._limit(store)
        return self

    def _limit(self, store: Any) -> None:
        change = store._file.change

        async def limited(work: Callable[[Any], Awaitable[Any]]) -> Any:
            if self.full:
                raise LedgerUnwritable(store.path, FULL)
            return await change(work)

        store._file.change = limited

    def free_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, setattr, self, "full", False)


async def test_programs_go_on_and_none_is_begun_before_there_is_room(world: World) -> None:
    """Jake waits and is not restarted; one line tells the outage, and one its end."""
    world.sandbox.scripts = {
        "a": [program(seconds=5.0)],
        "b": [CRASHES, program()],
        "c": [program(seconds=900.0)],
    }
    text = work(assignment("a"), assignment("b", backoff=[5]), assignment("c"), parallel=3)
    async with world.running(text) as root:
        await asyncio.sleep(0.5)
        disk = FullDisk().below(world.project.desk.memory.ledger)
        disk.free_after(600.0)
        await asyncio.sleep(550.0)
        assert world.times() == {"a": 1, "b": 1, "c": 1}
        await root.wait()
    assert {name: one.state for name, one in world.known.items()} == dict.fromkeys(
        "abc", State.DONE
    )
    assert world.times() == {"a": 1, "b": 2, "c": 1}
    assert world.known["b"].restarts == 1
    assert world.names("Jake", "jake.") == []
    written = world.event("state.written")
    assert (written.at, written.detail["seconds"]) == pytest.approx((600.5, 600.0), abs=30.0)
    said = [one.name for one in world.told if one.name.startswith("state.")]
    assert said == ["state.unwritable", "state.written"]
    reason = str(world.event("state.unwritable").detail["reason"])
    assert reason.startswith(f"{world.project.desk.memory.ledger.path}: {FULL}; what works goes on")


async def test_the_keeper_of_budgets_waits_for_the_disk_as_others_do(world: World) -> None:
    """It tells the outage, with nobody else writing; it is not restarted, and ends at once."""
    world.sandbox.scripts["a"] = [program(seconds=900.0)]
    async with world.running(work(assignment("a"))) as root:
        await asyncio.sleep(0.5)
        disk = FullDisk().below(world.ledger)
        await asyncio.sleep(100.0)
        assert [one.name for one in world.told if one.id == "list"] == ["state.unwritable"]
        disk.full = False
        await asyncio.sleep(100.0)
        assert await world.ledger.agents.get("budget") is not None
        keeper = path_of(root, "MonitorSupervisor", "LedgerKeeper").path
        disk.full = True
        began = asyncio.get_running_loop().time()
        await root.stop()
        assert asyncio.get_running_loop().time() - began < 1.0
        disk.full = False
    assert not [one for one in world.reports if isinstance(one, ChildExited) and one.path == keeper]


async def test_a_grant_in_an_outage_is_not_undone_by_older_numbers(world: World) -> None:
    """What the keeper of budgets saves when the disk takes it are the numbers of that moment."""
    world.sandbox.scripts["a"] = [Script(UseTool(lasts=900.0))]
    async with world.running(agent("a", tokens=500)):
        await asyncio.sleep(20.0)
        disk = FullDisk().below(world.ledger)
        await asyncio.sleep(200.0)
        disk.full = False
        await typed(world, "grant", agent="a", tokens=1000)
        stored: set[int] = set()
        for _ in range(400):
            plain = json.loads(await world.ledger.agents.get("budget") or "")
            (limit,) = (one["pots"]["tokens"]["limit"] for one in plain["accounts"][1:])
            stored.add(limit)
            await asyncio.sleep(0.1)
    assert stored == {1500}


async def test_how_a_life_went_is_written_when_there_is_room(world: World) -> None:
    """Its seconds are those of its work, and not those of the outage, in each life of it."""
    world.sandbox.scripts["a"] = [program(seconds=5.0, code=3), program(seconds=7.0)]
    async with world.running(work(assignment("a", backoff=[1]))) as root:
        await asyncio.sleep(0.5)
        disk = FullDisk().below(world.ledger)
        disk.free_after(50.0)
        await world.until(lambda: world.times() == {"a": 2})
        disk.full = True
        disk.free_after(300.0)
        await root.wait()
    known = world.known["a"]
    assert (known.state, known.exit_code) == (State.DONE, 0)
    assert known.seconds == pytest.approx(12.0, abs=0.1)


async def test_agents_go_on_and_lose_nothing(world: World) -> None:
    """This includes a run that ends while neither its session nor its end can be stored."""
    world.sandbox.scripts = {"a": [Script(UseTool(lasts=50.0))], "b": [Script()]}
    async with world.running("[list]\nparallel = 1\n" + agent("a") + agent("b")) as root:
        await asyncio.sleep(20.0)
        disk = FullDisk().below(world.ledger, world.workplace.store)
        disk.free_after(400.0)
        await root.wait()
    assert {name: one.state for name, one in world.known.items()} == dict.fromkeys("ab", State.DONE)
    assert {name: one.restarts for name, one in world.known.items()} == {"a": 0, "b": 0}
    assert world.names("Jake", "jake.") == []


@pytest.mark.parametrize("full", ["the ledger", "both"])
async def test_an_agent_is_paused_and_reaped_on_a_full_disk(world: World, full: str) -> None:
    """Both happen at once, and are stored when there is room."""
    world.sandbox.scripts = {"a": [Script(UseTool(), Hang())], "b": [Script(UseTool(), Hang())]}
    async with world.running(agent("a") + agent("b")) as root:
        await asyncio.sleep(20.0)
        stores = (world.ledger, world.workplace.store)
        disk = FullDisk().below(*(stores if full == "both" else stores[:1]))
        await typed(world, "pause", agent="b")
        await asyncio.sleep(10.0)
        b = world.pool.mortal("b")
        assert (b.state, b.paused and b.paused.by) == ("waiting_for_wakeup", "operator")
        for name in ("a", "b"):
            assert await typed(world, "reap", agent=name, why="enough") == "reaped"
        assert not world.sandbox.alive
        disk.free_after(100.0)
        await root.wait()
    assert {(one.state, one.reason.split(" (")[0]) for one in world.records} == {
        (State.REAPED, "enough")
    }


async def test_a_wait_for_the_disk_is_told_once() -> None:
    """Many waiting callers cause one notice of the outage, and one of its end."""
    told: list[str] = []
    tries: list[float] = []

    def tell(name: str, _id: str, **_detail: object) -> None:
        told.append(name)

    async def write() -> str:
        tries.append(asyncio.get_running_loop().time() - began)
        if tries[-1] < 100.0:
            raise LedgerUnwritable(Path("w.sqlite"), FULL)
        return "written"

    began, disk = asyncio.get_running_loop().time(), Disk(tell)
    assert await asyncio.gather(*(disk.until_written(write) for _ in range(3))) == ["written"] * 3
    assert tries[::3] == pytest.approx([0, 1, 2, 4, 8, 16, 32, 62, 92, 122])
    assert told == ["state.unwritable", "state.written"]
