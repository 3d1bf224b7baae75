"""`otpy-agents run`, from the command line to the exit status."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.agents.cli.commands.terminal import FAILS_TWICE, HANGS, SPEAKS_JSON, Terminal, survivors

pytestmark = pytest.mark.real_time

COMMAND = ("--agent", "command", "--backoff-base", "0.05")
PYTHON = ("--", sys.executable, "-c")


def test_what_fails_is_tried_again_until_it_is_done(terminal: Terminal) -> None:
    """Standard output has the answer alone; standard error has attempts, reasons and waits."""
    done = terminal.call("run", "tidy up", *COMMAND, *PYTHON, FAILS_TWICE)
    assert (done.returncode, done.stdout) == (0, "done: tidy up\n")
    for line in (
        "attempt 1: command (first)",
        "attempt 1: failed: network",
        "connection refused",
        "retry 1/3 with command",
        "attempt 3: ok",
        "[supervisor] completed after 2 retries",
        "done (succeeded)",
    ):
        assert line in done.stderr
    (run,) = terminal.runs()
    assert (run["status"], run["attempts"], run["exit_code"]) == ("done", 3, 0)
    assert terminal.shown(run["id"])["answer"] == "done: tidy up"


def test_a_program_gets_one_object_for_each_event(terminal: Terminal) -> None:
    """An agent's events have the same names for every CLI; the result comes last."""
    done = terminal.call("run", "--json", *COMMAND, *PYTHON, SPEAKS_JSON)
    assert (done.returncode, done.stderr) == (0, "")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    names = [one["event"] for one in events]
    assert names[0] == "run.began"
    assert names[-1] == "run.ended"
    said = [one["said"]["type"] for one in events if one["event"] == "attempt.event"]
    assert said == ["SessionSeen", "ToolStarted", "ToolEnded", "Spent", "Final"]
    last = events[-1]
    assert (last["answer"], last["status"], last["exit_code"]) == ("It was the clock.", "done", 0)
    assert last["result"]["usage"] == {"input": 1200, "cached": 0, "output": 30, "cost_usd": 0.5}
    assert {one["run"] for one in events} == {terminal.runs()[0]["id"]}


def test_a_run_that_fails_has_the_exit_status_of_its_last_attempt(terminal: Terminal) -> None:
    """One line tells the reason, even if the output was to be quiet."""
    fails = "import sys; sys.exit(3)"
    done = terminal.call("run", "-q", *COMMAND, "--max-retries", "0", *PYTHON, fails)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "failed (exhausted)" in done.stderr


def test_a_prompt_from_standard_input_may_be_long(terminal: Terminal) -> None:
    """The agent gets it unchanged."""
    prompt = "x" * 50_000 + "\ny"
    script = "import os; print(len(os.environ['OTPY_PROMPT']))"
    done = terminal.call("run", "-", "-q", *COMMAND, *PYTHON, script, stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "50002\n")


def test_a_prompt_of_any_length_arrives(terminal: Terminal) -> None:
    """It is in a file that no other user can read, as no variable could hold it."""
    script = (
        "import os; file = os.environ['OTPY_PROMPT_FILE']; print(len(open(file).read()),"
        " 'OTPY_PROMPT' in os.environ, oct(os.stat(os.path.dirname(file)).st_mode & 0o77))"
    )
    done = terminal.call("run", "-", "-q", *COMMAND, *PYTHON, script, stdin="x" * 1_000_000)
    assert (done.returncode, done.stdout) == (0, "1000000 False 0o0\n")


def test_an_agent_that_is_not_installed_is_named_with_what_to_type(terminal: Terminal) -> None:
    """If no other agent can take over, no run begins."""
    done = terminal.call_here("run", "x", "--agent", "claude", env={"PATH": "/nowhere"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "npm install -g @anthropic-ai/claude-code" in done.stderr
    assert terminal.runs() == []


def test_a_file_that_cannot_be_run_is_named_with_what_to_do(terminal: Terminal) -> None:
    """It is not searched on the PATH, and there is nothing to install."""
    (terminal.folder / "tidy.py").write_text("print('hi')\n", encoding="utf-8")
    done = terminal.call_here("run", "--agent", "command", "--", "./tidy.py")
    assert (done.returncode, done.stdout) == (1, "")
    wanted = "got no program './tidy.py' that can be run, wanted one; install it, or make it"
    assert wanted in done.stderr


def test_an_agent_that_is_not_installed_gives_way_to_the_next(terminal: Terminal) -> None:
    """The hint is printed, and the switch."""
    words = ("--agent", "claude", "--fallback", "command")
    script = "print('done')"
    done = terminal.call("run", "x", *words, *PYTHON, script, env={"PATH": "/nowhere"})
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "npm install -g @anthropic-ai/claude-code" in done.stderr
    assert "switching from claude to command (fallback)" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (("--cwd", "/nowhere"), 2, "/nowhere"),
        (("--sandbox", "docker:none"), 1, "sandbox 'docker'"),
    ],
)
def test_what_cannot_be_begun_is_refused_with_one_line(
    terminal: Terminal, words: tuple[str, ...], status: int, line: str
) -> None:
    """No run is stored then."""
    nowhere = {"DOCKER_HOST": "unix:///nowhere.sock"}
    done = terminal.call("run", *words, "--agent", "command", "--", "true", env=nowhere)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("otpy-agents: ")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert terminal.runs() == []


def test_silence_is_ended_if_asked(terminal: Terminal) -> None:
    """Each attempt is ended at its deadline; after the last retry the run has failed."""
    limits = ("--liveness", "deadline:0.3", "--max-retries", "1")
    done = terminal.call("run", *COMMAND, *limits, *PYTHON, HANGS)
    assert done.returncode == 1
    assert done.stderr.count("ended: deadline") == 2
    assert survivors(terminal.runs()[0]["id"]) == []


def test_secrets_are_never_shown_nor_stored(terminal: Terminal) -> None:
    """Secrets by name are hidden, and so are declared ones."""
    script = "import os; print(os.environ['MY_TOKEN'], os.environ['CARGO'])"
    env = {"MY_TOKEN": "open-sesame", "CARGO": "hidden-gold"}
    words = ("--secret", "CARGO", "--env", "MY_TOKEN")
    done = terminal.call("run", *COMMAND, *words, *PYTHON, script, env=env)
    assert (done.returncode, done.stdout) == (0, "[MY_TOKEN] [CARGO]\n")
    stored = b"".join(
        path.read_bytes() for path in terminal.state.parent.rglob("*") if path.is_file()
    )
    for secret in ("open-sesame", "hidden-gold"):
        assert secret not in done.stderr
        assert secret.encode() not in stored


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_does_not_end_the_run(terminal: Terminal, closed: int) -> None:
    """The work is done without a reader, and no traceback is written."""
    argv = terminal.argv("run", *COMMAND, *PYTHON, FAILS_TWICE)
    process = subprocess.Popen(
        argv,
        cwd=terminal.folder,
        env=terminal.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    streams = (process.stdout, process.stderr)
    gone, other = streams if closed == 1 else reversed(streams)
    assert gone is not None
    assert other is not None
    gone.close()
    text = other.read()
    other.close()
    assert process.wait(30) == 0
    assert "Traceback" not in text
    assert "Exception ignored" not in text
    assert terminal.runs()[0]["status"] == "done"


def test_a_run_works_without_any_stream(terminal: Terminal) -> None:
    """A daemon may have closed them all."""
    line = '"$@" <&- >&- 2>&-'
    argv = terminal.argv("run", *COMMAND, *PYTHON, FAILS_TWICE)
    done = subprocess.run(
        ["sh", "-c", line, "sh", *argv],
        cwd=terminal.folder,
        env=terminal.environment,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0
    assert terminal.runs()[0]["status"] == "done"


def test_what_an_agent_leaves_is_in_the_folder_it_was_told(terminal: Terminal) -> None:
    """The folder and its files are shown with the run."""
    script = "import os, pathlib; pathlib.Path(os.environ['OTPY_ARTIFACTS'], 'a.txt').touch()"
    words = ("--artifacts", "out")
    done = terminal.call("run", *COMMAND, *words, *PYTHON, script + "; print('ok')")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (terminal.folder / "out").iterdir()] == ["a.txt"]
    text = terminal.call("runs", "show", terminal.runs()[0]["id"]).stdout
    assert str(terminal.folder / "out") in text
    assert "a.txt" in text
