"""The remains of a real host after `kill -9`, and the next host that finds them."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import pytest

from otpy_agents.errors import RunLost
from otpy_agents.process.orphans import find
from otpy_agents.run import Cause, Ending, RunControl, StopCause, run_marker
from otpy_agents.run.host.facts import AttemptBegan, Fact, OutputLine, RunEnded, RunLeft
from otpy_agents.run.host.host import run_host
from otpy_agents.sandbox.docker import DockerSandbox
from otpy_agents.store import RunStore
from tests.agents.host import CHECKOUT, ENVIRONMENT, PATIENCE
from tests.agents.run.host_program import order_of, sandboxes
from tests.agents.sandbox.conftest import why_no_bubblewrap
from tests.agents.sandbox.dockerd import IMAGE
from tests.agents.store.run_world import let_die

pytestmark = pytest.mark.real_time


@final
class HostProgram:
    """A host program, followed by the facts it prints."""

    def __init__(self, folder: Path, sandbox: str, *scripts: str) -> None:
        argv = [sys.executable, "-m", "tests.agents.run.host_program"]
        argv += [str(folder / "runs.sqlite3"), str(folder), sandbox, *scripts]
        self._process = subprocess.Popen(
            argv, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        )

    def __enter__(self) -> HostProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def until(self, event: str, **detail: object) -> dict[str, Any]:
        """Read on until a fact comes, and return it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fact: dict[str, Any] = json.loads(line)
            if fact["event"] == event and detail.items() <= fact.items():
                return fact
        raise AssertionError(f"{event} never came")

    def freeze(self) -> None:
        """Stop the host, so that it notices nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)


def alive(run: str) -> list[int]:
    """Return the processes of a run."""
    return [orphan.pid for orphan in find(run_marker(run))]


def told(facts: list[Fact], kind: type[Any]) -> list[Any]:
    return [fact for fact in facts if isinstance(fact, kind)]


async def until(so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not so():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.01)


async def test_a_process_of_a_killed_host_is_ended_and_its_attempt_made_again(
    tmp_path: Path,
) -> None:
    """It costs no retry; at no time do two attempts run."""
    script = (
        "trap '' TERM; echo $$ >>begun; [ -e second ] && { echo done; exit 0; }; touch second;"
        " sleep 600"
    )
    with HostProgram(tmp_path, "process", script) as host:
        run = host.until("run.phase", phase="run")["run"]
        host.kill()
    assert len(alive(run)) >= 1
    facts: list[Fact] = []
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, listeners=[facts.append], hooks=()) as host,
    ):
        (handle,) = await host.recover()
        result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED
    assert (result.retry_count, result.total_attempts) == (0, 2)
    assert result.attempts[0].stopped is StopCause.INTERRUPTED
    assert result.attempts[1].cause is Cause.INTERRUPTED
    assert len((tmp_path / "begun").read_text(encoding="utf-8").split()) == 2
    assert alive(run) == []


@pytest.mark.parametrize("sandbox", ["process", "bubblewrap"])
async def test_an_attempt_of_a_killed_host_is_over_within_5_seconds(
    tmp_path: Path, sandbox: str
) -> None:
    """It may clean up; a process that refuses is killed. This needs no next host."""
    if sandbox == "bubblewrap" and why_no_bubblewrap():
        pytest.skip(why_no_bubblewrap())
    script = (
        "(trap '' TERM; while :; do sleep 0.1; done) & "
        "trap 'echo bye >said' TERM; echo up; while :; do sleep 0.1; done"
    )
    with HostProgram(tmp_path, sandbox, script) as host:
        run = host.until("attempt.output", text="up")["run"]
        host.kill()
        began = time.monotonic()
        await until(lambda: not alive(run))
    assert time.monotonic() - began < 5.5
    assert (tmp_path / "said").read_text(encoding="utf-8") == "bye\n"


@pytest.mark.parametrize(("code", "failures"), [(0, 0), (1, 1)])
async def test_an_attempt_that_ended_while_no_host_lived_is_not_made_again(
    tmp_path: Path, code: int, failures: int
) -> None:
    """It is closed with its exit: a success ends the run, a failure counts as one."""
    script = (
        f"echo x >>begun; [ $(wc -l <begun) = 2 ] && {{ echo done; exit 0; }};"
        f" while [ ! -e go ]; do sleep 0.02; done; exit {code}"
    )
    with HostProgram(tmp_path, "process", script) as host:
        run = host.until("run.phase", phase="run")["run"]
        await until((tmp_path / "begun").exists)
        host.freeze()
        (tmp_path / "go").touch()
        await until(lambda: not alive(run))
        host.kill()
    facts: list[Fact] = []
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, listeners=[facts.append], hooks=()) as host,
    ):
        (handle,) = await host.recover()
        result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED
    assert (result.retry_count, result.total_attempts) == (failures, failures + 1)
    assert result.attempts[0].exit_code == code
    assert result.attempts[0].stopped is None
    assert told(facts, AttemptBegan)[0].adopted
    assert len((tmp_path / "begun").read_text(encoding="utf-8").split()) == failures + 1


MOMENTS: list[tuple[str, dict[str, object]]] = [
    ("run.began", {}),
    ("attempt.began", {"number": 1}),
    ("run.phase", {"phase": "run"}),
    ("attempt.output", {"number": 1}),
    ("attempt.over", {}),
    ("wait.began", {}),
    ("wait.over", {}),
    ("attempt.began", {"number": 2}),
    ("attempt.output", {"number": 2}),
]


@pytest.mark.parametrize(("event", "detail"), MOMENTS, ids=str)
async def test_killed_at_any_moment_a_run_goes_on_without_a_double(
    tmp_path: Path, event: str, detail: dict[str, object]
) -> None:
    """Two attempts never hold the same lock, nothing is lost, and only failures cost a retry."""
    script = """
        exec 9>lock; flock -n 9 || echo double >>double
        echo $$ | tee -a begun; sleep 0.2
        [ $(wc -l <failed) -ge 2 ] && echo done && exit
        echo x >>failed; echo 'connection reset' >&2; exit 1
    """
    (tmp_path / "failed").touch()
    with HostProgram(tmp_path, "process", script) as host:
        run = host.until(event, **detail)["run"]
        host.kill()
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, hooks=()) as host,
    ):
        (handle,) = await host.recover()
        result = await handle.wait()
    assert (handle.id, result.ending) == (run, Ending.SUCCEEDED)
    assert not (tmp_path / "double").exists()
    assert alive(run) == []
    # A failure that the dead host had not stored yet counts as an interrupted attempt.
    interrupted = sum(record.stopped is StopCause.INTERRUPTED for record in result.attempts)
    assert result.retry_count == result.total_attempts - 1 - interrupted
    assert interrupted <= 1


async def test_the_rest_of_a_delay_is_waited_for(tmp_path: Path) -> None:
    """A delay of an hour goes on where the dead host left it, and can be cut; counters are kept."""
    script = (
        "[ -e second ] && { echo done; exit 0; }; touch second; echo 'connection reset' >&2; exit 1"
    )
    with HostProgram(tmp_path, "process", script, "--long") as host:
        end = host.until("wait.began")["until"]
        host.kill()
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, hooks=()) as host,
    ):
        (handle,) = await host.recover()
        assert handle.state.status == "retrying (1/3)"
        assert handle.state.wait is not None
        assert handle.state.wait.until <= end
        assert end - time.time() < 3600.0
        assert (await handle.ask(RunControl.RETRY_NOW)).accepted
        result = await handle.wait()
    assert result.ending is Ending.SUCCEEDED
    assert result.retry_count == 1


async def test_a_container_of_a_killed_host_is_adopted(docker_socket: Path, tmp_path: Path) -> None:
    """The same container goes on and is heard from its first line; no second one is started."""
    script = "echo $$ >>begun; echo before; while [ ! -e go ]; do sleep 0.05; done; echo after"
    with HostProgram(tmp_path, str(docker_socket), script) as host:
        run = host.until("attempt.output", text="before")["run"]
        host.kill()
    docker = DockerSandbox(IMAGE, docker_socket)
    before = await docker.find(run_marker(run))
    facts: list[Fact] = []
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(
            store, listeners=[facts.append], sandboxes=sandboxes(str(docker_socket)), hooks=()
        ) as host,
    ):
        (handle,) = await host.recover()
        await until(lambda: bool(told(facts, OutputLine)))
        assert await docker.find(run_marker(run)) == before
        (tmp_path / "go").touch()
        result = await handle.wait()
    assert len(before) == 1
    assert (result.ending, result.total_attempts) == (Ending.SUCCEEDED, 1)
    assert [fact.text for fact in told(facts, OutputLine)] == ["before", "after"]
    assert [fact.adopted for fact in told(facts, AttemptBegan)] == [True]
    assert (tmp_path / "begun").read_text(encoding="utf-8").count("\n") == 1
    assert await docker.find(run_marker(run)) == ()


async def test_a_container_is_stopped_at_once(docker_socket: Path, tmp_path: Path) -> None:
    """A kill of a run in a container: it is over in seconds, and nothing is left."""
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, sandboxes=sandboxes(str(docker_socket)), hooks=()) as host,
    ):
        handle = await host.submit(order_of("sleep 600", tmp_path, str(docker_socket)))
        await until(lambda: handle.state.status == "running")
        assert (await handle.ask(RunControl.KILL)).accepted
        result = await handle.wait()
    assert result.ending is Ending.KILLED
    assert await DockerSandbox(IMAGE, docker_socket).find(run_marker(handle.id)) == ()


async def test_a_grandchild_does_not_outlive_its_attempt(tmp_path: Path) -> None:
    """A process that an attempt leaves, also in a session of its own, is ended and named."""
    facts: list[Fact] = []
    async with (
        RunStore(tmp_path / "runs.sqlite3") as store,
        run_host(store, listeners=[facts.append], hooks=()) as host,
    ):
        script = "setsid sleep 600 & sleep 0.1; echo done"
        handle = await host.submit(order_of(script, tmp_path, "process"))
        result = await handle.wait()
        assert alive(handle.id) == []
    assert result.ending is Ending.SUCCEEDED
    assert any("sleep" in fact.text for fact in facts if fact.event == "run.log")  # type: ignore[union-attr]
    assert told(facts, RunEnded)[0].answer == "done"


async def test_a_cancel_ends_a_real_process_at_once(tmp_path: Path) -> None:
    """In a delay of 300 s the answer comes within 100 ms."""
    async with RunStore(tmp_path / "runs.sqlite3") as store, run_host(store, hooks=()) as host:
        script = "echo 'connection reset' >&2; exit 1"
        order = order_of(script, tmp_path, "process", backoff=300.0)
        handle = await host.submit(order)
        await until(lambda: handle.state.wait is not None)
        before = time.monotonic()
        assert (await handle.ask(RunControl.CANCEL)).accepted
        result = await handle.wait()
        assert time.monotonic() - before < 0.1
    assert result.ending is Ending.CANCELLED


async def test_a_host_that_was_taken_for_dead_stops_at_once(tmp_path: Path) -> None:
    """At its next write it learns of the other host; it ends its attempt, and tells so."""
    path, facts = tmp_path / "runs.sqlite3", list[Fact]()
    script = "[ -e go ] && { echo done; exit; }; sleep 600"
    async with (
        RunStore(path) as store,
        run_host(store, listeners=[facts.append], hooks=()) as host,
    ):
        mine = await host.submit(order_of(script, tmp_path, "process"))
        await until(lambda: mine.state.status == "running")
        let_die(path, store.host)
        (tmp_path / "go").touch()
        async with RunStore(path) as later, run_host(later, hooks=()) as other:
            (theirs,) = await other.recover()
            with pytest.raises(RunLost, match="taken over"):
                await mine.wait()
            assert (await theirs.wait()).ending is Ending.SUCCEEDED
        assert not (await mine.ask(RunControl.CANCEL)).accepted
        assert alive(mine.id) == []
    assert len(told(facts, RunLeft)) == 1
