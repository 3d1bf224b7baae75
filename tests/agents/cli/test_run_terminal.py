"""`otpy-agents run` on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import final

import pytest

from tests.agents.cli.terminal import FAILS_TWICE, HANGS, Terminal, survivors
from tests.agents.host import PATIENCE

pytestmark = pytest.mark.real_time

PYTHON = ("--agent", "command", "--backoff-base", "600", "--", sys.executable, "-c")


@final
class Screen:
    """A terminal with a command in it."""

    def __init__(self, terminal: Terminal, *words: str) -> None:
        self.shown = ""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            terminal.argv("run", *words),
            cwd=terminal.folder,
            env={**terminal.environment, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def until(self, *words: str) -> None:
        """Read on until all of these have been shown."""
        while not all(word in self.shown for word in words):
            self.shown += os.read(self._ours, 65536).decode()

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        with suppress(OSError):  # how Linux tells that the other end is closed
            while data := os.read(self._ours, 65536):
                self.shown += data.decode()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._ours)


@contextmanager
def screen(terminal: Terminal, *words: str) -> Iterator[Screen]:
    with closing(Screen(terminal, *words)) as made:
        yield made


def test_a_wait_is_counted_down_with_what_to_type(terminal: Terminal) -> None:
    """Drawn in place; the command that is shown, typed elsewhere, cuts it."""
    with screen(terminal, "tidy up", *PYTHON, FAILS_TWICE) as first:
        first.until("command #1", "backoff: 9 min more", "otpy-agents runs retry-now")
        run = terminal.runs()[0]["id"]
        assert terminal.call("runs", "retry-now", run).returncode == 0
        first.until("command #2", "attempt 2: command (retry)")
        assert terminal.call("runs", "force-fallback", run).returncode == 1
        assert terminal.call("runs", "retry-now", run).returncode in {0, 1}
        if terminal.runs()[0]["status"] != "done":
            first.until("retry 2/3")
            terminal.call("runs", "retry-now", run)
        assert first.end() == 0
    assert "done: tidy up" in first.shown
    assert "\x1b[2K" in first.shown  # it draws over the last line
    assert first.shown.rstrip().endswith("done: tidy up")
    assert "\x1b[?25h" in first.shown  # and gives the cursor back


def test_ctrl_c_is_pressed(terminal: Terminal) -> None:
    """The agent is not hit by the key itself, which goes to the foreground of the terminal."""
    with screen(terminal, *PYTHON, HANGS) as first:
        first.until("working", "up")
        run = terminal.runs()[0]["id"]
        first.type("\x03")
        assert first.end() == 130
    assert "SIGINT: ending the run in good order; send it again to kill" in first.shown
    assert "cancelled" in first.shown
    assert survivors(run) == []
