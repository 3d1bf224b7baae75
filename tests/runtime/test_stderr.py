"""A blocked stderr: lines of the log wait there, are counted, and never block the program."""

from __future__ import annotations

import io
import os
import re
import select
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Self, TextIO
from unittest.mock import patch

import pytest

from otpy._runtime import stderr
from otpy._runtime.stderr import QUEUE_LIMIT, Stderr
from otpy.testing import MockClock

LINE = "x" * 999 + "\n"


class Ends:
    """A stream in the place of `sys.stderr`, and its other end."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self._delay = 0.05 if os.isatty(writer) else 0.0  # the terminal passes written text on
        self.stream = TextIOWrapper(os.fdopen(writer, "wb"), encoding="utf-8")

    def __enter__(self) -> Self:
        self._patch = patch.object(sys, "stderr", self.stream)
        self._patch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.stop()
        self.stream.close()
        os.close(self.reader)

    def read(self) -> str:
        """Return the text that has arrived by now."""
        found = b""
        while select.select([self.reader], [], [], self._delay)[0]:
            found += os.read(self.reader, 1 << 20)
        return found.decode().replace("\r\n", "\n")

    def read_all_of(self, lines: Stderr) -> str:
        """Return the text that is written while the other end keeps reading."""
        read, more = "", self.read()
        while more:
            read += more
            lines.push()
            more = self.read()
        return read


def pipe() -> Ends:
    return Ends(*os.pipe())


def terminal() -> Ends:
    return Ends(*os.openpty())


def sockets() -> Ends:
    reader, writer = socket.socketpair()
    return Ends(reader.detach(), writer.detach())


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Stderr:
    """Return an empty queue for stderr."""
    monkeypatch.setattr(stderr, "LAST_CHANCE", 0.001)
    return Stderr()


@pytest.mark.parametrize("make", [pipe, terminal, sockets])
def test_nobody_reads_and_nobody_waits(lines: Stderr, make: Callable[[], Ends]) -> None:
    """Text beyond the pipe is kept, text beyond the queue is lost and counted, all in order."""
    with make() as ends:
        for number in range(1_000):
            lines.write(f"{number} {LINE}")
        lines.drain()
        read = ends.read_all_of(lines)
    expected = lost = 0
    for line in read.splitlines():
        note = re.fullmatch(r"otpy: log entries lost here: (\d+) \(nobody reads them\)", line)
        if note is not None:
            lost += int(note[1])
            expected += int(note[1])
        else:
            assert line == f"{expected} {LINE.rstrip()}"
            expected += 1
    assert expected == 1_000
    assert 500 < lost < 780


@pytest.mark.parametrize("make", [pipe, terminal, sockets])
def test_the_descriptor_is_left_as_it_was(lines: Stderr, make: Callable[[], Ends]) -> None:
    """The shell and other programs share it, and would not block either."""
    with make() as ends:
        lines.write(LINE * 500)
        assert os.get_blocking(ends.stream.fileno())
        assert ends.read().startswith(LINE)


def test_a_terminal_that_was_stopped_is_not_waited_for(lines: Stderr) -> None:
    """Ctrl-S stops it, until Ctrl-Q."""
    with terminal() as ends:
        termios.tcflow(ends.stream, termios.TCOOFF)
        lines.write("line\n")
        assert ends.read() == ""
        termios.tcflow(ends.stream, termios.TCOON)
        lines.push()
        assert ends.read() == "line\n"
        assert lines.is_terminal()


@pytest.mark.parametrize("make", [pipe, sockets])  # the free space of a terminal is unknown
def test_where_nothing_can_be_opened_once_more_only_what_fits_is_written(
    lines: Stderr, make: Callable[[], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every system can open it again, and not every user may."""

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(path)

    monkeypatch.setattr(os, "open", refuse)
    with make() as ends:
        for _ in range(200):
            lines.write(LINE)
        assert ends.read_all_of(lines) == LINE * 200


async def test_what_waits_is_tried_again_ever_less_often(
    lines: Stderr, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer does this, because no further line may come."""
    attempts = 0

    def count(stream: TextIO, data: bytes) -> int:
        nonlocal attempts
        attempts += 1
        return send(stream, data)

    send = stderr._send
    monkeypatch.setattr(stderr, "_send", count)
    with pipe() as ends:
        lines.write(LINE * 200)
        attempts = 0
        await clock.advance(60)
        assert 10 < attempts < 20
        read = ends.read()
        while len(read) < 200 * len(LINE):
            await clock.advance(5)
            read += ends.read()
        assert read == LINE * 200
        attempts = 0
        await clock.advance(60)
        assert attempts == 0


def test_a_full_disk_is_waited_for(
    lines: Stderr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that did not fit follows later, and lines lost meanwhile are counted."""
    path = tmp_path / "log"
    with Path("/dev/full").open("w", encoding="utf-8") as stream, path.open("w") as good:
        monkeypatch.setattr(sys, "stderr", stream)
        for _ in range(QUEUE_LIMIT // len(LINE) + 4):
            lines.write(LINE)
        os.dup2(good.fileno(), stream.fileno())
        lines.write("last\n")
    head, middle, tail = path.read_text().rpartition(LINE)
    assert head + middle == LINE * (QUEUE_LIMIT // len(LINE))
    loss = "otpy: log entries lost here: 4 (OSError: [Errno 28] No space left on device)\n"
    assert tail == f"{loss}last\n"


def test_a_short_failure_loses_nothing(
    lines: Stderr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the queue holds all lines, nothing is reported."""
    path = tmp_path / "log"
    with Path("/dev/full").open("w", encoding="utf-8") as stream, path.open("w") as good:
        monkeypatch.setattr(sys, "stderr", stream)
        lines.write("one\n")
        os.dup2(good.fileno(), stream.fileno())
        lines.write("two\n")
    assert path.read_text() == "one\ntwo\n"


def test_a_reader_that_has_gone_disturbs_nobody(
    lines: Stderr, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example is a pipe into `head`."""
    reader, writer = os.pipe()
    os.close(reader)
    with TextIOWrapper(os.fdopen(writer, "wb")) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        lines.write("line\n")
        lines.drain()


def test_without_stderr_nothing_is_written(lines: Stderr, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon has none, and a program may close it."""
    monkeypatch.setattr(sys, "stderr", None)
    lines.write("line\n")
    assert not lines.is_terminal()
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    lines.write("two\n")
    assert not lines.is_terminal()
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    lines.write("three\n")
    assert text.getvalue() == "two\nthree\n"


def test_stderr_that_is_no_descriptor_is_written_to(
    lines: Stderr, capsys: pytest.CaptureFixture[str]
) -> None:
    """An object in the place of `sys.stderr` gets the text of the log."""
    lines.write("line\n")
    assert capsys.readouterr().err == "line\n"


def test_what_can_only_be_written_to_is_enough(
    lines: Stderr, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may put any object in the place of `sys.stderr`."""

    class Own:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

    own = Own()
    monkeypatch.setattr(sys, "stderr", own)
    lines.write("line\n")
    lines.push()
    assert own.text == "line\n"
    assert not lines.is_terminal()


def test_a_line_that_others_have_begun_is_not_overtaken(lines: Stderr) -> None:
    """Python keeps that line until its end."""
    with pipe() as ends:
        sys.stderr.write("loading ")
        lines.write("line\n")
        assert ends.read() == "loading line\n"


def test_text_that_stderr_cannot_hold_is_written_as_it_can_be(lines: Stderr) -> None:
    """The text is escaped as Python does it on stderr."""
    with pipe() as ends:
        ends.stream.reconfigure(encoding="ascii")
        lines.write("… \ud800\n")
        assert ends.read() == "\\u2026 \\ud800\n"


@pytest.mark.real_time
def test_a_forked_process_does_not_write_what_its_parent_will() -> None:
    """It inherits the queue, but not the duty to write it."""
    code = """
import os, sys
from otpy._runtime.stderr import STDERR
STDERR.write("x" * 100_000 + "\\n")
if os.fork() == 0:
    STDERR.write("child\\n")
    STDERR.drain()
    os._exit(0)
os.wait()
print(end="waited", flush=True)
sys.stdin.read()
STDERR.push()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == b"waited"
        _, err = process.communicate(timeout=20)
    assert err.decode() == "x" * 100_000 + "\n"
