"""The real program while its wall clock is set, and after it was stopped for a while."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Final

import pytest

from tests.agents.cli.commands.terminal import Terminal
from tests.agents.host import PATIENCE, Site, python

pytestmark = pytest.mark.real_time

_PLACES: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
TALKS = """
import sys, time
print("up", flush=True)
for _ in range(int(sys.argv[1])):
    time.sleep(0.25)
    print("on", flush=True)
"""
SPEAKS = """
import json, time
for _ in range(20):
    print(json.dumps({"type": "text", "text": "on"}), flush=True)
    time.sleep(0.25)
print(json.dumps({"type": "result", "text": "done"}), flush=True)
"""
SILENT = "import time; print('up', flush=True); time.sleep(4); print('done', flush=True)"
HANGS = "import time; print('up', flush=True); time.sleep(99)"
FAILS_ONCE = """
import pathlib, sys
first = not pathlib.Path("again").exists()
pathlib.Path("again").touch()
print("up", flush=True)
sys.exit("connection refused" if first else 0)
"""


class WallClock:
    """The wall clock of the programs started with `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, hours: float) -> None:
        """Set it this many hours ahead of the true time."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{hours:+g}h\n", encoding="utf-8")
        new.replace(self._file)


@pytest.fixture
def wall(tmp_path: Path) -> WallClock:
    """A wall clock of its own; it needs libfaketime."""
    found = [
        file
        for place in _PLACES
        for pattern in ("faketime/libfaketimeMT.so.1", "*/faketime/libfaketimeMT.so.1")
        for file in Path(place).glob(pattern)
    ]
    if not found:
        pytest.skip("libfaketime is not installed")
    return WallClock(found[0], tmp_path / "wall")


def agent(code: str, *words: str) -> list[str]:
    """Return the options for an agent that is a program, with the true time."""
    plain = ("env", "-u", "LD_PRELOAD", "python3", "-c")
    return ["--agent", "command", "--", *plain, code, *words]


def jumps(stderr: str) -> list[str]:
    return re.findall(r"(?:the clock was set|the machine slept|this host stood).*", stderr)


@pytest.mark.parametrize("hours", [1, -1])
def test_an_agent_that_is_silent_survives_a_clock_that_is_set(
    terminal: Terminal, wall: WallClock, hours: int
) -> None:
    """An hour of the wall clock is not silence, and moves no shown time."""
    words = ("--max-retries", "0", "--liveness", "stall:8")
    running = terminal.start("run", "x", *words, *agent(SILENT), env=wall.environment)
    running.said("attempt 1")
    time.sleep(1)
    wall.set(hours)
    assert running.end() == 0, running.stderr
    way = "forward" if hours > 0 else "back"
    (line,) = jumps(running.stderr)
    assert re.fullmatch(rf"the clock was set {way} by 3(600|599\.\d)s", line)
    shown = [float(time) for time in re.findall(r"^ *(-?\d+\.\d\d) ", running.stderr, re.MULTILINE)]
    assert shown == sorted(shown)
    assert shown[-1] < PATIENCE
    assert re.search(r"1 attempt in \d\d?(\.\d)? s", running.stderr)


def test_an_agent_that_hangs_is_ended_in_time_when_the_clock_is_set_back(
    terminal: Terminal, wall: WallClock
) -> None:
    """It gets no further hour to hang."""
    words = ("--max-retries", "0", "--liveness", "stall:3")
    running = terminal.start("run", "x", *words, *agent(HANGS), env=wall.environment)
    running.said("attempt 1")
    time.sleep(1)
    wall.set(-1)
    assert running.end() != 0
    assert "made no progress for 3 s, ending it" in running.stderr


@pytest.mark.parametrize("hours", [1, -1])
def test_a_backoff_lasts_as_long_as_it_was_announced(
    terminal: Terminal, wall: WallClock, hours: int
) -> None:
    """Of 5 s neither an hour nor nothing remains."""
    words = ("--backoff-base", "5")
    running = terminal.start("run", "x", *words, *agent(FAILS_ONCE), env=wall.environment)
    running.said("waits")
    began = time.monotonic()
    time.sleep(1)
    wall.set(hours)
    running.said("attempt 2")
    assert 4 < time.monotonic() - began < PATIENCE
    assert running.end() == 0
    assert len(jumps(running.stderr)) == 1


def test_an_agent_is_not_blamed_for_a_host_that_was_stopped(terminal: Terminal) -> None:
    """It wrote every 0.25 s; the host reads those lines when it goes on."""
    words = ("--max-retries", "0", "--liveness", "stall:2")
    running = terminal.start("run", "x", *words, *agent(TALKS, "20"))
    running.said("attempt 1")
    time.sleep(1)
    running.signal(signal.SIGSTOP)
    time.sleep(3.5)
    running.signal(signal.SIGCONT)
    assert running.end() == 0, running.stderr
    (line,) = jumps(running.stderr)
    assert re.fullmatch(r"this host stood still for \d(\.\d)?s", line)


@pytest.mark.parametrize("kind", ["programs", "agents", "both"])
def test_a_list_does_not_blame_anybody_for_a_host_that_was_stopped(site: Site, kind: str) -> None:
    """Both kinds go on, and the lag is one line."""
    tables: list[str] = []
    if kind != "agents":
        tables.append(python("program", TALKS.replace("int(sys.argv[1])", "20"), stall=2))
    if kind != "programs":
        file = site.folder / "talks.py"
        file.write_text(SPEAKS, encoding="utf-8")
        tables.append(
            '[[assignment]]\nid = "bot"\nagent = "command"\nprompt = "x"\nstall = 2\n'
            f'argv = ["{{python}}", "{file}"]\n'
        )
    site.write(*tables)
    host = site.up()
    for _ in tables:
        host.until("mortal.started")
    time.sleep(1)
    os.kill(host.pid, signal.SIGSTOP)
    time.sleep(3.5)
    os.kill(host.pid, signal.SIGCONT)
    assert host.end() == 0, host.events
    assert host.told("monitor.stalled") == []
    assert len(host.told("monitor.loop_lag")) == 1
