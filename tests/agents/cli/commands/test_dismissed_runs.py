"""`otpy-agents runs cancel`, `kill` and `forget`: ways out for runs without a host."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from otpy_agents.cli import main
from otpy_agents.run.decide.result import Ending
from otpy_agents.run.decide.state import RunPhase, RunState
from otpy_agents.store import RunStore
from tests.agents.cli.commands.stories import RUN, put, record, waiting
from tests.agents.cli.commands.terminal import HANGS, Terminal, survivors

pytestmark = pytest.mark.real_time

OTHER = "1b2c3d4e5f"
OVER = evolve(waiting(0, record()), wait=None, phase=RunPhase.COMPLETE, ending=Ending.SUCCEEDED)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite3"


def call(state: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["runs", *words], env={"OTPY_STATE": str(state), "HOME": "/"})


def left(state: Path, run: str, what: RunState, exit_code: int | None, now: float = 0.0) -> None:
    """Store a run at a given time, from a host that then ends."""

    async def main() -> None:
        async with RunStore(state, clock=(lambda: now) if now else time.time) as store:
            await put(store, run, what, exit_code=exit_code)

    asyncio.run(main())


def listed(state: Path) -> dict[str, str]:
    """Return the stored runs with their status."""
    lines = call(state, "--all").stdout.splitlines()[1:]
    return {words[0]: words[1] for words in map(str.split, lines)}


@pytest.mark.parametrize(("name", "status"), [("cancel", 130), ("kill", 137)])
def test_an_interrupted_run_can_be_ended(state: Path, name: str, status: int) -> None:
    """None of it is started, `runs` no longer lists it, and it cannot be resumed."""
    left(state, RUN, waiting(1000.0, record()), None)
    done = call(state, name, RUN[:3])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("its host was gone already\n")
    assert call(state).stdout == ""
    shown = call(state, "show", RUN).stdout
    assert f"exit code {status}" in shown
    assert call(state, "resume", RUN).exit_code == 1


def test_what_a_killed_host_left_of_a_cancelled_run_is_ended(terminal: Terminal) -> None:
    """The attempt's processes end, and the run counts as cancelled."""
    running = terminal.start("run", "--json", "--agent", "command", "--", "python", "-c", HANGS)
    run = running.until("attempt.output", text="up")["run"]
    running.kill_with_guardians()
    assert survivors(run)
    reminded = terminal.call("runs")
    assert f"runs cancel {run}` ends it" in reminded.stderr
    done = terminal.call("runs", "cancel", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert survivors(run) == []
    shown = terminal.shown(run)
    assert (shown["exit_code"], shown["attempts"][-1]["number"]) == (130, 1)


def test_a_run_whose_state_is_from_the_future_can_be_ended(state: Path) -> None:
    """No host here can go on with it; its stored state stays unchanged."""

    async def main() -> None:
        async with RunStore(state) as store:
            await store.create(
                RUN, '{"version": 99}', version=99, status="running", agent="a", prompt="", cwd="/"
            )

    asyncio.run(main())
    assert call(state, "cancel", RUN).exit_code == 0
    assert listed(state) == {RUN: "failed"}


def test_runs_that_are_over_can_be_forgotten(state: Path) -> None:
    """Named runs are forgotten, and no others."""
    left(state, RUN, OVER, 0)
    left(state, OTHER, OVER, 0)
    done = call(state, "forget", RUN[:4], RUN)
    assert (done.exit_code, done.stdout) == (0, "forgot 1 run\n")
    assert listed(state) == {OTHER: "done"}


def test_a_run_that_is_not_over_is_not_forgotten(state: Path) -> None:
    """The other named runs stay too, and the line says how to end the unfinished one."""
    left(state, OTHER, OVER, 0)
    left(state, RUN, waiting(1000.0), None)
    done = call(state, "forget", OTHER, RUN)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"`otpy-agents runs cancel {RUN}` ends it" in done.stderr
    assert listed(state) == {OTHER: "done", RUN: "interrupted"}


def test_old_runs_can_be_forgotten_by_their_age(state: Path) -> None:
    """Runs that ended longer ago are forgotten; an unfinished one of any age stays."""
    left(state, RUN, OVER, 0, now=1000.0)
    left(state, OTHER, OVER, 0)
    left(state, "2c3d4e5f6a", waiting(1000.0), None, now=1000.0)
    done = call(state, "forget", "--older-than", "30d")
    assert (done.exit_code, done.stdout) == (0, "forgot 1 run\n")
    assert listed(state) == {OTHER: "done", "2c3d4e5f6a": "interrupted"}


@pytest.mark.parametrize("words", [[], ["--older-than", "30d", RUN], ["--older-than", "soon"]])
def test_what_to_forget_has_to_be_plain(state: Path, words: list[str]) -> None:
    """One line says what is wanted, and nothing is deleted."""
    left(state, RUN, OVER, 0)
    done = call(state, "forget", *words)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert listed(state) == {RUN: "done"}


@pytest.mark.parametrize(("keep", "kept"), [("", 1), ("all", 2), ("0KB", 0), ("1GB", 2)])
def test_a_run_cleans_up_behind_old_ones(terminal: Terminal, keep: str, kept: int) -> None:
    """Old runs go after 30 days by default; the variable may keep all, or none."""
    terminal.state.parent.mkdir()
    left(terminal.state, RUN, OVER, 0, now=1000.0)
    words = ("run", "-q", "--agent", "command", "--", "true")
    assert terminal.call(*words, env={"OTPY_KEEP_RUNS": keep}).returncode == 1  # no answer
    assert len(terminal.runs()) == kept


def test_a_retention_that_nobody_understands_is_refused(terminal: Terminal) -> None:
    """It is refused before the run begins."""
    words = ("run", "--agent", "command", "--", "touch", "did")
    done = terminal.call_here(*words, env={"OTPY_KEEP_RUNS": "soon"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "OTPY_KEEP_RUNS: got 'soon', wanted an age such as 30d" in done.stderr
    assert not (terminal.folder / "did").exists()
