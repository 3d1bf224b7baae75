"""Gates in containers of a real engine, which the tests start."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from otpy_agents.engine.gates import GateStatus
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox.behaviour import Job
from otpy_agents.sandbox.docker import DockerSandbox
from otpy_agents.sandbox.launch import Launch
from tests.agents.engine.gates.scene import Repository, shell_gate
from tests.agents.sandbox.dockerd import IMAGE

pytestmark = pytest.mark.real_time

PASSED, FAILED, *_ = GateStatus


@pytest.fixture
def repository(docker_socket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository whose gates run in containers."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{docker_socket}")
    return Repository(tmp_path, SandboxChoice(name="docker", image=IMAGE))


async def test_a_gate_in_a_container_changes_and_reaches_nothing(repository: Repository) -> None:
    """ENG-12, ENG-14: as in bubblewrap; the gate runs as the user of this host, with a home."""
    repository.commit({"kept/old.txt": "old\n"})
    script = (
        "touch here; ls /sys/class/net; cat kept/old.txt; echo new >kept/old.txt;"
        'echo x >made/report; echo "$HOME $MINE $GITHUB_TOKEN"; touch $HOME/x && ls made; exit 3'
    )
    writes = ("kept/", "made/")
    build = shell_gate("build", script, allowed_writes=writes, env={"MINE": "1"})
    check = shell_gate(
        "check",
        "cat kept/old.txt made/report",
        depends_on=("build",),
        allowed_writes=writes,
        skip_on_dependency_failure=False,
    )
    results = await repository.run(build, check)
    *lines, refused = sorted(results["build"].output.splitlines())
    assert lines == ["/tmp 1 ", "lo", "old", "report"]
    assert "Read-only file system" in refused
    assert (results["build"].status, results["build"].exit_code) == (FAILED, 3)
    assert (results["check"].status, results["check"].output) == (PASSED, "new\nx\n")
    assert repository.files() == {"kept", "kept/old.txt"}


async def test_a_gate_that_runs_riot_is_held(repository: Repository) -> None:
    """ENG-14: the sandbox limits the processes, the output and the time of a gate."""
    bomb = "i=0; while [ $i -lt 3000 ]; do sleep 90 & i=$((i+1)); done; wait"
    results = await repository.run(
        shell_gate("bomb", bomb),
        # Not of zeros, which the engine writes to its log at six times the size.
        shell_gate("loud", f"yes {'z' * 10_000} | head -c 1000000000"),
        shell_gate("slow", "echo begun; sleep 90", timeout=2.0),
    )
    assert "fork" in results["bomb"].output
    assert results["loud"].output.endswith("\nended for more than 50 MB of output")
    assert len(results["loud"].output) < 11 * 1024 * 1024
    assert results["slow"].output == "begun\nended after 2 s"
    assert {one.status for one in results.values()} == {FAILED}


async def test_what_a_killed_host_left_in_a_container_is_ended(
    repository: Repository, docker_socket: Path
) -> None:
    """Containers outlive their host; the next host ends those with its label."""
    sandbox = DockerSandbox(IMAGE, docker_socket)
    marker = {"OTPY_COMMAND": "wf-1/step-1", "OTPY_COMMAND_ID": "0"}
    job = Job(
        run_id="left",
        attempt=1,
        launch=Launch(argv=("sleep", "90")),
        cwd=repository.tree,
        environment={},
        marker=marker,
        network=False,
    )
    async with sandbox.run(job, on_stdout=print, on_stderr=print) as running:
        await repository.commands.clear("wf-1")
        assert len(await sandbox.find(marker)) == 1
        await repository.commands.clear("wf-1/step-1")
        assert await sandbox.find(marker) == ()
        await asyncio.wait_for(running.wait(), 10)


async def test_an_image_is_part_of_the_key_of_a_pass(repository: Repository) -> None:
    """ENG-31: another sandbox has other programs, so a pass does not count there."""
    gate = shell_gate("test", "true")
    assert not (await repository.run(gate, cached=True))["test"].cached
    assert (await repository.run(gate, cached=True))["test"].cached
    elsewhere = Repository(repository.tree.parent / "other")
    elsewhere.tree, elsewhere.cache = repository.tree, repository.cache
    assert not (await elsewhere.run(gate, cached=True))["test"].cached
    assert os.getuid() == repository.tree.stat().st_uid
