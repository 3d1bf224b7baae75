"""`otpy-agents run` and `runs` refuse what they cannot do with one line."""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from otpy_agents.cli import main
from otpy_agents.errors import RunBroken
from otpy_agents.run.host.host import RunHost
from tests.agents.cli.commands.terminal import FAILS_TWICE, Terminal
from tests.agents.host import PATIENCE

pytestmark = pytest.mark.real_time

PYTHON = ("--agent", "command", "--", sys.executable, "-c")
SLOW = ("--backoff-base", "600", *PYTHON)
IMPOSSIBLE = "a folder that can be made and written to"
LOOKS = (["runs"], ["runs", "show", "0a"], ["runs", "cancel", "0a"], ["runs", "resume", "0a"])


def shell(terminal: Terminal, line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Type `line`, in which `"$@"` is a command with these words."""
    return subprocess.run(
        ["bash", "-c", line, "bash", *terminal.argv(*words)],
        cwd=terminal.folder,
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def refused(done: subprocess.CompletedProcess[str], status: int) -> str:
    """Return the one line of the refusal."""
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("otpy-agents: ")
    return line


def corrupt(folder: Path) -> str:
    (folder / "runs").write_bytes(b"no database " * 500)
    return f"{folder / 'runs'}: got file is not a database, wanted a store of runs; move"


def directory(folder: Path) -> str:
    (folder / "runs").mkdir()
    return f"{folder / 'runs'}: got 'Is a directory', wanted a file that can be written"


def foreign(folder: Path) -> str:
    with contextlib.closing(sqlite3.connect(folder / "runs")) as database:
        database.execute("CREATE TABLE a (b)")
    return f"{folder / 'runs'}: got a database of another program, wanted a store of runs; move"


@pytest.mark.parametrize("spoil", [corrupt, directory, foreign])
@pytest.mark.parametrize("words", [["run", *PYTHON, "print(1)"], *LOOKS[:2]], ids=" ".join)
def test_a_state_file_that_is_none_is_named(
    terminal: Terminal, spoil: Callable[[Path], str], words: list[str]
) -> None:
    """The line says what is wanted; the file stays unchanged, and no run begins."""
    line = spoil(terminal.folder)
    done = terminal.call_here(*words, env={"OTPY_STATE": str(terminal.folder / "runs")})
    assert line in refused(done, 1)


@pytest.mark.parametrize("place", ["/proc/runs", "/sys/folder/runs"])
def test_a_state_file_that_cannot_be_made_is_named(terminal: Terminal, place: str) -> None:
    """The disk may be read-only; the work does not begin without the file."""
    done = terminal.call_here("run", "--state", place, *PYTHON, "open('did', 'w')")
    line = refused(done, 1)
    assert line.startswith(f"otpy-agents: {place}: got ")
    assert line.endswith(", wanted a file that can be written")
    assert not (terminal.folder / "did").exists()


def without_rights(*argv: str) -> list[str]:
    """Return a command that obeys the rights of files even when root types it."""
    held = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    return [*(held if os.geteuid() == 0 else []), *argv]


@pytest.mark.parametrize("closed", ["state", "state/runs.sqlite3"])
@pytest.mark.parametrize("words", [["run", *PYTHON, "1"], *LOOKS], ids=" ".join)
def test_a_state_file_that_may_not_be_read_is_named(
    terminal: Terminal, words: list[str], closed: str
) -> None:
    """The file may exist, so the line does not claim that there are no runs."""
    assert terminal.call_here("run", "-q", *PYTHON, "print(1)").returncode == 0
    path = terminal.folder / closed
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        done = subprocess.run(
            without_rights(*terminal.argv(*words)),
            cwd=terminal.folder,
            env=terminal.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    finally:
        path.chmod(mode)
    expected = f"{terminal.state}: got 'Permission denied', wanted a file that can be written"
    assert refused(done, 1) == f"otpy-agents: {expected}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"", "PROMPT: got '', wanted some text, or - for standard input"),
        (b"\xff\xfe", "PROMPT: got bytes on standard input that are not text"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused(
    terminal: Terminal, given: bytes, words: str
) -> None:
    """Standard input may be empty, or not text."""
    assert words in refused(terminal.call_here("run", "-", *PYTHON, "1", stdin=given), 2)


def test_a_closed_standard_input_is_refused(terminal: Terminal) -> None:
    """A closed standard input has no prompt."""
    line = refused(shell(terminal, '"$@" <&-', "run", "-", *PYTHON, "1"), 2)
    assert "PROMPT: got a closed standard input, wanted some text on it" in line


def test_a_folder_that_is_no_text_is_refused(terminal: Terminal) -> None:
    """Such a path could not be stored with the run."""
    terminal.folder = terminal.folder / os.fsdecode(b"b\xff")
    terminal.folder.mkdir()
    assert "wanted a path in UTF-8" in refused(terminal.call_here("run", *PYTHON, "1"), 2)


@pytest.mark.parametrize(
    "words", [["runs", "--all"], ["runs", "show"], ["runs", "policy"], ["run", "--help"], ["-h"]]
)
def test_output_that_does_not_fit_is_one_line(terminal: Terminal, words: list[str]) -> None:
    """On a full disk the status is 1, with buffered output and without."""
    assert terminal.call_here("run", "-q", *PYTHON, "print(1)").returncode == 0
    if words[-1] == "show":
        words = [*words, terminal.runs()[0]["id"]]
    for line in ('"$@" >/dev/full', 'unset PYTHONUNBUFFERED; "$@" >/dev/full'):
        said = refused(shell(terminal, line, *words), 1)
        assert said == "otpy-agents: standard output: No space left on device"


@pytest.mark.parametrize("words", [["runs", "--all", "--json"], ["runs", "policy"]])
def test_a_reader_that_has_had_enough_is_told_nothing(terminal: Terminal, words: list[str]) -> None:
    """`head` is such a reader."""
    assert terminal.call_here("run", "-q", *PYTHON, "print(1)").returncode == 0
    done = shell(terminal, '"$@" | true; exit ${PIPESTATUS[0]}', *words)
    assert done.returncode in {0, 1}
    assert done.stderr == ""


def test_an_answer_that_does_not_fit_is_not_lost(terminal: Terminal) -> None:
    """The line shows the command that prints it."""
    done = shell(terminal, '"$@" >/dev/full', "run", "-q", *PYTHON, "print('the answer')")
    line = refused(done, 1)
    assert "standard output: No space left on device" in line
    words = shlex.split(line.partition("`")[2].partition("`")[0])
    assert words[:3] == ["otpy-agents", "runs", "show"]
    assert terminal.shown(words[3])["answer"] == "the answer"


def test_letters_that_the_output_does_not_know_are_shown_as_numbers(terminal: Terminal) -> None:
    """They do not end the run."""
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    script = "import sys; sys.stdout.buffer.write('caf\\xe9'.encode())"
    done = terminal.call("run", "-q", *PYTHON, script, env=ascii_only)
    assert (done.returncode, done.stdout, done.stderr) == (0, "caf\\xe9\n", "")


def test_what_to_type_elsewhere_names_the_state_file_that_was_named(terminal: Terminal) -> None:
    """Without it, the other terminal would read another file."""
    place = terminal.folder / "my runs"
    running = terminal.start("run", "--state", str(place), *SLOW, FAILS_TWICE)
    running.said("cuts it")
    words = shlex.split(running.stderr.rpartition("waits")[2].split("`")[1])
    assert words[:3] == ["otpy-agents", "runs", "retry-now"]
    assert words[4:] == ["--state", str(place)]
    assert terminal.call("runs", "cancel-retry", *words[3:]).returncode == 0
    assert running.end() == 1


@pytest.mark.parametrize("words", [[], ["runs", "foo"], ["foo"], ["runs", "show"], ["up"]])
def test_a_command_line_that_means_nothing_has_status_2(words: list[str]) -> None:
    """One line has the reason and the usage; without any words the help is shown."""
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr
    assert result.stderr.count("\n") == 1 or not words


def test_a_folder_of_artifacts_that_cannot_be_is_named(terminal: Terminal) -> None:
    """The error comes before a run is stored or started, without advice to install a program."""
    (terminal.folder / "file").touch()
    done = terminal.call_here("run", "--artifacts", "file/out", "--agent", "command", "--", "ls")
    path = terminal.folder / "file" / "out"
    assert refused(done, 2) == (
        f"otpy-agents: --artifacts: got '{path}' (not a directory), wanted {IMPOSSIBLE}"
    )
    assert terminal.runs() == []


def test_a_run_that_its_host_cannot_go_on_with_is_resumed_where_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line can be typed unchanged, also if the state file was named."""

    async def submit(*_: object) -> None:
        raise RunBroken("0a", "it broke")

    monkeypatch.setattr(RunHost, "submit", submit)
    state = tmp_path / "my runs"
    words = ["run", "--state", str(state), "--agent", "command", "--", "ls"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert f"`otpy-agents runs resume 0a --state {shlex.quote(str(state))}`" in result.stderr


@pytest.fixture
def small_disk(terminal: Terminal) -> Iterator[Path]:
    """A disk of 600 KB, if the machine allows one."""
    place = terminal.folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


FILLS = """
import json, os, time
with open("disk/fill", "wb", buffering=0) as file:
    try:
        while file.write(bytes(1024)): pass
    except OSError: pass
print(json.dumps({"type": "session", "id": "s1"}), flush=True)  # which is worth a write
while not os.path.exists("looked"): time.sleep(0.01)
os.remove("disk/fill")
print(json.dumps({"type": "result", "text": "answer"}))
"""


def test_an_agent_that_fills_the_disk_goes_on(terminal: Terminal, small_disk: Path) -> None:
    """One line tells it of the store and one of the log, without a traceback; runs can be listed.

    In the end everything is stored.
    """
    state = str(small_disk / "runs.sqlite3")
    running = terminal.start("run", "--state", state, *PYTHON, FILLS)
    running.said(f"state file {state}: No space left on device; the agent goes on")
    looked = terminal.call("runs", "--state", state)
    assert (looked.returncode, looked.stderr) == (0, "")
    (small_disk.parent / "looked").touch()
    assert running.end() == 0
    assert running.stdout == "answer\n"
    assert "Traceback" not in running.stderr
    full = [line for line in running.stderr.splitlines() if "No space" in line]
    assert sum("state file" in line for line in full) == 1
    assert sum("events are not told" in line for line in full) == len(full) - 1 <= 1
    looked = terminal.call("runs", "--state", state, "--all")
    assert looked.stdout.splitlines()[1].split()[1] == "done"


def test_runs_are_looked_at_on_a_full_disk(terminal: Terminal, small_disk: Path) -> None:
    """They can be listed without a host, too; a command that needs space is refused in one line."""
    state = str(small_disk / "runs.sqlite3")
    done = terminal.call_here("run", "-q", "--state", state, *PYTHON, "print(1)")
    assert done.returncode == 0
    with contextlib.suppress(OSError), (small_disk / "fill").open("wb", buffering=0) as file:
        while file.write(bytes(1024)):
            pass
    looked = terminal.call("runs", "--all", "--state", state)
    assert looked.stdout.splitlines()[1].split()[1] == "done"
    for words in (["runs", "forget", "--older-than", "0s"], ["run", *PYTHON, "print(2)"]):
        done = terminal.call(*words, env={"OTPY_STATE": state})
        assert "got 'No space left on device'" in refused(done, 1)
