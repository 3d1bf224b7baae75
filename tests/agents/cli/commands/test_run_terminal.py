"""`otpy-agents run` on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from typing import final

import pytest

from tests.agents.cli.commands.terminal import FAILS_TWICE, HANGS, STUBBORN, Terminal, survivors
from tests.agents.host import PATIENCE

pytestmark = pytest.mark.real_time

PYTHON = ("--agent", "command", "--backoff-base", "600", "--", sys.executable, "-c")


@final
class Screen:
    """A terminal with a command in it."""

    def __init__(self, terminal: Terminal, *words: str, columns: int) -> None:
        self.shown = ""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *terminal.argv("run", *words)],  # Ctrl-C needs it
            cwd=terminal.folder,
            env={**terminal.environment, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def until(self, *words: str) -> None:
        """Read until all of these words have been shown."""
        while not all(word in self.shown for word in words):
            self.shown += os.read(self._ours, 65536).decode()

    def cut(self, terminal: Terminal, command: str) -> None:
        """Type the command from the last line in another terminal."""
        run = self.shown.rpartition(command)[2].split()[0].rstrip("`")
        done = terminal.call(*command.split()[1:], run)
        assert done.returncode == 0, done.stderr

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        with suppress(OSError):  # Linux reports the closed other end so
            while data := os.read(self._ours, 65536):
                self.shown += data.decode()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._ours)


@contextmanager
def screen(terminal: Terminal, *words: str, columns: int = 120) -> Generator[Screen]:
    with closing(Screen(terminal, *words, columns=columns)) as made:
        yield made


def test_a_wait_is_counted_down_with_what_to_type(terminal: Terminal) -> None:
    """The countdown is redrawn in place; the shown command, typed elsewhere, cuts the wait."""
    with screen(terminal, "tidy up", *PYTHON, FAILS_TWICE) as first:
        first.until("retry 1 in 9:59 (backoff)", "retry 1 in 9:58 (backoff)")
        first.cut(terminal, "otpy-agents runs retry-now ")
        first.until("attempt 2: command (retry)", "retry 2 in 29:59 (backoff)")
        first.cut(terminal, "otpy-agents runs retry-now ")
        assert first.end() == 0
    assert "\x1b[2K" in first.shown  # it draws over the last line
    assert first.shown.rstrip().endswith("done: tidy up")
    assert "\x1b[?25h" in first.shown  # and gives the cursor back
    assert "3 attempts in " in first.shown


def test_ctrl_c_is_pressed(terminal: Terminal) -> None:
    """The key's own signal goes to the terminal's foreground, and does not reach the agent."""
    with screen(terminal, *PYTHON, HANGS) as first:
        first.until("working", "up")
        run = terminal.runs()[0]["id"]
        first.type("\x03")
        assert first.end() == 130
    assert "SIGINT: ending the run in good order; send it again to kill" in first.shown
    assert "cancelled" in first.shown
    assert survivors(run) == []


def test_ctrl_c_is_pressed_twice(terminal: Terminal) -> None:
    """A stubborn agent is killed at the second press."""
    with screen(terminal, *PYTHON, STUBBORN) as first:
        first.until("working", "up")
        run = terminal.runs()[0]["id"]
        assert len(survivors(run)) == 2
        first.type("\x03")
        first.until("send it again to kill")
        first.type("\x03")
        assert first.end() == 130
    assert "SIGINT: killing the run" in first.shown
    assert "killed" in first.shown
    assert survivors(run) == []


def test_a_terminal_of_80_columns_is_enough_for_what_to_type(terminal: Terminal) -> None:
    """The live line is cut at the edge; the command is not."""
    with screen(terminal, *PYTHON, FAILS_TWICE, columns=80) as first:
        first.until("(backoff)  now: otpy-agents runs retry-now ")
        run = terminal.runs()[0]["id"]
        first.until(f"now: otpy-agents runs retry-now {run}\r")
        first.type("\x03")
        assert first.end() == 130


def test_nothing_is_drawn_if_asked(terminal: Terminal) -> None:
    """An answer cannot harm the terminal either."""
    with screen(terminal, "-q", *PYTHON, "print('\\x1b[2Jgone')") as first:
        assert first.end() == 0
    assert first.shown == "\\x1b[2Jgone\r\n"
