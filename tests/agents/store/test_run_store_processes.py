from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from otpy_agents.store import RunStore
from tests.agents.store.run_world import Program, create, save, story

pytestmark = pytest.mark.real_time

WRITES_FOR_EVER = """
async def main():
    async with RunStore(path) as store:
        lease = await create(store, "r", "0")
        for n in range(1, 100_000):
            changes = [ended(n - 1, str(n))] if n > 1 else []
            await save(store, lease, str(n), *changes, begun(n))
            print(n, flush=True)
"""
WRITES_AND_WAITS = """
async def main():
    async with RunStore(path) as store:
        print(store.host, flush=True)
        sys.stdin.readline()
        lease = await create(store, f"r{store.host}", "0")
        for n in range(1, 51):
            changes = [ended(n - 1)] if n > 1 else []
            await save(store, lease, str(n), *changes, begun(n))
            print(await store.take_turn("env"))
"""
TAKES_WHAT_IT_CAN = """
async def main():
    async with RunStore(path) as store:
        print("open", flush=True)
        sys.stdin.readline()
        for run in await store.dead_runs():
            try:
                await store.take_over(run.id)
                print(run.id)
            except RunHeld:
                pass
        print("", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "runs.sqlite3"


@pytest.mark.parametrize("moment", [0, 0.0007, 0.0019, 0.0031])
async def test_after_a_kill_the_state_is_the_old_or_the_new_one(path: Path, moment: float) -> None:
    """A host that is killed at any moment leaves the last confirmed state, or one change more.

    The attempts are always those of the state, and the run is there to be taken over.
    """
    with Program(path, WRITES_FOR_EVER) as program:
        told = [program.line() for _ in range(3)]
        await asyncio.sleep(moment)  # the moment of the kill is the point
        program.kill()
        told += program.lines()
    async with RunStore(path) as store:
        assert [run.id for run in await store.dead_runs()] == ["r"]
        taken = await store.take_over("r")
        last = int(taken.state)
        assert last - int(told[-1]) in {0, 1}
        assert story(taken) == [*((n, str(n + 1)) for n in range(1, last)), (last, None)]
        await save(store, taken.lease, "over", exit_code=1)


async def test_two_hosts_write_side_by_side(path: Path) -> None:
    """Both make the file at once, neither loses or waits for ever, and each turn is taken once."""
    with Program(path, WRITES_AND_WAITS) as one, Program(path, WRITES_AND_WAITS) as two:
        assert {one.line(), two.line()} == {"1", "2"}
        one.go_on()
        two.go_on()
        turns = [int(turn) for program in (one, two) for turn in program.lines()]
    assert sorted(turns) == list(range(100))
    async with RunStore(path) as store:
        for name in ("r1", "r2"):
            run = await store.run(name)
            assert run.state == "50"
            assert [number for number, _ in story(run)] == list(range(1, 51))
        assert {run.id for run in await store.dead_runs()} == {"r1", "r2"}


async def test_exactly_one_of_two_hosts_takes_a_run_over(path: Path) -> None:
    """In any race, no run of a dead host is taken twice, and none is left (G-19)."""
    names = {f"r{number:02}" for number in range(40)}
    async with RunStore(path) as leaving:
        for name in names:
            await create(leaving, name)
    with Program(path, TAKES_WHAT_IT_CAN) as one, Program(path, TAKES_WHAT_IT_CAN) as two:
        assert (one.line(), two.line()) == ("open", "open")
        one.go_on()
        two.go_on()
        taken = [list(iter(program.line, "")) for program in (one, two)]
        assert sorted([*taken[0], *taken[1]]) == sorted(names)
        async with RunStore(path) as store:
            holders = {run.id: run.host for run in await store.runs()}
            assert {run.fence for run in await store.runs()} == {2}
    for mine in taken:
        assert len({holders[name] for name in mine}) <= 1


async def test_a_killed_host_is_seen_as_dead_and_its_file_is_sound(path: Path) -> None:
    """Its pid and start time show that; no timeout has to pass."""
    with Program(path, WRITES_FOR_EVER) as program:
        program.line()
        async with RunStore(path) as store:
            holder = await store.holder("r")
            assert (holder.pid, holder.lives()) == (program.pid, True)
            program.kill()
            assert not holder.lives()
            assert not (await store.holder("r")).lives()
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
