"""stderr that takes nothing: what the log writes there waits, is counted, and disturbs nobody."""

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
    """Something that is written to, in the place of `sys.stderr`, and its other end."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self._delay = 0.05 if os.isatty(writer) else 0.0  # the system passes on what is written
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
        """Return what is there by now."""
        found = b""
        while select.select([self.reader], [], [], self._delay)[0]:
            found += os.read(self.reader, 1 << 20)
        return found.decode().replace("\r\n", "\n")

    def read_all_of(self, lines: Stderr) -> str:
        """Return what is written as long as somebody reads."""
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
    """Nothing waits in it."""
    monkeypatch.setattr(stderr, "LAST_CHANCE", 0.001)
    return Stderr()


@pytest.mark.parametrize("make", [pipe, terminal, sockets])
def test_nobody_reads_and_nobody_waits(lines: Stderr, make: Callable[[], Ends]) -> None:
    """More than fits is kept, more than is kept is lost, and all of it is told in order."""
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
    """The shell and other programs have it open too, and would not wait either."""
    with make() as ends:
        lines.write(LINE * 500)
        assert os.get_blocking(ends.stream.fileno())
        assert ends.read().startswith(LINE)


def test_a_terminal_that_was_stopped_is_not_waited_for(lines: Stderr) -> None:
    """By Ctrl-S, until Ctrl-Q."""
    with terminal() as ends:
        termios.tcflow(ends.stream, termios.TCOOFF)
        lines.write("line\n")
        assert ends.read() == ""
        termios.tcflow(ends.stream, termios.TCOON)
        lines.push()
        assert ends.read() == "line\n"
        assert lines.is_terminal()


@pytest.mark.parametrize("make", [pipe, sockets])  # of a terminal nobody can know what fits
def test_where_nothing_can_be_opened_once_more_only_what_fits_is_written(
    lines: Stderr, make: Callable[[], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every system has a way to, and not every user may."""

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
    """By a timer: it may be that nothing more is written."""
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
    """What did not fit follows when it does, and what was lost meanwhile is counted."""
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
    """Where the queue holds all of it nothing is said."""
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
    """A pipe into `head`, for one."""
    reader, writer = os.pipe()
    os.close(reader)
    with TextIOWrapper(os.fdopen(writer, "wb")) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        lines.write("line\n")
        lines.drain()


def test_without_stderr_nothing_is_written(lines: Stderr, monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons have none, and others close it."""
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
    """Whoever puts something in the place of `sys.stderr` sees what the log writes."""
    lines.write("line\n")
    assert capsys.readouterr().err == "line\n"


def test_what_can_only_be_written_to_is_enough(
    lines: Stderr, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs put all kinds of things in the place of `sys.stderr`."""

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
    """Python keeps it until its end."""
    with pipe() as ends:
        sys.stderr.write("loading ")
        lines.write("line\n")
        assert ends.read() == "loading line\n"


def test_text_that_stderr_cannot_hold_is_written_as_it_can_be(lines: Stderr) -> None:
    """As Python does it on stderr."""
    with pipe() as ends:
        ends.stream.reconfigure(encoding="ascii")
        lines.write("… \ud800\n")
        assert ends.read() == "\\u2026 \\ud800\n"


@pytest.mark.real_time
def test_a_forked_process_does_not_write_what_its_parent_will() -> None:
    """It has the queue too, but not the duty."""
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
