"""Gates as real programs: in bubblewrap, without walls, and from the command line."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve

from otpy_agents.cli.engine_gates import gates
from otpy_agents.engine.gates import GATES_FILE, GateStatus, load_gates
from otpy_agents.errors import SandboxUnavailable
from otpy_agents.sandbox import BubblewrapSandbox
from tests.agents.engine.gates.scene import Repository, shell_gate
from tests.agents.sandbox.conftest import why_no_bubblewrap
from tests.agents.sandbox.scene import sleepers

pytestmark = pytest.mark.real_time

PASSED, FAILED, WARNED, SKIPPED = GateStatus
SOUND = '"""Adds."""\n\n\ndef add(a, b):\n    return a + b\n'
TESTED = "from adds import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose gates run in bubblewrap."""
    if reason := why_no_bubblewrap():
        pytest.skip(reason)
    return Repository(tmp_path)


async def test_shipped_gates_judge_a_python_project(repository: Repository) -> None:
    """ENG-29: ruff and pytest as they are installed here, on a tree they cannot write."""
    repository.commit({"adds.py": SOUND, "test_adds.py": TESTED})
    before = repository.files()
    shipped = load_gates(None)
    fast = {**shipped["test"].env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    chosen = (shipped["lint"], shipped["format_check"], evolve(shipped["test"], env=fast))
    results = await repository.run(*chosen)
    assert [one.status for one in results.values()] == [PASSED] * 3, results
    assert "1 passed" in results["test"].output
    assert repository.files() == before
    (repository.tree / "adds.py").write_text("import os\n" + SOUND.replace("+", "-"))
    results = await repository.run(*chosen)
    assert results["lint"].status is FAILED
    assert "F401" in results["lint"].output
    assert "assert -1 == 3" in results["test"].output
    assert repository.said == []


async def test_a_gate_changes_nothing_outside_of_what_it_may_write(repository: Repository) -> None:
    """ENG-14: a gate writes to a copy, which the gates of a run share (ENG-27)."""
    repository.commit({"kept/old.txt": "old\n"})
    outside = repository.tree.parent / "outside"
    script = (
        f"touch here; touch {outside}; touch .git/hooks/x; touch $HOME/otpy-was-here;"
        "cat kept/old.txt; echo new >kept/old.txt; echo x >made/deep/report; ls made/deep"
    )
    writes = ("kept/", "made/deep/", "report.xml")
    build = shell_gate("build", script, allowed_writes=writes)
    check = shell_gate(
        "check", "cat kept/old.txt made/deep/report", depends_on=("build",), allowed_writes=writes
    )
    results = await repository.run(build, check)
    output = results["build"].output
    assert output.count("Read-only file system") + output.count("Permission denied") == 3, output
    assert output.splitlines()[-2:] == ["old", "report"]
    assert results["check"].output == "new\nx\n"
    assert repository.files() == {"kept", "kept/old.txt"}
    assert (repository.tree / "kept/old.txt").read_text() == "old\n"
    assert not outside.exists()
    assert not (repository.tree / ".git/hooks/x").exists()


async def test_a_gate_reaches_no_network(repository: Repository) -> None:
    """ENG-12: a gate does not even reach this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ask = f"import socket; socket.create_connection({server.getsockname()!r}, 5)"
        gate = evolve(shell_gate("ask", ""), command=(sys.executable, "-c", ask))
        result = (await repository.run(gate))["ask"]
    assert (result.status, result.exit_code) == (FAILED, 1)
    assert "Error" in result.output


async def test_a_gate_that_runs_riot_is_ended(repository: Repository) -> None:
    """ENG-14: a fork bomb, a gigabyte of output, and a gate that never ends."""
    bomb = "i=0; while [ $i -lt 3000 ]; do sleep 90 & i=$((i+1)); done; wait"
    results = await repository.run(
        shell_gate("bomb", bomb),
        shell_gate("loud", "head -c 1000000000 /dev/zero"),
        shell_gate("slow", "echo begun; sleep 90", timeout=1.0),
    )
    assert results["bomb"].output == "ended for more than 512 processes and threads"
    assert results["loud"].output.endswith("\nended for more than 50 MB of output")
    assert len(results["loud"].output) < 11 * 1024 * 1024
    assert results["slow"].output == "begun\nended after 1 s"
    assert {one.status for one in results.values()} == {FAILED}


async def test_a_gate_sees_no_secret_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Repository
) -> None:
    """The gate sees the variables that its file declares."""
    monkeypatch.setenv("GITHUB_TOKEN", "sesame")
    inside = Repository(tmp_path / "other")
    del repository  # skips
    result = (await inside.run(shell_gate("env", "env", env={"MINE": "1"})))["env"]
    assert "sesame" not in result.output
    assert "MINE=1" in result.output


async def test_gates_are_those_of_the_base_commit(repository: Repository) -> None:
    """ENG-27: a worker that edits its copy of the gates changes nothing."""
    text = "gates:\n  test: {command: [sh, -c, 'exit 7'], env: {}}\n"
    repository.commit({GATES_FILE: text})
    (repository.tree / GATES_FILE).write_text("gates:\n  test: {command: ['true']}\n")
    result = (await repository.run(repository.gates_of("HEAD")["test"]))["test"]
    assert (result.status, result.exit_code) == (FAILED, 7)


async def test_a_pass_is_shared_by_the_work_trees_of_a_repository(
    repository: Repository,
) -> None:
    """ENG-31: a pass in one work tree counts in another."""
    repository.commit({"adds.py": SOUND})
    gate = shell_gate("test", "echo $$; ls")
    first = (await repository.run(gate, cached=True))["test"]
    other = repository.tree / ".worktrees/wf-1-step-1"
    repository.git("worktree", "add", "-q", "--detach", str(other))
    repository.tree = other
    again = (await repository.run(gate, cached=True))["test"]
    assert (again.cached, again.output) == (True, first.output)


async def test_without_walls_nothing_is_written_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate runs on a copy; the log says `unisolated` (C-24)."""

    async def refuse(_: BubblewrapSandbox) -> None:
        await asyncio.sleep(0)
        raise SandboxUnavailable("bubblewrap", "it is broken")

    monkeypatch.setattr(BubblewrapSandbox, "check", refuse)
    repository = Repository(tmp_path)
    repository.commit({"a.txt": "a\n", "sub/b.txt": "b\n"})
    (repository.tree / "link").symlink_to("a.txt")
    script = "cat ../link b.txt; touch x ../y; rm ../a.txt; mkdir ../out"
    gate = shell_gate("test", script, working_dir="sub", allowed_writes=("out/",))
    before = repository.files()
    result = (await repository.run(gate))["test"]
    assert (result.status, result.output) == (PASSED, "a\nb\n")
    assert repository.files() == before
    assert (repository.tree / "a.txt").read_text() == "a\n"
    assert ["unisolated" in line for line in repository.said] == [True]


# --- the command line -----------------------------------------------------------------------------


def command(*args: str) -> int:
    """Run a command line, and return its exit status."""
    try:
        gates.main(args=[*args], prog_name="gates", standalone_mode=False)
    except SystemExit as error:
        return int(error.code or 0)
    return 0


@pytest.fixture
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A state folder of the test."""
    monkeypatch.setenv("OTPY_STATE", str(tmp_path / "state/runs.sqlite3"))


OWN = """gates:
  ok: {command: [sh, -c, "echo fine"], severity: warning}
  bad: {command: [sh, -c, "echo 'it is wrong'; exit 3"], depends_on: [ok]}
"""


@pytest.mark.usefixtures("own_state")
def test_the_command_line_shows_and_runs_gates(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 if one fails, with what it wrote; 0 if all pass, and then from the cache."""
    tree = repository.tree
    (tree / ".supervisor").mkdir()
    (tree / ".supervisor/gates.yaml").write_text(OWN)
    where = ("--repo", str(tree / ".supervisor"))
    assert command("list", *where) == 0
    listed = capsys.readouterr().out.splitlines()
    (row,) = (line for line in listed if line.startswith("bad "))
    assert row.split()[1:6] == [".supervisor/gates.yaml", "-", "ok", "300", "s"]
    (row,) = (line for line in listed if line.startswith("test "))
    assert row.split()[1:3] == ["shipped", "implementer"]
    assert command("run", "ok", "bad", *where, "--sandbox", "bubblewrap") == 2
    out = capsys.readouterr().out
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["ok", "passed"],
        ["bad", "failed"],
        ["it", "is"],
    ]
    assert command("run", "ok", *where, "--sandbox", "process") == 0
    assert "not run again" in capsys.readouterr().out
    assert command("run", "ok", *where, "--sandbox", "process", "--no-cache") == 0
    assert "not run again" not in capsys.readouterr().out


@pytest.mark.usefixtures("own_state")
def test_what_the_command_line_leaves_out_of_an_output_stands_in_a_file(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last 100 lines are shown."""
    (repository.tree / ".supervisor").mkdir()
    loud = "gates:\n  loud: {command: [sh, -c, 'seq 250; exit 1']}\n"
    (repository.tree / ".supervisor/gates.yaml").write_text(loud)
    where = ("--repo", str(repository.tree), "--sandbox", "process")
    assert command("run", "loud", *where) == 2
    _, cut, *shown = capsys.readouterr().out.splitlines()
    assert [int(line) for line in shown] == [*range(151, 251)]
    said, _, file = cut.strip().partition("; all of it is in ")
    assert said == "… 150 lines before"
    assert Path(file).read_text() == "".join(f"{number}\n" for number in range(1, 251))


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(
    ("args", "text", "said"),
    [
        (("run",), "", "--sandbox: got nothing, wanted docker:IMAGE"),
        (("run", "--sandbox", "vm"), "", "--sandbox: got 'vm', wanted process"),
        (("run", "x", "--sandbox", "process"), "", "gate: got 'x', wanted one of lint"),
        (("list",), "gates: 3", ".supervisor/gates.yaml:1: gates: got 3"),
        (("list", "--repo", "/"), "", "--repo: got '/', wanted a folder in a git repository"),
    ],
)
def test_a_wrong_command_line_gets_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    text: str,
    said: str,
) -> None:
    """The exit status is 1, and there is no traceback."""
    repository = Repository(tmp_path)
    monkeypatch.chdir(repository.tree)
    monkeypatch.delenv("OTPY_ENGINE_SANDBOX", raising=False)
    (repository.tree / ".supervisor").mkdir()
    (repository.tree / ".supervisor/gates.yaml").write_text(text)
    assert command(*args) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"otpy-agents: {said}"), error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_gates_and_clears_up(
    repository: Repository, number: signal.Signals, status: int
) -> None:
    """Nothing runs on, and nothing is left in the work tree."""
    tree = repository.tree
    script = f"sleep 9{number:d}.125"
    gates_file = f"gates:\n  slow: {{command: [sh, -c, '{script}'], allowed_writes: [out/**]}}\n"
    repository.commit({GATES_FILE: gates_file})
    before = repository.files()
    line = (
        "from otpy_agents.cli.engine_gates import gates\n"
        "from otpy_agents.cli.refusal import RefusingGroup\n"
        "RefusingGroup(lazy={'gates': ''}, load=lambda _: gates).main()"
    )
    argv = [sys.executable, "-c", line, "gates", "run", "slow", "--sandbox", "process"]
    with subprocess.Popen(argv, cwd=tree, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("slow")
        until = time.monotonic() + 30
        while not sleepers(f"9{number:d}.125") and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(30) == status
    assert sleepers(f"9{number:d}.125") == []
    assert repository.files() == before
