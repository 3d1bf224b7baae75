"""`otpy-agents engine` as programs: signals, closed streams, a second terminal, many at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, final

import psutil
import pytest

from tests.agents.engine.server.engine_site import EngineSite, role

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(150)]

PATIENCE = 50.0
AGENT = """import json, os, pathlib, signal, sys, time
prompt = pathlib.Path(os.environ["OTPY_PROMPT_FILE"]).read_text()
{does}
print(json.dumps({{"status": "completed", "files_modified": [], "changes": [], "next_steps": []}}))
"""
WRITES = 'pathlib.Path("new.txt").write_text("good")'
SLEEPS = """pathlib.Path({told!r}).write_text(str(os.getpid()))
{first}
time.sleep(600)"""


@final
class Programs:
    """A repository, and programs that are started in it; none of them outlives the test."""

    def __init__(self, site: EngineSite, stack: ExitStack) -> None:
        self.site, self._stack = site, stack

    def make(self, does: str, supervisor: dict[str, str] | None = None) -> None:
        """Make the repository, with an agent that does something."""
        self.site.make({"roles/implementer.yaml": role(), **(supervisor or {})})
        path = self.site.repository / "agent.py"
        path.write_text(AGENT.format(does=does), encoding="utf-8")
        self.site.commit("Begin")

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command of the engine."""
        said: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        program = subprocess.Popen(
            [sys.executable, "-m", "otpy_agents", "engine", *words],
            cwd=self.site.repository,
            env={
                **os.environ,
                "OTPY_STATE": str(self.site.state),
                "OTPY_ENGINE_SANDBOX": "process",
            },
            text=True,
            **said,
        )
        self._stack.callback(program.kill)
        return self._stack.enter_context(program)

    def run(self, *words: str) -> tuple[int, str, str]:
        """Return the exit status of a command, and what it has written."""
        program = self.start(*words)
        out, said = program.communicate(timeout=PATIENCE)
        return program.returncode, out, said


@pytest.fixture
def programs(site: EngineSite) -> Iterator[Programs]:
    """Return a folder in which programs are started."""
    with ExitStack() as stack:
        yield Programs(site, stack)


def wait_for(path: Path) -> str:
    """Wait for a file with text, and return the text."""
    until = time.monotonic() + PATIENCE
    while not path.exists() or not path.read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    return path.read_text()


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_in_order(programs: Programs, number: signal.Signals, status: int) -> None:
    """The worker has ended, nothing is applied, and the log says who stopped it."""
    told = programs.site.folder / "told"
    programs.make(SLEEPS.format(told=str(told), first=WRITES))
    run = programs.start("run", "implementer", "Add it")
    worker = int(wait_for(told))
    run.send_signal(number)
    _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == status, said
    assert "Traceback" not in said
    assert "`otpy-agents engine status`" in said
    assert not is_alive(worker)
    assert not programs.site.status
    assert not programs.site.trees
    _, out, said = programs.run("status")
    assert f"stopped by {number.name}" in out
    assert "its host died" not in said


def test_a_second_signal_does_not_wait_for_a_worker_that_ignores_the_first(
    programs: Programs,
) -> None:
    """The program ends soon, and so does the worker."""
    told = programs.site.folder / "told"
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    programs.make(f"{stubborn}\n{SLEEPS.format(told=str(told), first=WRITES)}")
    run = programs.start("run", "implementer", "Add it")
    worker = int(wait_for(told))
    began = time.monotonic()
    for _ in range(3):
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
    run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
    assert time.monotonic() - began < 30
    programs.run("status")
    assert not is_alive(worker)
    assert not programs.site.trees


def test_a_worker_that_is_killed_from_outside_is_started_again(programs: Programs) -> None:
    """A crash is not an answer; the worker is started again within the attempt."""
    told = programs.site.folder / "told"
    once = f"""if not os.path.exists({str(told)!r}):
    open({str(told)!r}, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
{WRITES}"""
    programs.make(once)
    status, _, said = programs.run("run", "implementer", "Add it")
    assert status == 0, said
    assert programs.site.subjects[0] == "Add it"


def test_a_limit_of_time_has_an_exit_status_of_its_own(programs: Programs) -> None:
    """It is 4, and the line names the limit."""
    told = programs.site.folder / "told"
    programs.make(SLEEPS.format(told=str(told), first=WRITES), {"limits.yaml": "component: 2\n"})
    status, _, said = programs.run("run", "implementer", "Add it")
    assert (status, said.splitlines()[-1]) == (
        4,
        "otpy-agents: it took longer than 2 s (limits.yaml); 0 of 1 steps completed",
    )
    assert not is_alive(int(told.read_text()))


def test_work_goes_on_when_nobody_reads_what_is_said(programs: Programs) -> None:
    """The output reaches no reader; the step stays applied, and the log says so."""
    programs.make(WRITES)
    reader, writer = os.pipe()
    os.close(reader)
    run = programs.start("run", "implementer", "Add it", stdout=writer, stderr=writer)
    os.close(writer)
    run.wait(timeout=PATIENCE)
    assert programs.site.subjects[0] == "Add it"
    _, out, _ = programs.run("status")
    assert "completed" in out


def test_a_second_terminal_watches_what_the_first_has_begun(programs: Programs) -> None:
    """It follows the work and lists it, and it can approve a step that waits."""
    told, go = programs.site.folder / "told", programs.site.folder / "go"
    waits = f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n{WRITES}"
    programs.make(
        f'pathlib.Path({str(told)!r}).write_text("begun")\n{waits}',
        {"approval.yaml": "paths: ['*.txt']\n"},
    )
    run = programs.start("run", "implementer", "Add it")
    wait_for(told)
    watch = programs.start("status", "--follow")
    assert watch.stdout is not None
    shown = [watch.stdout.readline(), watch.stdout.readline()]
    assert "running" in shown[1]
    go.touch()
    line = ""
    while "waits" not in line and "asks" not in line:
        line = watch.stdout.readline()
        assert line
    name = shown[1].split()[0]
    assert f"{name}/step-001 waits for a person" in programs.run("status")[1]
    assert programs.run("approve", name)[0] == 0
    while f"{name}: completed" not in line:
        line = watch.stdout.readline()
        assert line
    assert run.wait(timeout=PATIENCE) == 0
    assert watch.poll() is None
    watch.send_signal(signal.SIGINT)
    assert watch.wait(timeout=PATIENCE) == 130


def test_eight_workflows_and_a_ninth_who_commits(programs: Programs) -> None:
    """ENG-46: each step is applied once, or refused with a reason; the repository is whole."""
    site = programs.site
    programs.make(
        "name = prompt.split('Add number ')[1][0]\n"
        "pathlib.Path(f'{name}.txt').write_text('good')\ntime.sleep(0.5)"
    )
    runs = [
        programs.start("run", "implementer", f"Add number {n}", *(["--rebase"] if n % 2 else []))
        for n in range(8)
    ]
    ours = 0
    while any(run.poll() is None for run in runs):
        (site.repository / "ninth.txt").write_text(str(ours), encoding="utf-8")
        with contextlib.suppress(subprocess.CalledProcessError):  # a step is being applied
            site.git("add", "ninth.txt")
            site.git("commit", "-q", "-m", f"Ninth {ours}", "--", "ninth.txt")
            ours += 1
        time.sleep(0.6)
    subjects = site.subjects
    for number, run in enumerate(runs):
        _, said = run.communicate(timeout=PATIENCE)
        assert "Traceback" not in said
        applied = subjects.count(f"Add number {number}")
        if run.returncode:
            assert (run.returncode, applied) == (1, 0), said
            assert "got HEAD at" in said.splitlines()[-1]
        else:
            assert applied == 1
            assert (site.repository / f"{number}.txt").exists()
    assert all(run.returncode == 0 for run in runs[1::2]), [run.returncode for run in runs]
    assert ours > 2
    assert sum(subject.startswith("Ninth") for subject in subjects) == ours
    assert not site.trees
    assert not site.status.replace(" M ninth.txt\n", "").replace("M  ninth.txt\n", "")
    assert not site.git("fsck", "--strict", "--no-dangling")
