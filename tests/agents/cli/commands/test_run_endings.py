"""`otpy-agents run` under interference: signals, a second terminal, `kill -9`."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from tests.agents.cli.commands.terminal import (
    FAILS_TWICE,
    HANGS,
    STUBBORN,
    Terminal,
    alive,
    survivors,
)

pytestmark = pytest.mark.real_time

COMMAND = ("--agent", "command", "--backoff-base", "0.05")
SLOW = ("--agent", "command", "--backoff-base", "600")
PYTHON = ("--", sys.executable, "-c")


@pytest.mark.parametrize(
    ("number", "status", "ending"),
    [
        (signal.SIGINT, 130, "cancelled"),
        (signal.SIGTERM, 143, "stopped"),
        (signal.SIGHUP, 129, "stopped"),
    ],
)
def test_a_signal_ends_the_run_in_good_order(
    terminal: Terminal, number: signal.Signals, status: int, ending: str
) -> None:
    """The run says so and ends, and no process survives."""
    running = terminal.start("run", "--json", *COMMAND, *PYTHON, HANGS)
    run = running.until("attempt.output", text="up")["run"]
    assert survivors(run)
    running.signal(number)
    note = running.until("note")
    assert "ending the run in good order; send it again to kill" in note["text"]
    ended = running.until("run.ended")
    assert ended["result"]["ending"] == ending
    assert running.end() == status
    assert survivors(run) == []
    assert terminal.runs()[0]["status"] == ("stopped" if ending == "stopped" else "failed")


def test_a_second_signal_kills(terminal: Terminal) -> None:
    """The kill cuts the grace short, and no process survives it either."""
    running = terminal.start("run", "--json", *COMMAND, *PYTHON, STUBBORN)
    run = running.until("attempt.output", text="up")["run"]
    assert len(survivors(run)) == 2
    began = time.monotonic()
    running.signal(signal.SIGINT)
    running.until("note")
    running.signal(signal.SIGINT)
    assert running.until("run.ended")["result"]["ending"] == "killed"
    assert running.end() == 130
    assert time.monotonic() - began < 4
    assert survivors(run) == []


def test_a_signal_during_a_wait_ends_it_at_once(terminal: Terminal) -> None:
    """Scenario 4: a long backoff does not delay the end."""
    running = terminal.start("run", *SLOW, *PYTHON, FAILS_TWICE)
    running.said("waits")
    began = time.monotonic()
    running.signal(signal.SIGINT)
    assert running.end() == 130
    assert time.monotonic() - began < 3
    assert "retry skipped due to user stop" in running.stderr


def test_a_second_terminal_sees_the_wait_and_cuts_it(terminal: Terminal) -> None:
    """The first terminal shows the command that cuts the wait."""
    running = terminal.start("run", "tidy up", *SLOW, *PYTHON, FAILS_TWICE)
    running.said("otpy-agents runs retry-now")
    (run,) = terminal.runs()
    assert (run["status"], run["attempts"]) == ("retrying (1/3)", 1)
    done = terminal.call("runs", "retry-now", run["id"][:4])
    assert (done.returncode, done.stderr) == (0, "")
    assert "the next attempt begins now" in done.stdout
    running.said("otpy-agents runs retry-now")
    assert terminal.runs()[0]["status"] == "retrying (2/3)"
    assert terminal.call("runs", "retry-now", run["id"]).returncode == 0
    assert running.end() == 0
    assert running.stdout == "done: tidy up\n"
    refused = terminal.call("runs", "retry-now", run["id"])
    assert refused.returncode == 1
    assert "wanted a run that is not over; it is done" in refused.stderr
    shown = terminal.call("runs", "show", run["id"]).stdout
    assert shown.count("retry-now by ") == 2


def test_a_second_terminal_gives_up_the_retry(terminal: Terminal) -> None:
    """The run ends with its last result."""
    running = terminal.start("run", *SLOW, *PYTHON, FAILS_TWICE)
    running.said("waits")
    run = terminal.runs()[0]["id"]
    assert terminal.call("runs", "cancel-retry", run).returncode == 0
    assert running.end() == 1
    assert "failed (retry_cancelled)" in running.stderr


@pytest.mark.parametrize(
    ("name", "status", "ending"), [("cancel", 130, "cancelled"), ("kill", 137, "killed")]
)
def test_a_second_terminal_ends_the_run(
    terminal: Terminal, name: str, status: int, ending: str
) -> None:
    """The run ends in good order or at once."""
    running = terminal.start("run", "--json", *COMMAND, *PYTHON, HANGS)
    run = running.until("attempt.output", text="up")["run"]
    refused = terminal.call("runs", "retry-now", run)
    assert refused.returncode == 1
    assert "there is no retry to decide about: the run is running" in refused.stderr
    assert terminal.call("runs", name, run).returncode == 0
    assert running.until("run.ended")["result"]["ending"] == ending
    assert running.end() == status
    assert survivors(run) == []


def test_a_second_terminal_brings_the_next_agent(terminal: Terminal) -> None:
    """The present agent may be at work."""
    place = terminal.folder / "bin"
    place.mkdir()
    (place / "claude").write_text(f"#!{sys.executable}\n{HANGS}")
    (place / "claude").chmod(0o755)
    words = ("--agent", "claude", "--fallback", "command")
    path = {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}
    running = terminal.start("run", "x", "--json", *words, *PYTHON, "print('done')", env=path)
    run = running.until("attempt.output", text="up")["run"]
    assert terminal.call("runs", "force-fallback", run).returncode == 0
    switched = running.until("agent.switched")
    assert (switched["source"], switched["target"]) == ("claude", "command")
    ended = running.until("run.ended")
    assert (ended["answer"], ended["exit_code"]) == ("done", 0)
    assert running.end() == 0


def test_a_second_terminal_cannot_bring_an_agent_that_is_not_there(terminal: Terminal) -> None:
    """The command is refused with the reason, and the run goes on."""
    running = terminal.start("run", "--json", *COMMAND, *PYTHON, HANGS)
    run = running.until("attempt.output", text="up")["run"]
    refused = terminal.call("runs", "force-fallback", run)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no agent comes after 'command'" in refused.stderr
    running.signal(signal.SIGTERM)
    assert running.end() == 143


def test_after_a_kill_the_run_is_interrupted_and_can_be_resumed(terminal: Terminal) -> None:
    """Scenario 26: the counters and the rest of the wait are kept."""
    running = terminal.start("run", "tidy up", *SLOW, *PYTHON, FAILS_TWICE)
    running.said("waits")
    (run,) = terminal.runs()
    running.kill()
    (killed,) = terminal.runs()
    assert killed["status"] == "interrupted"
    listed = terminal.call("runs")
    assert f"otpy-agents runs resume {run['id']}" in listed.stderr
    assert "interrupted" in listed.stdout
    refused = terminal.call("runs", "retry-now", run["id"])
    assert refused.returncode == 1
    assert "runs resume" in refused.stderr
    again = terminal.start("runs", "resume", run["id"])
    again.said("waits")
    assert terminal.runs()[0]["status"] == "retrying (1/3)"
    assert terminal.call("runs", "retry-now", run["id"]).returncode == 0
    again.said("retry 2/3")
    again.said("waits")
    assert terminal.call("runs", "retry-now", run["id"]).returncode == 0
    assert again.end() == 0
    assert again.stdout == "done: tidy up\n"
    assert terminal.shown(run["id"])["attempts"][-1]["number"] == 3
    over = terminal.call("runs", "resume", run["id"])
    assert over.returncode == 1
    assert over.stderr.count("\n") == 1


def test_a_run_that_goes_on_elsewhere_cannot_be_resumed(terminal: Terminal) -> None:
    """Another host holds the run."""
    running = terminal.start("run", "--json", *COMMAND, *PYTHON, HANGS)
    run = running.until("attempt.output", text="up")["run"]
    again = terminal.call("runs", "resume", run)
    assert again.returncode == 1
    assert f"held by process {running.pid}" in again.stderr
    running.signal(signal.SIGINT)
    assert running.end() == 130


def test_what_a_killed_host_left_alive_is_ended_by_the_next(terminal: Terminal) -> None:
    """The next host reports it, even with another run; the first can still be resumed."""
    running = terminal.start("run", "--json", *COMMAND, *PYTHON, STUBBORN)
    run = running.until("attempt.output", text="up")["run"]
    left = [orphan.pid for orphan in survivors(run)]
    assert len(left) == 2
    running.kill()
    assert all(alive(pid) for pid in left)
    done = terminal.call("run", *COMMAND, *PYTHON, "print('other')")
    assert (done.returncode, done.stdout) == (0, "other\n")
    assert done.stderr.count(f"of run {run}, whose program was killed") == 2
    assert not any(alive(pid) for pid in left)
    again = terminal.start("runs", "resume", run, "--json")
    began = again.until("attempt.began")
    assert (began["number"], began["cause"]) == (2, "interrupted")
    again.until("attempt.output", text="up")
    again.signal(signal.SIGTERM)
    again.until("note")
    again.signal(signal.SIGTERM)
    assert again.end() == 143
    assert survivors(run) == []
