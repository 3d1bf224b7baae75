"""`otpy-agents up` on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from tests.agents.host import ENVIRONMENT, PATIENCE, Site, command, shell, state_of

pytestmark = pytest.mark.real_time


def test_a_terminal_shows_the_live_tree(site: Site) -> None:
    """Drawn in place: supervisors, Jake, the mortal with its last line; then the summary."""
    site.write(shell("busy", "echo hello there; while [ ! -e {here}/go ]; do sleep 0.01; done"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    environment = {**ENVIRONMENT, **state_of(site.file), "TERM": "xterm-256color"}
    host = subprocess.Popen(
        command(site.file), env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    site.processes.append(host)
    os.close(theirs)
    seen = ""
    while not ("hello there" in seen and "working" in seen):
        seen += os.read(ours, 65536).decode()
    (site.folder / "go").touch()
    try:
        while data := os.read(ours, 65536):
            seen += data.decode()
    except OSError:  # how Linux tells that the other end is closed
        pass
    os.close(ours)
    assert host.wait(PATIENCE) == 0
    for shown in ("AppSupervisor", "JakeSupervisor", "Jake", "MortalPool", "MonitorSupervisor"):
        assert shown in seen
    assert "cleanup-daemon" in seen
    assert "\x1b[1A" in seen  # it goes up to draw over the last picture
    assert "\x1b[?25h" in seen  # and gives the cursor back
    table = seen.rpartition("assignment")[2]
    assert ["busy", "done", "done"] in [line.split()[:3] for line in table.splitlines()]
