from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from otpy_agents.errors import LedgerClosed, RunExists, RunHeld, RunLost, UnknownRun
from otpy_agents.store import Lease, RunStore, default_state, new_run_id
from tests.agents.store.run_world import Clock, begun, create, ended, let_die, save, story

pytestmark = pytest.mark.real_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the store."""
    return tmp_path / "otpy" / "runs.sqlite3"


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until a test moves it."""
    return Clock()


@pytest.fixture
async def store(path: Path, clock: Clock) -> AsyncGenerator[RunStore]:
    """An open store."""
    async with RunStore(path, clock=clock) as opened:
        yield opened


@pytest.fixture
async def other(store: RunStore, path: Path, clock: Clock) -> AsyncGenerator[RunStore]:
    """Another host on the same file."""
    async with RunStore(path, clock=clock) as opened:
        yield opened


# --- the story of a run ---------------------------------------------------------------------------


async def test_the_story_of_a_run_is_kept(path: Path, clock: Clock) -> None:
    """State, attempts, times and exit code survive the host."""
    async with RunStore(path, clock=clock) as store:
        lease = await create(store, "r", '{"n": 0}')
        clock.now += 1
        await save(store, lease, '{"n": 1}', begun(1))
        await store.identify(lease, 1, '{"pid": 7}')
        clock.now += 1
        await save(store, lease, '{"n": 2}', ended(1, '"crash"'), begun(2))
        clock.now += 1
        await save(store, lease, '{"n": 3}', ended(2, '"done"'), exit_code=0)
    async with RunStore(path, as_host=False, clock=clock) as reader:
        run = await reader.run("r")
        assert (run.record,) == await reader.runs()
    record = run.record
    assert (run.state, record.version, record.status) == ('{"n": 3}', 1, "running")
    assert (record.agent, record.prompt, record.cwd) == ("claude", "do it", "/here")
    assert (record.created, record.changed, record.finished) == (1e6, 1e6 + 3, 1e6 + 3)
    assert (record.exit_code, record.host, record.fence) == (0, 1, 1)
    assert story(run) == [(1, '"crash"'), (2, '"done"')]
    first, second = run.attempts
    assert (first.started, first.ended, first.identity) == (1e6 + 1, 1e6 + 2, '{"pid": 7}')
    assert (second.started, second.identity) == (1e6 + 2, None)


async def test_a_state_and_its_attempts_are_stored_together_or_not_at_all(store: RunStore) -> None:
    """If one of them is refused, nothing of the change is stored."""
    lease = await create(store)
    await save(store, lease, "1", begun(1))
    with pytest.raises(LookupError, match="got attempt 3, wanted one that was begun"):
        await save(store, lease, "2", begun(2), ended(3))
    with pytest.raises(ValueError, match="got attempt 1 once more, wanted a new number"):
        await save(store, lease, "2", ended(1), begun(1))
    with pytest.raises(LookupError, match="got attempt 2"):
        await store.identify(lease, 2, "{}")
    run = await store.run("r")
    assert (run.state, story(run)) == ("1", [(1, None)])


async def test_an_attempt_ends_once(store: RunStore, clock: Clock) -> None:
    """A later end does not overwrite the first one."""
    lease = await create(store)
    await save(store, lease, "1", begun(1))
    await save(store, lease, "2", ended(1, '"first"'))
    clock.now += 1
    await save(store, lease, "2", ended(1, '"second"'))
    (attempt,) = (await store.run("r")).attempts
    assert (attempt.outcome, attempt.ended) == ('"first"', 1e6)


async def test_lists_show_the_newest_first(store: RunStore, clock: Clock) -> None:
    """On request they show only unfinished runs."""
    leases: list[Lease] = []
    for name in "abc":
        leases.append(await create(store, name))
        clock.now += 1
    await save(store, leases[1], exit_code=1)
    assert [run.id for run in await store.runs()] == ["c", "b", "a"]
    assert [run.id for run in await store.runs(unfinished=True)] == ["c", "a"]


async def test_an_id_is_used_once(store: RunStore, other: RunStore) -> None:
    """A second run with the same id is refused, from any host."""
    await create(store, "r", "1")
    for again in (store, other):
        with pytest.raises(RunExists, match="run 'r': got an id that is taken"):
            await create(again, "r", "2")
    assert (await store.run("r")).state == "1"
    assert len({new_run_id() for _ in range(100)}) == 100
    assert len(new_run_id()) == 10
    assert int(new_run_id(), 16) >= 0


async def test_an_unknown_run_is_named(store: RunStore) -> None:
    """Every operation on it raises the same error."""
    asked = [store.run("x"), store.holder("x"), store.take_over("x"), save(store, Lease("x", 1))]
    for question in asked:
        with pytest.raises(UnknownRun, match="run 'x': got an unknown id"):
            await question


# --- whose run it is (G-19) -----------------------------------------------------------------------


async def test_a_run_of_a_living_host_is_not_taken_over(store: RunStore, other: RunStore) -> None:
    """It is not shown as dead, either."""
    await create(store)
    assert await other.dead_runs() == ()
    with pytest.raises(RunHeld, match=f"held by process {os.getpid()}"):
        await other.take_over("r")
    assert (await other.holder("r")).id == store.host


async def test_a_host_that_lost_its_run_is_told_at_its_next_write(
    store: RunStore, other: RunStore, path: Path
) -> None:
    """It counted as dead; nothing that it writes from then on is stored (G-19)."""
    lease = await create(store)
    await save(store, lease, "1", begun(1))
    let_die(path, store.host)
    assert [run.id for run in await other.dead_runs()] == ["r"]
    taken = await other.take_over("r")
    assert (taken.state, story(taken), taken.lease.fence) == ("1", [(1, None)], 2)
    for write in (save(store, lease, "2", ended(1)), store.identify(lease, 1, "{}")):
        with pytest.raises(RunLost, match=f"taken over by process {os.getpid()}"):
            await write
    await save(other, taken.lease, "3", ended(1, '"interrupted"'))
    run = await store.run("r")
    assert (run.state, story(run)) == ("3", [(1, '"interrupted"')])
    assert await other.dead_runs() == ()


async def test_a_pid_alone_is_not_trusted(store: RunStore, path: Path) -> None:
    """A host is dead if its pid has another start time, although a process has that pid."""
    await create(store)
    assert (await store.holder("r")).lives()
    let_die(path, store.host)
    assert not (await store.holder("r")).lives()


async def test_what_a_host_left_unfinished_may_be_taken_over_when_it_has_ended(
    store: RunStore, path: Path, clock: Clock
) -> None:
    """A host that signed off counts like a dead one."""
    async with RunStore(path, clock=clock) as leaving:
        lease = await create(leaving, "r")
        await save(leaving, await create(leaving, "finished"), exit_code=0)
    assert [run.id for run in await store.dead_runs()] == ["r"]
    assert (await store.take_over("r")).record.host == store.host
    with pytest.raises(LedgerClosed):
        await save(leaving, lease)


async def test_a_task_that_is_restarted_is_rid_of_its_former_life(store: RunStore) -> None:
    """Within one host too, only the latest lease writes."""
    former = await create(store)
    latter = (await store.take_over("r")).lease
    await save(store, latter, "new")
    with pytest.raises(RunLost):
        await save(store, former, "old")
    assert (await store.run("r")).state == "new"


async def test_a_reader_works_on_nothing(path: Path) -> None:
    """It is not a host, and gets an error when it works like one."""
    async with RunStore(path, as_host=False) as reader:
        for work in (create(reader), reader.take_over("r")):
            with pytest.raises(RuntimeError, match="wanted one of a host"):
                await work
        assert (reader.host, await reader.runs()) == (0, ())


# --- turns ----------------------------------------------------------------------------------------


async def test_each_turn_is_taken_once(store: RunStore, other: RunStore) -> None:
    """One of all hosts takes it; each cursor counts for itself (G-09)."""
    turns = [one.take_turn("env") for one in (store, other) * 5]
    assert sorted(await asyncio.gather(*turns)) == list(range(10))
    assert await store.take_turn("another") == 0


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(10))
async def test_a_cancelled_save_neither_loses_nor_halves_a_change(
    store: RunStore, turns: int
) -> None:
    """Whenever the cancellation comes, state and attempt are both stored, or neither is."""
    lease = await create(store, "r", "0")
    task = asyncio.create_task(save(store, lease, "1", begun(1)))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    run = await store.run("r")
    saved = turns > 0
    assert run.state == ("1" if saved else "0")
    assert story(run) == ([(1, None)] if saved else [])


async def test_a_run_whose_taker_was_cancelled_can_be_taken_again(
    store: RunStore, path: Path
) -> None:
    """The first lease got lost with the answer."""
    async with RunStore(path) as leaving:
        await create(leaving)
    task = asyncio.create_task(store.take_over("r"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert await store.dead_runs() == ()
    await save(store, (await store.take_over("r")).lease, "1")


# --- tidying --------------------------------------------------------------------------------------


async def test_purging_deletes_what_finished_long_ago(
    store: RunStore, path: Path, clock: Clock
) -> None:
    """Their attempts go, too; a second run changes nothing more (TREE-46)."""
    async with RunStore(path, clock=clock) as leaving:
        for name in ("old", "young", "unfinished"):
            lease = await create(leaving, name)
            await save(leaving, lease, "", begun(1))
            if name != "unfinished":
                await save(leaving, lease, "", exit_code=1)
            clock.now += 100
    assert await store.purge(1000) == 0
    assert await store.purge(250) == 1
    assert await store.purge(250) == 0
    assert [run.id for run in await store.runs()] == ["unfinished", "young"]
    assert story(await store.run("young")) == [(1, None)]
    await save(store, (await store.take_over("unfinished")).lease, exit_code=0)
    clock.now += 1000
    assert await store.purge(150) == 2
    assert [host.id for host in await store._hosts.all()] == [store.host]


async def test_a_new_host_clears_the_sockets_of_dead_ones(
    store: RunStore, path: Path, clock: Clock, socket_at: Callable[[Path], None]
) -> None:
    """The sockets of living hosts stay, and so does a file that is not a socket."""
    async with RunStore(path, clock=clock) as living, RunStore(path, clock=clock) as odd:
        socket_at(store.socket)
        socket_at(living.socket)
        odd.socket.touch()
        let_die(path, store.host)
        let_die(path, odd.host)
        async with RunStore(path, clock=clock):
            pass
        assert not store.socket.exists()
        assert living.socket.is_socket()
        assert odd.socket.is_file()


# --- where it is ----------------------------------------------------------------------------------


def test_the_file_lies_where_the_user_keeps_state() -> None:
    """A variable names another file; a relative `XDG_STATE_HOME` is no place."""
    home = {"HOME": "/home/ada"}
    assert default_state(home) == Path("/home/ada/.local/state/otpy/runs.sqlite3")
    assert default_state({**home, "XDG_STATE_HOME": "state"}) == default_state(home)
    there = {**home, "XDG_STATE_HOME": "/state"}
    assert default_state(there) == Path("/state/otpy/runs.sqlite3")
    assert default_state({**there, "OTPY_STATE": "mine"}) == Path("mine")


async def test_nobody_else_can_look_into_it(tmp_path: Path) -> None:
    """A new folder is 0700 and its files are 0600, under any umask."""
    path = tmp_path / "a" / "b" / "runs.sqlite3"
    umask = os.umask(0)
    try:
        async with RunStore(path) as store:
            await create(store)
            modes = {
                one.name: stat.S_IMODE(one.stat().st_mode)
                for one in (path.parent, *path.parent.iterdir())
            }
    finally:
        os.umask(umask)
    files = {f"runs.sqlite3{end}": 0o600 for end in ("", "-wal", "-shm")}
    assert modes == {"b": 0o700, **files}
