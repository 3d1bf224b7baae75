"""A step of the engine behind each kind of walls, with a real worker and a real gate."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import otpy
from otpy_agents.engine.events import EngineEvent, StepCompleted, StepTampered, WorkerAnswered
from otpy_agents.engine.server import EngineSettings, open_engine
from otpy_agents.errors import SandboxUnavailable
from otpy_agents.sandbox import BubblewrapSandbox
from tests.agents.sandbox.dockerd import IMAGE

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(150)]

# Its attacks on the repository must fail or be undone; its file in the work tree is applied, and
# its final answer counts.
WORKER = """
echo hello > hello.txt
common=$(sed -n 's/^gitdir: //p' .git | sed 's,/worktrees/.*,,')
echo '[core]' >> "$common/config" 2>/dev/null && echo config >&2
echo evil > "$common/hooks/pre-commit" 2>/dev/null && echo hook >&2
echo 'gates: {}' > .supervisor/gates.yaml 2>/dev/null
ls /sys/class/net | grep -v lo >&2
echo '{"status": "completed", "files_modified": ["hello.txt"], "changes": ["it greets"]}'
"""
ROLE = """extends: implementer
cli: command
argv: [sh, worker.sh]
gates: [greets]
"""
GATES = """gates:
  greets: {command: [sh, -c, "grep -q hello hello.txt"]}
  test: {command: ["true"]}
  lint: {command: ["true"]}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a worker that attacks it."""
    folder = tmp_path / "work"
    roles = folder / ".supervisor" / "roles"
    roles.mkdir(parents=True)
    (roles / "tester.yaml").write_text(ROLE)
    (folder / ".supervisor" / "gates.yaml").write_text(GATES)
    (folder / "worker.sh").write_text(WORKER)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def git(folder: Path, *words: str) -> str:
    user = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.check_output(["git", "-C", str(folder), *user, *words], text=True)


async def step(repository: Path, sandbox: str) -> list[EngineEvent]:
    """Run one step, and return what was told."""
    told: list[EngineEvent] = []
    settings = EngineSettings(
        repository=repository,
        state=repository.parent / "state" / "runs.sqlite3",
        sandbox=sandbox,
        listen=told.append,
    )
    async with (
        open_engine(settings) as opened,
        otpy.start(otpy.SupervisorSpec("App", [opened.spec()]), hooks=()),
    ):
        name = await opened.begin_run("tester", "Greet", (), rebase=False, actor="ann")
        end = await opened.wait(name)
        assert end.cause is None, end
    return told


def applied_and_nothing_else(repository: Path, told: list[EngineEvent]) -> None:
    (completed,) = [one for one in told if isinstance(one, StepCompleted)]
    assert completed.files == ("hello.txt",)
    assert git(repository, "show", "--format=", "--name-only", "HEAD") == "hello.txt\n"
    assert (repository / "hello.txt").read_text() == "hello\n"
    assert (repository / ".supervisor/gates.yaml").read_text() == GATES
    assert not (repository / ".git/hooks/pre-commit").exists()
    assert not [*(repository / ".worktrees").glob("wf-*")]


async def test_a_step_in_a_container_is_applied_and_writes_nothing_else(
    docker_socket: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENG-12, ENG-13: worker and gate in containers of the image that was asked for."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{docker_socket}")
    told = await step(repository, f"docker:{IMAGE}")
    applied_and_nothing_else(repository, told)
    assert not any(isinstance(one, StepTampered) for one in told), "there was nothing to undo"


async def test_a_step_in_bubblewrap_is_applied_and_writes_nothing_else(repository: Path) -> None:
    """The worker cannot write the git folder of the repository."""
    try:
        await BubblewrapSandbox().check()
    except SandboxUnavailable as error:
        pytest.skip(f"no bubblewrap: {error}")
    told = await step(repository, "bubblewrap")
    applied_and_nothing_else(repository, told)


async def test_what_a_step_without_walls_changes_is_told_and_undone(repository: Path) -> None:
    """ENG-48: hooks, settings and gates are as before, and the log says what was tried."""
    told = await step(repository, "process")
    applied_and_nothing_else(repository, told)
    (tampered,) = [one for one in told if isinstance(one, StepTampered)]
    assert any("gates.yaml" in what for what in tampered.what), tampered
    assert any("hook" in what for what in tampered.what), tampered
    assert [one.status for one in told if isinstance(one, WorkerAnswered)] == ["ok"]
