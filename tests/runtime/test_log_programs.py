"""The default log of whole programs, on real descriptors."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from otpy.reports import Report
from tests.runtime import log_program

pytestmark = pytest.mark.real_time
ROOT = Path(log_program.__file__).parents[2]


def command(name: str) -> list[str]:
    return [sys.executable, log_program.__file__, name]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(name: str) -> tuple[str, str]:
    """Run a program and return its output; its status is 0."""
    done = subprocess.run(
        command(name), env=environment(), capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout, done.stderr


def lines_of(text: str, event: str) -> list[str]:
    return [line for line in text.splitlines() if f" {event} " in line or f":{event} " in line]


def test_there_is_a_program_for_every_report() -> None:
    """No class of reports is missing."""
    assert {type(report) for report in log_program.reports()} == {*Report.__subclasses__()}


@pytest.mark.parametrize(
    "name",
    ["to_stderr", "to_stderr_verbosely", "to_structlog", "to_logging"],
)
def test_every_report_is_text_that_can_be_read(name: str) -> None:
    """Each is one line, with its details below: tracebacks, and the stack of a child."""
    out, err = run(name)
    text = re.sub(r"\x1b\[[0-9;]*m", "", err if "stderr" in name else out)
    assert (out if "stderr" in name else err) == ""
    quiet = {"child.started", "supervisor.stopped"} if name == "to_stderr" else set[str]()
    for report in log_program.reports():
        assert len(lines_of(text, report.event)) == (report.event not in quiet), report.event
    assert text.count("ValueError: paper\n") == 3  # the last line of a traceback
    assert text.count("ValueError: ink\n") == 1
    for part in ("inner (file.py:2)", "2.5", "what ever", "<function hook>", "start_error"):
        assert part in text


def test_every_report_is_a_line_of_json() -> None:
    """A program may ask for this; the fields of a line are text and numbers."""
    out, err = run("to_json")
    assert err == ""
    entries = {entry["event"]: entry for entry in map(json.loads, out.splitlines())}
    assert list(entries) == [report.event for report in log_program.reports()]
    assert entries["child.abandoned"]["stack"] == "outer (file.py:1)\ninner (file.py:2)"
    assert entries["child.exited"]["exception"][0]["exc_value"] == "paper"
    assert entries["child.message_unhandled"]["unhandled"] == "'what ever'"
    grown = entries["child.mailbox_grown"]
    assert (grown["waiting"], grown["dropped"], grown["level"]) == (1000, 3, "warning")


def test_logging_behind_structlog_takes_every_report() -> None:
    """This works although `logging` reserves some names of fields."""
    out, err = run("to_structlog_on_logging")
    assert err == ""
    entries = [line.rpartition(":")[2] for line in out.splitlines() if ":otpy:" in line]
    assert entries == [report.event for report in log_program.reports()]


def test_an_abandoned_child_is_named_with_its_stack() -> None:
    """Later failures are logged as usual."""
    _, err = run("abandons")
    assert len(lines_of(err, "child.abandoned")) == 1
    assert "refuse_to_end (" in err
    assert "ValueError: bad luck\n" in err


def test_an_error_without_text_is_logged() -> None:
    """Later failures are logged as usual."""
    _, err = run("crashes_mutely")
    assert "crashed: Mute: <Mute: str() raised SystemExit>" in err
    assert "raise Mute\n" in err
    assert "ValueError: bad luck\n" in err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("crashes_often", r"child\.exited: \+297 more in "),
        (
            "crashes_often_and_logs_all",
            r"\notpy: log entries lost here: \d+ \(nobody reads them\)",
        ),
    ],
)
def test_a_pipe_that_nobody_reads_stops_nobody(name: str, told: str) -> None:
    """Lost entries are counted in their place, as soon as the pipe is read again."""
    reader, writer = os.pipe()
    if name == "crashes_often":  # the program writes little
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(
        command(name),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writer,
        text=True,
    ) as process:
        os.close(writer)
        assert process.stdin is not None
        assert process.stdout is not None
        goes_on, _, _ = select.select([process.stdout], [], [], 20)
        if not goes_on:
            process.kill()
        err = ""
        while not re.search(told, err) and (piece := os.read(reader, 65_536)):
            err += piece.decode()
        process.stdin.close()
        os.close(reader)
    assert goes_on
    assert process.returncode == 0
    assert re.search(told, err)
    assert len(lines_of(err, "child.exited")) >= 3


def test_a_full_disk_loses_nothing_that_can_be_kept(tmp_path: Path) -> None:
    """An entry that did not fit is written as soon as there is space, without another report."""
    path = tmp_path / "log"
    with path.open("w") as file:
        done = subprocess.run(
            command("fills_the_disk"),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            check=True,
            timeout=30,
        )
    assert done.stdout == "now\n"
    assert "ValueError: bad luck\n" in path.read_text()


def test_a_program_without_stderr_runs() -> None:
    """The program was started with `2>&-`, so Python has no `sys.stderr`."""
    line = " ".join([*command("ends"), "2>&-"])
    done = subprocess.run(
        ["sh", "-c", line],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "ended\n"


def test_a_program_may_configure_its_log_when_its_tree_runs() -> None:
    """Nothing is decided until a line is written."""
    out, err = run("configures_later")
    assert out.startswith(
        "ERROR:otpy:child.exited child='app/bad' incarnation=1 restarts=0 reason="
    )
    assert "ValueError: bad luck\n" in out
    assert err == ""
