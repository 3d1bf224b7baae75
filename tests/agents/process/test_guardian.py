"""The guardian of a worker, when its host dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from otpy_agents.process.guardian import ExitOnDisk, exit_on_disk
from otpy_agents.process.orphans import Recorded, find
from otpy_agents.process.process import spawn
from otpy_agents.sandbox.marker import attempt_marker
from tests.agents.host import CHECKOUT, ENVIRONMENT, PATIENCE

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="nothing is adopted there")
DAEMON = "env -i setsid sh -c 'echo $$ >daemon; exec sleep 600' &"


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Host:
    """A host with one worker, which runs a piece of shell."""

    def __init__(
        self, folder: Path, script: str, *, grace: float = 2.0, mode: str = "wait"
    ) -> None:
        self.folder = folder
        self.marker = attempt_marker(str(folder), "a", 1)
        argv = [sys.executable, "-m", "tests.agents.guarded_host", str(folder), str(grace), mode]
        self.process = subprocess.Popen(
            [*argv, "sh", "-c", script],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
            cwd=CHECKOUT,
        )
        assert self.process.stdout is not None
        self.worker = int(self.process.stdout.readline())
        (self.guardian,) = psutil.Process(self.process.pid).children()
        self.began = 0.0

    def kill(self) -> None:
        """Kill the host, and nothing but the host."""
        self.began = time.monotonic()
        self.process.kill()
        self.process.wait(PATIENCE)

    async def gone(self) -> float:
        """Wait until the guardian has ended, and return the seconds since the kill."""
        async with asyncio.timeout(PATIENCE):
            while alive(self.guardian.pid):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.005)
        return time.monotonic() - self.began

    async def until(self, name: str) -> str:
        """Wait for a file of the worker, and return its text."""
        path = self.folder / name
        async with asyncio.timeout(PATIENCE):
            while not (path.exists() and path.read_text(encoding="utf-8")):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        return path.read_text(encoding="utf-8").strip()

    async def exit(self) -> ExitOnDisk | None:
        return await exit_on_disk(self.folder / "exit", self.marker, None)

    def close(self) -> None:
        """End every process, after any outcome of the test."""
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        for orphan in find(self.marker):
            os.kill(orphan.pid, signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Return a function that starts hosts."""
    hosts: list[Host] = []

    def started(script: str, *, grace: float = 2.0, mode: str = "wait") -> Host:
        hosts.append(Host(tmp_path, script, grace=grace, mode=mode))
        return hosts[-1]

    yield started
    for host in hosts:
        host.close()


@pytest.mark.real_time
async def test_a_worker_is_asked_to_end_when_its_host_is_killed(
    start: Callable[..., Host],
) -> None:
    """It may clean up, and its answer to SIGTERM is not an exit of its own."""
    host = start("trap 'echo bye >said; exit 0' TERM; echo up >up; while :; do sleep 0.01; done")
    await host.until("up")
    host.kill()
    assert await host.gone() < 2.0
    assert await host.until("said") == "bye"
    assert find(host.marker) == []
    assert await host.exit() is None


@pytest.mark.real_time
async def test_a_worker_that_refuses_is_gone_within_5_seconds(start: Callable[..., Host]) -> None:
    """The limit holds for any grace, and the worker's children are ended with it."""
    host = start("trap '' TERM; sleep 600 & echo up >up; while :; do sleep 0.1; done", grace=600.0)
    await host.until("up")
    host.kill()
    assert 3.9 < await host.gone() < 5.5
    assert find(host.marker) == []


@LINUX
@pytest.mark.real_time
async def test_a_daemon_with_a_clean_environment_is_found(start: Callable[..., Host]) -> None:
    """It has left the session and dropped the marker; its guardian has adopted it."""
    host = start(f"{DAEMON} sleep 600")
    daemon = int(await host.until("daemon"))
    host.kill()
    await host.gone()
    assert not alive(daemon)


@LINUX
@pytest.mark.real_time
async def test_a_host_that_lives_finds_such_a_daemon_too(tmp_path: Path) -> None:
    """It is reported as left over, as any other process is."""
    script = f"{DAEMON} while [ ! -s daemon ]; do sleep 0.01; done"
    environment = {**os.environ, **attempt_marker(str(tmp_path), "a", 1)}
    async with spawn(["sh", "-c", script], cwd=tmp_path, env=environment) as worker:
        assert (await worker.wait()).succeeded
    daemon = int((tmp_path / "daemon").read_text(encoding="utf-8"))
    assert [orphan.pid for orphan in worker.left_over] == [daemon]
    assert not alive(daemon)


@pytest.mark.real_time
async def test_a_frozen_worker_is_ended_too(start: Callable[..., Host]) -> None:
    """A stopped worker is woken to die."""
    host = start("echo up >up; exec sleep 600")
    await host.until("up")
    os.kill(host.worker, signal.SIGSTOP)
    host.kill()
    assert await host.gone() < 2.0
    assert find(host.marker) == []


@pytest.mark.real_time
@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
async def test_an_exit_is_on_disk_before_the_host_is_told(
    start: Callable[..., Host], script: str, code: int
) -> None:
    """A host that dies afterwards thus leaves the exit to the next host."""
    host = start(script, mode="hold")
    async with asyncio.timeout(PATIENCE):
        while alive(host.worker):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.005)
    host.kill()
    found = await host.exit()
    assert found is not None
    assert (found.pid, found.returncode) == (host.worker, code)
    assert found.belongs(host.marker, Recorded(host.worker, found.started + 1))


@pytest.mark.real_time
async def test_output_does_not_break_when_the_host_dies(start: Callable[..., Host]) -> None:
    """A worker with more output is not killed by SIGPIPE; it ends as it is asked to."""
    host = start(
        "trap 'echo more && echo well >said; exit 0' TERM; echo up >up; while :; do :; done"
    )
    await host.until("up")
    host.kill()
    assert await host.until("said") == "well"
    await host.gone()


@pytest.mark.real_time
async def test_signals_to_everybody_do_not_end_a_guardian(start: Callable[..., Host]) -> None:
    """The guardian survives a service manager that stops all its processes, and does its work."""
    host = start("trap '' TERM; echo up >up; while :; do sleep 0.1; done", grace=0.3)
    await host.until("up")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        host.guardian.send_signal(number)
    await asyncio.sleep(0.05)
    assert alive(host.guardian.pid)
    host.kill()
    await host.gone()
    assert find(host.marker) == []


@pytest.mark.real_time
async def test_a_killed_guardian_ends_its_worker(start: Callable[..., Host]) -> None:
    """Its host notices, and leaves nothing behind."""
    host = start("echo up >up; sleep 600")
    await host.until("up")
    host.guardian.kill()
    assert host.process.stdout is not None
    assert await asyncio.to_thread(host.process.stdout.readline) == "SIGKILL\n"
    assert host.process.wait(PATIENCE) == 0
    assert find(host.marker) == []


@pytest.mark.real_time
async def test_a_guardian_that_hangs_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a worker never waits for a frozen guardian."""
    monkeypatch.setattr("otpy_agents.process.process.END_WITHIN", -0.8)
    before = {one.pid for one in psutil.Process().children()}
    async with spawn(["sleep", "600"], cwd=tmp_path, env=os.environ) as worker:
        (guardian,) = [one for one in psutil.Process().children() if one.pid not in before]
        guardian.suspend()
    assert not alive(guardian.pid)
    assert not alive(worker.pid)


@pytest.mark.real_time
async def test_an_exit_that_the_host_brought_about_is_not_kept(tmp_path: Path) -> None:
    """A worker that answers SIGTERM with 0 has not finished."""
    marker = attempt_marker(str(tmp_path), "a", 1)
    script = "trap 'exit 0' TERM; echo up >up; while :; do sleep 0.01; done"
    record = tmp_path / "exit"
    worker = spawn(["sh", "-c", script], cwd=tmp_path, env={**os.environ, **marker}, record=record)
    async with worker, asyncio.timeout(PATIENCE):
        while not (tmp_path / "up").exists():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert worker.status is not None
    assert worker.status.succeeded
    assert await exit_on_disk(record, marker, None) is None


async def test_an_exit_of_another_attempt_is_not_taken(tmp_path: Path) -> None:
    """Marker, pid and start must agree; half a line, as a full disk leaves it, is not an exit."""
    marker = attempt_marker("L", "a", 1)
    text = json.dumps(
        {"marker": marker, "pid": 5, "started": 100.0, "ended": 101.0, "returncode": 0}
    )
    path = tmp_path / "exit"
    path.write_text(text, encoding="utf-8")
    assert await exit_on_disk(path, marker, None)
    assert await exit_on_disk(path, marker, Recorded(5, 100.5))
    assert await exit_on_disk(path, marker, Recorded(5, 200.0)) is None
    assert await exit_on_disk(path, marker, Recorded(6, 100.0)) is None
    assert await exit_on_disk(path, attempt_marker("L", "a", 2), None) is None
    path.write_text(text[:-9], encoding="utf-8")
    assert await exit_on_disk(path, marker, None) is None
    assert await exit_on_disk(tmp_path / "none", marker, None) is None
