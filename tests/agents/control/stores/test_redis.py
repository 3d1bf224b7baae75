"""The store in Redis: the layout of other programs, and a server that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, final

import pytest
from attrs import evolve

from otpy_agents.control import orders
from otpy_agents.control.state import CompletedTask, ExecutionMode
from otpy_agents.control.stores import Record
from otpy_agents.control.stores import redis as module
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.stores.redis import RedisControl
from otpy_agents.control.task import ControlTask
from otpy_agents.errors import (
    InvalidTask,
    ProjectHeld,
    StateMissing,
    StoreRefused,
    StoreUnreachable,
)
from tests.agents.host import CHECKOUT, PATIENCE
from tests.servers.server_program import program, running

pytestmark = [pytest.mark.slow, pytest.mark.real_time]

BY_HAND: dict[str, Any] = {
    "supervisor": {"status": "RUNNING", "iteration": 4},
    "goal": {"description": "Build it", "completed": True},
    "queue": {"exhausted": False},
    "completed_tasks": [],
    "blocked_tasks": [],
    "execution_mode": "AUTO",
    "last_updated": "2025-01-01T00:00:00.000Z",
    "their own": [1],
}
TASK = {
    "task_id": "task-001",
    "intent": "i",
    "tool": "claude",
    "instructions": "do it",
    "acceptance_criteria": ["a.py exists"],
    "retry_policy": {"max_retries": 1},
    "status": "pending",
}


@pytest.fixture
def port(tmp_path: Path) -> Generator[int]:
    """Run Redis; yield its port."""
    command = [program("redis-server"), "--save", "", "--dir", str(tmp_path), "--port"]
    with running(lambda port: [*command, str(port)]) as port:
        yield port


def store(port: int, tmp_path: Path) -> RedisControl:
    place = RedisPlace(host="127.0.0.1", port=port)
    return RedisControl(place, tmp_path / "events.sqlite3", "control/x/key")


def plain(port: int, db: int, *words: str) -> str:
    """Ask Redis as a client that does not know this project."""
    redis = program("redis-cli")
    command = [redis, "-p", str(port), "-n", str(db), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


async def test_what_another_program_wrote_by_hand_is_served(port: int, tmp_path: Path) -> None:
    """CTL-22, CTL-25: a state, and a queue that was pushed on the left; unknown fields are kept."""
    plain(port, 0, "SET", "supervisor:state", json.dumps(BY_HAND))
    for name in ("task-001", "task-002"):
        plain(port, 2, "LPUSH", "queue:tasks", json.dumps({**TASK, "task_id": name}))
    async with store(port, tmp_path) as redis:
        assert (await redis.load()).iteration == 4
        first = await redis.reserve()
        assert first is not None
        assert first.task_id == "task-001"
        await redis.settle("task-001")
        await orders.halt(redis, "lunch", actor="ann")
    written = json.loads(plain(port, 0, "GET", "supervisor:state"))
    assert written["supervisor"]["status"] == "HALTED"
    assert written["their own"] == [1]
    assert plain(port, 2, "LLEN", "queue:tasks") == "1"


async def test_a_plain_client_reads_what_we_write(port: int, tmp_path: Path) -> None:
    """CTL-22, C-38: the key, the list and its order, as other programs expect them."""
    async with store(port, tmp_path) as redis:
        await orders.init_state(redis, ExecutionMode.MANUAL, fresh=False, actor="ann")
        tasks = [ControlTask.of_json({**TASK, "task_id": name}) for name in "ab"]
        await orders.enqueue(redis, tasks, actor="ann")
    state = json.loads(plain(port, 0, "GET", "supervisor:state"))
    assert (state["execution_mode"], state["supervisor"]["status"]) == ("MANUAL", "HALTED")
    assert json.loads(plain(port, 2, "RPOP", "queue:tasks")) == {**TASK, "task_id": "a"}


async def test_an_entry_that_is_no_task_stays_and_is_named(port: int, tmp_path: Path) -> None:
    """The operator is to repair it."""
    plain(port, 2, "LPUSH", "queue:tasks", "{oops")
    async with store(port, tmp_path) as redis:
        with pytest.raises(InvalidTask, match=r"queue:tasks: got \{oops, wanted a task as JSON"):
            await redis.reserve()
    assert plain(port, 2, "LRANGE", "queue:tasks", "0", "-1") == "{oops"


async def test_entries_that_are_no_tasks_hide_no_others(port: int, tmp_path: Path) -> None:
    """Each is named, with the command that removes it; bytes that are no text are one, too."""
    long = json.dumps({**TASK, "tool": 3, "instructions": "x" * 1000})
    for entry in ("{oops\n", json.dumps({**TASK, "task_id": "a"}), long, "\udcff"):
        plain(port, 2, "LPUSH", "queue:tasks", entry)
    async with store(port, tmp_path) as redis:
        assert [one.task_id for one in await redis.queued()] == ["a"]
        first, second, third = map(str, await redis.unreadable())
    removes = r'`LREM queue:tasks 1 "{oops\n"` in database 2 removes it'
    assert first == f"task: queue:tasks: got {{oops, wanted a task as JSON; {removes}"
    assert "queue:tasks.tool: got 3" in second
    assert "`LREM queue:tasks 1 ENTRY` in" in second
    assert r"got \xff, wanted" in third


async def test_a_server_that_was_flushed_is_written_nothing_back(port: int, tmp_path: Path) -> None:
    """CTL-63: the state is gone, and the operator is to make one."""
    async with store(port, tmp_path) as redis:
        await orders.init_state(redis, ExecutionMode.AUTO, fresh=False, actor="ann")
        state = await redis.load()
        async with redis.lease():
            plain(port, 0, "FLUSHALL")
            with pytest.raises(StateMissing, match="control init-state"):
                await redis.change(state, state)
    assert plain(port, 0, "KEYS", "*") == ""


async def test_a_lease_whose_time_is_over_is_ours_while_nobody_took_it(
    port: int, tmp_path: Path
) -> None:
    """An expired lease still allows changes, until another host has taken it."""
    async with store(port, tmp_path) as redis:
        await orders.init_state(redis, ExecutionMode.AUTO, fresh=False, actor="ann")
        state = await redis.load()
        async with redis.lease():
            left = int(plain(port, 0, "PTTL", "otpy:lease:supervisor:state"))
            assert 0 < left <= 15_000
            plain(port, 0, "DEL", "otpy:lease:supervisor:state")
            await redis.change(state, evolve(state, iteration=1))
            plain(port, 0, "INCR", "otpy:fencing:supervisor:state")
            plain(port, 0, "DEL", "otpy:lease:supervisor:state")
            with pytest.raises(ProjectHeld, match="another host"):
                await redis.change(state, evolve(state, iteration=2))


async def test_the_lease_of_another_host_lasts_to_its_end(port: int, tmp_path: Path) -> None:
    """G-19: this host cannot tell whether the other one's process lives."""
    holder = {"number": 4, "host": "elsewhere", "pid": 1, "began": 0.0}
    plain(port, 0, "SET", "otpy:lease:supervisor:state", json.dumps(holder), "PX", "300")
    plain(port, 0, "SET", "otpy:fencing:supervisor:state", "4")
    async with store(port, tmp_path) as redis:
        with pytest.raises(ProjectHeld, match="that process 1 of elsewhere works on"):
            await redis.lease().__aenter__()
        await asyncio.sleep(0.4)
        async with redis.lease() as number:
            assert number == 5


async def test_of_two_hosts_at_once_one_works(port: int, tmp_path: Path) -> None:
    """G-19: the second one gets an error, even at the same moment."""
    async with store(port, tmp_path) as one, store(port, tmp_path) as other:
        leases = one.lease(), other.lease()
        taken = await asyncio.gather(
            *(lease.__aenter__() for lease in leases), return_exceptions=True
        )
        assert sorted(isinstance(number, ProjectHeld) for number in taken) == [False, True]
        for lease, number in zip(leases, taken, strict=True):
            if isinstance(number, int):
                await lease.__aexit__(None, None, None)


async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while read := await source.read(1 << 20):
        sink.write(read)


@asynccontextmanager
async def losing_an_answer(port: int, command: bytes) -> AsyncGenerator[int]:
    """Stand before Redis; yield a port where the answer to the first such command is lost."""
    is_lost = False

    async def serve(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        nonlocal is_lost
        server, requests = await asyncio.open_connection("127.0.0.1", port)
        back = asyncio.create_task(forward(server, answers))
        while read := await client.read(1 << 20):
            if command in read and not is_lost:
                is_lost = True
                back.cancel()
                await asyncio.wait({back})
                requests.write(read)
                await server.read(1)  # the server has carried it out
                break
            requests.write(read)
        back.cancel()
        requests.close()
        answers.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
        yield int(proxy.sockets[0].getsockname()[1])


async def test_tasks_whose_answer_is_lost_are_pushed_once(port: int, tmp_path: Path) -> None:
    """CTL-22, CTL-25: the server had them already, and they are looked for in the queue."""
    async with losing_an_answer(port, b"LPUSH") as cut, store(cut, tmp_path) as redis:
        await redis.push([ControlTask.of_json({**TASK, "task_id": name}) for name in "ab"])
        assert [one.task_id for one in await redis.queued()] == ["a", "b"]


async def test_a_state_whose_answer_is_lost_is_written_once(port: int, tmp_path: Path) -> None:
    """CTL-15, CTL-22: the task stands once among the completed ones, and the log is told."""
    done = CompletedTask("a", "2025-01-01T00:00:00.000Z", {"valid": True})
    async with losing_an_answer(port, b'"completed_at"') as cut, store(cut, tmp_path) as redis:
        await orders.init_state(redis, ExecutionMode.AUTO, fresh=False, actor="ann")
        state = await redis.load()
        after = evolve(state, completed_tasks=(done,))
        assert (await redis.change(state, after, Record("task_complete"))).completed_tasks == (
            done,
        )
        assert (await redis.load()).completed_tasks == (done,)
        events = [event.name async for event in redis.log.read(stream=redis.stream)]
    assert events[-1] == "task_complete"


async def test_a_write_that_nobody_knows_of_is_not_made_again(port: int, tmp_path: Path) -> None:
    """CTL-22: another program writes before the look, and the caller is told."""
    async with losing_an_answer(port, b'"iteration": 7') as cut, store(cut, tmp_path) as redis:
        await orders.init_state(redis, ExecutionMode.AUTO, fresh=False, actor="ann")
        state = await redis.load()
        look = redis._states.get

        async def looked(key: str) -> str:
            plain(port, 0, "SET", key, json.dumps(BY_HAND))
            return str(await look(key))

        redis._states.get = looked
        with pytest.raises(StoreUnreachable):
            await redis.change(state, evolve(state, iteration=7))
    assert json.loads(plain(port, 0, "GET", "supervisor:state")) == BY_HAND


async def test_a_task_whose_answer_is_lost_comes_first_the_next_time(
    port: int, tmp_path: Path
) -> None:
    """CTL-25, C-39: one task is reserved, and the order stays."""
    for name in "ab":
        plain(port, 2, "LPUSH", "queue:tasks", json.dumps({**TASK, "task_id": name}))
    async with losing_an_answer(port, b"LMOVE") as cut, store(cut, tmp_path) as redis:
        with pytest.raises(StoreUnreachable):
            await redis.reserve()
        task = await redis.reserve()
        assert task is not None
        assert task.task_id == "a"
    assert plain(port, 2, "LLEN", "queue:tasks:reserved") == "1"


async def test_a_connection_that_the_server_closed_is_made_again(port: int, tmp_path: Path) -> None:
    """CTL-63: it closes idle ones, as during a long attempt, and each operation goes on."""

    def close() -> None:
        plain(port, 0, "CLIENT", "KILL", "TYPE", "normal")

    async with store(port, tmp_path) as redis:
        close()
        await orders.init_state(redis, ExecutionMode.AUTO, fresh=False, actor="ann")
        for name in "ab":
            close()
            await redis.push([ControlTask.of_json({**TASK, "task_id": name})])
        close()
        async with redis.lease():
            close()
            state = await redis.load()
            close()
            await redis.change(state, evolve(state, iteration=7))
            close()
            task = await redis.reserve()
            assert task is not None
            close()
            await redis.settle(task.task_id)
        close()
        assert [one.task_id for one in await redis.queued()] == ["b"]
        assert (await redis.load()).iteration == 7


async def test_a_server_that_starts_anew_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTL-63: what is read waits for it."""
    monkeypatch.setattr(module, "_PATIENCE", PATIENCE)
    argv = [program("redis-server"), "--dir", str(tmp_path), "--appendonly", "yes", "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        redis = await store(port, tmp_path).__aenter__()
        await redis.push([ControlTask.of_json(TASK)])
    try:
        queued = asyncio.create_task(redis.queued())
        await asyncio.sleep(0.3)
        assert not queued.done()
        with running(lambda _: [*argv, str(port)], port=port):
            assert [one.task_id for one in await queued] == ["task-001"]
    finally:
        await redis.__aexit__(None, None, None)


async def test_who_waits_for_a_server_that_is_away_can_be_cancelled(tmp_path: Path) -> None:
    """Ctrl-C ends a command at once."""
    argv = [program("redis-server"), "--dir", str(tmp_path), "--port"]
    with running(lambda port: [*argv, str(port)]) as port:
        redis = await store(port, tmp_path).__aenter__()
    try:
        loading = asyncio.create_task(redis.load())
        await asyncio.sleep(0.4)
        loading.cancel()
        done, _ = await asyncio.wait({loading}, timeout=1.0)
        assert done
        assert loading.cancelled()
    finally:
        await redis.__aexit__(None, None, None)


async def test_a_server_that_is_away_is_one_clear_error(tmp_path: Path) -> None:
    """No server listens there, and the error comes at once."""
    with pytest.raises(StoreUnreachable, match=r"redis://127.0.0.1:9 .*wanted a Redis server"):
        async with store(9, tmp_path):
            pytest.fail("opened")


async def test_who_opens_a_server_that_hangs_can_be_cancelled(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends a command at once, however long an answer may take."""
    monkeypatch.setattr(module, "_PATIENCE", 3600.0)
    plain(port, 0, "CLIENT", "PAUSE", "3600000")
    opening = asyncio.create_task(store(port, tmp_path).__aenter__())
    done, _ = await asyncio.wait({opening}, timeout=0.5)
    assert not done
    opening.cancel()
    done, _ = await asyncio.wait({opening}, timeout=PATIENCE)
    assert done
    assert opening.cancelled()


async def test_a_lease_of_a_server_that_hangs_is_given_up_in_time(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child of the tree that took longer for it would be killed."""
    monkeypatch.setattr(module, "_PATIENCE", 3600.0)
    async with store(port, tmp_path) as redis, asyncio.timeout(PATIENCE):
        async with redis.lease():
            plain(port, 0, "CLIENT", "PAUSE", "3600000")
        assert not redis._holder


async def test_a_key_of_another_kind_is_named(port: int, tmp_path: Path) -> None:
    """The server answers, so nothing is wrong with it."""
    plain(port, 0, "LPUSH", "supervisor:state", "x")
    plain(port, 2, "SET", "queue:tasks", "x")
    async with store(port, tmp_path) as redis:
        with pytest.raises(StoreRefused, match=r"got 'WRONGTYPE .* a string at supervisor:state"):
            await redis.load()
        with pytest.raises(StoreRefused, match=r"got 'WRONGTYPE .* a list at queue:tasks"):
            await redis.queued()


async def test_a_server_that_asks_for_a_login_is_given_one(tmp_path: Path) -> None:
    """The password of the URL is used, and no message shows it."""
    argv = [program("redis-server"), "--requirepass", "dragon-egg", "--dir", str(tmp_path)]
    with running(lambda port: [*argv, "--port", str(port)]) as port:
        log = tmp_path / "events.sqlite3"
        for password in (None, "wrong-egg"):
            place = RedisPlace(host="127.0.0.1", port=port, password=password)
            with pytest.raises(StoreUnreachable, match="it asks for a login") as error:
                async with RedisControl(place, log, "x"):
                    pytest.fail("opened")
            assert "egg" not in f"{error.value}{place!r}"
        place = RedisPlace(host="127.0.0.1", port=port, password="dragon-egg")
        async with RedisControl(place, log, "x") as redis:
            with pytest.raises(StateMissing):
                await redis.load()


def holding(port: int, tmp_path: Path) -> subprocess.Popen[bytes]:
    """Start a process that takes the lease and reports it."""
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from otpy_agents.control.stores.place import RedisPlace\n"
        "from otpy_agents.control.stores.redis import RedisControl\n"
        "async def main():\n"
        f"    place = RedisPlace(host='127.0.0.1', port={port})\n"
        f"    store = RedisControl(place, Path({str(tmp_path / 'events.sqlite3')!r}), 'x')\n"
        "    async with store, store.lease():\n"
        "        print('held', flush=True)\n"
        "        await asyncio.sleep(99)\n"
        "asyncio.run(main())\n"
    )
    paths = os.pathsep.join(str(CHECKOUT / name) for name in ("", "agents", "monitors"))
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )


@final
class Swallows:
    """A client that continues after a cancellation, as redis-py does while it connects."""

    async def get(self, _key: str) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return json.dumps(BY_HAND)


async def test_who_waits_for_a_halt_can_be_cancelled(tmp_path: Path) -> None:
    """A loop awaits the cancelled wait at its end, and hung for ever on a busy machine."""
    redis = store(9, tmp_path)
    redis._states = Swallows()
    waiting = asyncio.create_task(redis.halted())
    await asyncio.sleep(0)
    waiting.cancel()
    done, _ = await asyncio.wait({waiting}, timeout=PATIENCE)
    assert done
    assert waiting.cancelled()


async def test_the_lease_of_a_process_that_was_killed_is_free_at_once(
    port: int, tmp_path: Path
) -> None:
    """The next host need not wait for its 15 seconds."""
    holder = holding(port, tmp_path)
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        async with store(port, tmp_path) as redis:
            with pytest.raises(ProjectHeld, match=f"that process {holder.pid} works on"):
                await redis.lease().__aenter__()
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            async with redis.lease() as number:
                assert number > 1
