"""`otpy-agents up` on a terminal."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import pytest

from tests.agents.host import ENVIRONMENT, PATIENCE, Site, command, once, shell, state_of

pytestmark = pytest.mark.real_time


@contextmanager
def on_terminal(site: Site) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """Run `up` on a terminal of its own; yield its process and the test's end of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    environment = {**ENVIRONMENT, **state_of(site.file), "TERM": "xterm-256color"}
    host = subprocess.Popen(
        command(site.file), env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    site.processes.append(host)
    os.close(theirs)
    try:
        yield host, ours
    finally:
        os.close(ours)


def read_on(ours: int, until: Callable[[str], bool]) -> str:
    """Return the output until the condition holds, or the host has ended."""
    seen, decoder = "", codecs.getincrementaldecoder("utf-8")()
    with suppress(OSError):  # Linux reports the closed other end so
        while not until(seen):
            seen += decoder.decode(os.read(ours, 65536))
    return seen


def test_a_drone_that_is_given_up_is_told_above_the_tree(site: Site) -> None:
    """The line has its restarts, which no other line shows; a pipe gets it too (TREE-50)."""
    given_up = shell("d", "exit 3", role="drone", restarts=1, expect="reaped")
    site.write(given_up)
    with on_terminal(site) as (host, ours):
        seen = read_on(ours, lambda _: False)
        assert host.wait(PATIENCE) == 0
    (line,) = [line for line in seen.splitlines() if "REAPED" in line]
    assert "d REAPED ↻1: restarts used up (1): crashed: WorkerFailed: exit code 3" in line
    done = once(site.file, "--fresh")
    (line,) = [line for line in done.stdout.splitlines() if " mortal.reaped d " in line]
    assert line.endswith("restarts=1")
    assert "mortal.restarting" not in done.stdout


def test_a_terminal_shows_the_live_tree(site: Site) -> None:
    """It is drawn in place: supervisors, Jake, the mortal with its last line; then the summary."""
    site.write(shell("busy", "echo hello there; while [ ! -e {here}/go ]; do sleep 0.01; done"))
    with on_terminal(site) as (host, ours):
        seen = read_on(ours, lambda seen: "hello there" in seen and "working" in seen)
        (site.folder / "go").touch()
        seen += read_on(ours, lambda _: False)
        assert host.wait(PATIENCE) == 0
    for shown in ("AppSupervisor", "JakeSupervisor", "Jake", "MortalPool", "MonitorSupervisor"):
        assert shown in seen
    assert "cleanup-daemon" in seen
    assert "\x1b[1A" in seen  # it goes up to draw over the last picture
    assert "\x1b[?25h" in seen  # and gives the cursor back
    table = seen.rpartition("assignment")[2]
    assert ["busy", "done", "done"] in [line.split()[:3] for line in table.splitlines()]
