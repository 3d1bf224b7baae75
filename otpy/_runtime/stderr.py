"""stderr, for the log and for what otpy says without one: nothing waits for its reader, or raises.

A pipe that nobody reads, a terminal that was stopped and a disk that is full take nothing. What
they do not take waits in a queue and is tried again. What the queue does not hold is counted, and
the count is written as soon as something can be.

The descriptor is never set to O_NONBLOCK: that would hold for the shell and everybody else who has
it open. Instead what it stands for is opened once more, without waiting.
"""

from __future__ import annotations

import atexit
import errno
import os
import select
import stat
import sys
import threading
from collections import deque
from contextlib import suppress
from io import TextIOWrapper
from time import perf_counter, sleep  # real seconds: the reader of stderr knows no others
from typing import TYPE_CHECKING, Final, TextIO, final

from otpy._core.text import in_one_line
from otpy._runtime.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Iterable

QUEUE_LIMIT: Final = 256 * 1024
"""Bytes that wait to be written; what comes then is lost."""
LAST_CHANCE: Final = 0.2
"""Seconds that what still waits is given at the end of a tree, and of the program."""

_FIRST_PAUSE: Final = 0.02  # seconds until the next attempt; then twice as long, again and again
_LAST_PAUSE: Final = 5.0
_AT_ONCE: Final = select.PIPE_BUF  # bytes that can be written to whatever is ready
_WITHOUT_WAITING: Final = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY


@final
class Stderr:
    """`sys.stderr`, whatever that is at the moment, for whole lines of text."""

    def __init__(self) -> None:
        """Have nothing to write."""
        self.forget()

    def forget(self) -> None:
        """Forget what waits to be written; in a forked process it is the parent's to write."""
        self._lock = threading.RLock()  # not only the loop's thread writes
        self._queue: deque[bytes] = deque()
        self._size = 0  # of what is in the queue
        self._lost = 0
        self._why = ""  # something could not be written, the first time since all was
        self._pause = _FIRST_PAUSE
        self._retry = Alarm(self._push_again)

    def write(self, text: str) -> None:
        """Write `text`, which ends with the end of a line; or keep it, or count it as lost."""
        if sys.stderr is None:
            return
        data = text.encode(_encoding(sys.stderr), "backslashreplace")
        with self._lock:
            if self._queue and self._size + len(data) > QUEUE_LIMIT:
                self._lost += 1
            else:
                self._tell_loss()
                self._append(data)
        self.push()

    def flush(self) -> None:
        """Do nothing: what can be written is written."""

    def push(self) -> None:
        """Write what waits, as much of it as is taken now."""
        with self._lock:
            before = self._size
            try:
                self._send_all(sys.stderr)
                self._why = ""
            except BlockingIOError:
                self._why = self._why or "nobody reads them"
            except Exception as error:  # noqa: BLE001 - a log must not break what it tells of
                self._why = self._why or in_one_line(error)
            if self._size < before:
                self._pause = _FIRST_PAUSE
            if self._queue:
                self._retry.set(self._pause)

    def _push_again(self) -> None:
        self._pause = min(2 * self._pause, _LAST_PAUSE)
        self.push()

    def drain(self) -> None:
        """Give what waits, and what others have written, a last chance; and the loop no turn."""
        until = perf_counter() + LAST_CHANCE
        while self._queue and perf_counter() < until:
            before = self._size
            self.push()
            if self._size == before:
                sleep(LAST_CHANCE / 200)
        with suppress(Exception):
            _flush(sys.stderr)

    def is_terminal(self) -> bool:
        """Whether it is a terminal."""
        try:
            return sys.stderr.isatty()
        except (AttributeError, ValueError):  # there is none, or it is closed
            return False

    def _append(self, data: bytes) -> None:
        self._queue.append(data)
        self._size += len(data)

    def _tell_loss(self) -> None:
        if self._lost:
            text = f"otpy: log entries lost here: {self._lost:,} ({self._why})\n"
            self._lost = 0
            self._append(text.encode("ascii", "backslashreplace"))

    def _send_all(self, stream: TextIO | None) -> None:
        while self._queue:
            data = self._queue.popleft()
            self._size -= len(data)
            taken = 0
            try:
                taken = len(data) if stream is None else _send(stream, data)
            finally:
                if taken < len(data):
                    self._queue.appendleft(data[taken:])
                    self._size += len(data) - taken
            if not self._queue:
                self._tell_loss()


def _send(stream: TextIO, data: bytes) -> int:
    """Write what `stream` takes of `data` without waiting, and return how many bytes that were."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        stream.write(data.decode(_encoding(stream), "replace"))
        with suppress(Exception):  # it has the text, and will try again by itself
            stream.flush()
        return len(data)
    _flush(stream)  # what others have written so far: a line without its end
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.write(descriptor, data)
    if stat.S_ISFIFO(mode) or os.isatty(descriptor):
        try:
            own = os.open(f"/proc/self/fd/{descriptor}", _WITHOUT_WAITING)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a pipe whose reader has gone
                raise
        else:
            try:
                return os.write(own, data)
            finally:
                os.close(own)
    if not _is_ready(descriptor):
        raise BlockingIOError
    return os.write(descriptor, data[:_AT_ONCE])


def _flush(stream: TextIO) -> None:
    """Write what `stream` has kept back, if it need not wait for that."""
    descriptor = _descriptor(stream)
    if descriptor is None or _is_ready(descriptor):
        stream.flush()


def _descriptor(stream: TextIO) -> int | None:
    """Return the descriptor of `stream`; None if it was replaced to capture the output."""
    try:
        return stream.fileno() if type(stream) is TextIOWrapper else None
    except (OSError, ValueError):  # of something in memory, or closed
        return None


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"  # what stands in its place may have none


def _is_ready(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


STDERR: Final = Stderr()
os.register_at_fork(after_in_child=STDERR.forget)
atexit.register(STDERR.drain)


def say(what: str, stack: Iterable[str] = ()) -> None:
    """Write a line, and below it where something is, outermost call first."""
    lines = [f"otpy: {what}", *(f"  {line.strip()}" for line in stack)]
    STDERR.write("\n".join(lines) + "\n")
