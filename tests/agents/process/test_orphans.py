from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import psutil
import pytest

from otpy_agents.errors import AlreadyRunning
from otpy_agents.process import orphans
from otpy_agents.process.orphans import Recorded, end, end_found, find
from otpy_agents.sandbox.marker import attempt_marker, list_marker
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import State
from tests.agents.host import kill_with_guardians

STUBBORN = "import signal;signal.signal(signal.SIGTERM,signal.SIG_IGN);"

HOST = """
import asyncio, os, sys
from pathlib import Path
from otpy_agents.sandbox.marker import worker_environment
from otpy_agents.process.process import spawn
from otpy_agents.store.ledger import Ledger

WORKER = "import subprocess,sys,time;" \\
    "subprocess.Popen(['sleep','99'],start_new_session=True);print('up',flush=True);time.sleep(99)"

async def main():
    here, up = Path(sys.argv[1]), asyncio.Event()
    async with Ledger(here / "w.sqlite") as ledger:
        await ledger.declare({"a": "1", "b": "1", "c": "1"})
        await ledger.finish("c", "done")
        await ledger.begin_attempt("b", 1)
        attempt = await ledger.begin_attempt("a", 1)
        environment = worker_environment(os.environ, {}, list_id=ledger.list_id, assignment="a",
            incarnation=1, restarts=0, work=here, notes=here / 'NOTES')
        async with spawn([sys.executable, "-c", WORKER], cwd=here, env=environment,
                         on_line=lambda line: up.set()) as process:
            await ledger.record_spawn(attempt, process.pid, process.pgid, process.create_time)
            await up.wait()
            print(process.pid, flush=True)
            await process.wait()

asyncio.run(main())
"""


class Strays:
    """Starts processes that carry a marker, and says when each is up."""

    def __init__(self) -> None:
        self.marker = list_marker(uuid.uuid4().hex)
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, code: str = "", **extra: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", f"{code}print(flush=True);import time;time.sleep(99)"],
            env={**os.environ, **self.marker, **extra},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        self.started.append(process)
        return process


@pytest.fixture
def strays() -> Iterator[Strays]:
    """Processes with a marker; those that a test leaves are killed."""
    strays = Strays()
    yield strays
    for process in strays.started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def recorded(process: subprocess.Popen[bytes]) -> Recorded:
    """Return the process as the ledger records it."""
    return Recorded(process.pid, psutil.Process(process.pid).create_time())


def test_a_process_is_found_by_its_marker(strays: Strays) -> None:
    """All processes with the list's marker are found, oldest first, with their assignment."""
    one = strays.start(OTPY_ASSIGNMENT="a", OTPY_INCARNATION="2")
    two = strays.start()
    found = find(strays.marker)
    assert {orphan.pid for orphan in found} == {one.pid, two.pid}
    assert [orphan.create_time for orphan in found] == sorted(o.create_time for o in found)
    mine = next(orphan for orphan in found if orphan.pid == one.pid)
    assert (mine.assignment, mine.incarnation, mine.session) == ("a", 2, one.pid)
    assert str(mine) == f"{mine.name} (pid {one.pid})"


def test_a_process_whose_program_is_just_being_loaded_is_waited_for(
    strays: Strays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has neither a command line nor an environment yet; a thread of the kernel never has."""
    one = strays.start()
    real, looks = orphans._read, 0

    def read(pid: int, name: str) -> bytes:
        nonlocal looks
        looks += pid == one.pid
        return b"" if pid == one.pid and looks < 9 else real(pid, name)

    monkeypatch.setattr(orphans, "_read", read)
    assert [orphan.pid for orphan in find(strays.marker)] == [one.pid]
    assert looks >= 9


def test_a_marker_must_match_as_a_whole(strays: Strays) -> None:
    """Another list, another attempt and an empty marker find nothing."""
    strays.start(OTPY_ASSIGNMENT="a", OTPY_INCARNATION="1")
    list_id = strays.marker["OTPY_LIST"]
    assert len(find(attempt_marker(list_id, "a", 1))) == 1
    assert find(attempt_marker(list_id, "a", 2)) == []
    assert find(list_marker(list_id + "x")) == []
    assert find({}) == []


def test_a_recorded_process_is_found_with_its_session(strays: Strays) -> None:
    """Without any marker, pid and start time are enough."""
    process = strays.start()
    assert [orphan.pid for orphan in find({}, [recorded(process)])] == [process.pid]


def test_a_bare_pid_is_never_trusted(strays: Strays) -> None:
    """A pid whose start time differs belongs to a stranger (G-03)."""
    process = strays.start()
    real = recorded(process)
    assert find({}, [Recorded(real.pid, real.create_time - 60)]) == []
    assert find({}, [Recorded(real.pid, 0.0)]) == []


def test_ourselves_and_our_ancestors_are_spared() -> None:
    """Neither a record of this process nor its session finds it or its ancestors."""
    me = psutil.Process()
    assert find({}, [Recorded(me.pid, me.create_time())]) == []
    assert all(
        orphan.pid not in {me.pid, *(parent.pid for parent in me.parents())}
        for orphan in find({}, sessions=[os.getsid(0)])
    )


@pytest.mark.real_time
async def test_what_refuses_is_killed_after_the_grace(strays: Strays) -> None:
    """The obedient and the stubborn process are both ended and reported."""
    polite, stubborn = strays.start(), strays.start(STUBBORN)
    ended = await end(strays.marker, 0.1)
    assert {orphan.pid for orphan in ended} == {polite.pid, stubborn.pid}
    assert (polite.wait(), stubborn.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
    assert await end(strays.marker, 0.1) == ()


@pytest.mark.real_time
async def test_a_pid_that_was_given_away_is_left_alone(strays: Strays) -> None:
    """Between finding and ending, the number may have become another process's."""
    process = strays.start()
    (orphan,) = find(strays.marker)
    changed = orphans.Orphan(
        orphan.pid, orphan.create_time - 60, orphan.group, orphan.session, "x", "", 0
    )
    assert await end_found([changed], 0.1) == ()
    assert process.poll() is None


@pytest.mark.real_time
async def test_what_has_left_its_group_meanwhile_is_ended_too(strays: Strays) -> None:
    """It was found in the group and left before the signal to the group: it gets its own signal."""
    leader, gone = strays.start(), strays.start()
    found = [attrs.evolve(orphan, group=leader.pid) for orphan in find(strays.marker)]
    assert await end_found(found, 0.0, group=leader.pid) == ()
    assert (leader.wait(), gone.wait()) == (-signal.SIGKILL, -signal.SIGKILL)


@pytest.mark.real_time
async def test_a_wrapper_is_spared_until_its_grace_is_over(strays: Strays) -> None:
    """The process inside gets the time that the end of its wrapper would take away."""
    wrapper, inside = strays.start(), strays.start()
    assert await end_found(find(strays.marker), 0.1, group=wrapper.pid, wrapped=True) == ()
    assert (wrapper.wait(), inside.wait()) == (-signal.SIGKILL, -signal.SIGTERM)


@pytest.mark.real_time
async def test_systems_without_process_descriptors_are_served_too(
    strays: Strays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without process descriptors the end of another process is polled."""
    monkeypatch.delattr(os, "pidfd_open")
    polite, stubborn = strays.start(), strays.start(STUBBORN)
    assert len(await end(strays.marker, 0.1)) == 2
    assert (polite.wait(), stubborn.wait()) == (-signal.SIGTERM, -signal.SIGKILL)


@pytest.mark.real_time
async def test_ending_can_be_cut_and_done_again(strays: Strays) -> None:
    """A clean-up that is cancelled in the grace harms nothing (TREE-46)."""
    stubborn = strays.start(STUBBORN)
    task = asyncio.create_task(end_found(find(strays.marker), 600))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert stubborn.poll() is None
    assert len(await end(strays.marker, 0.0)) == 1
    assert stubborn.wait() == -signal.SIGKILL


@pytest.fixture
def host(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A host with one worker and one grandchild, both up."""
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOST), str(tmp_path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.real_time
async def test_the_next_boot_finds_what_a_killed_host_left(
    host: subprocess.Popen[str], tmp_path: Path
) -> None:
    """After `kill -9` of host and guardian all is ended, and the work is pending again (G-03)."""
    kill_with_guardians(host.pid)
    host.wait(30)
    async with Ledger(tmp_path / "w.sqlite") as ledger:
        await ledger.declare({"a": "1", "b": "1", "c": "1"})
        attempts = await ledger.live_attempts()
        assert [(a.assignment, a.host, a.pid is None) for a in attempts] == [
            ("b", 1, True),
            ("a", 1, False),
        ]
        known = [Recorded(a.pid, a.create_time or 0.0) for a in attempts if a.pid]
        ended = await end(list_marker(ledger.list_id), 1.0, recorded=known)
        assert len(ended) == 2
        assert known[0].pid in {orphan.pid for orphan in ended}
        assert find(list_marker(ledger.list_id)) == []
        assert await ledger.close_interrupted() == 2
        assert await ledger.live_attempts() == ()
        assert [row.state for row in await ledger.summary()] == [
            State.PENDING,
            State.PENDING,
            State.DONE,
        ]
        assert await ledger.finished_ids() == {"c"}


@pytest.mark.real_time
async def test_a_second_host_on_the_same_file_is_refused_at_once(
    host: subprocess.Popen[str], tmp_path: Path
) -> None:
    """The message names the other process; once that has ended the file is free (G-19)."""
    path = tmp_path / "w.sqlite"
    with pytest.raises(AlreadyRunning, match=f"in use by process {host.pid}") as caught:
        async with Ledger(path):
            pytest.fail("two hosts")
    assert caught.value.pid == host.pid
    host.kill()
    host.wait()
    async with Ledger(path) as ledger:
        assert ledger.host == 2
        await end(list_marker(ledger.list_id), 0.0)
