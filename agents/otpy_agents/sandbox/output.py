"""What an attempt writes: cleaned of secrets line by line, heard at once, kept within a limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, MutableSequence
from typing import Final, final

from attrs import define

from otpy_agents.process.lines import LineSplitter
from otpy_agents.store.redaction import Redaction

__all__ = ["OUTPUT_LIMIT", "KeptLines", "Output"]

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of output that are kept of one attempt."""

_BLOCK: Final = 64 * 1024

_CHARACTER: Final = 4
"""Bytes that a character takes at most."""


@final
class KeptLines:
    """Lines of two streams; the first and the last half of a limit are kept.

    Errors and results stand at the end; the middle is what is cut. However short the lines are,
    they take little more memory than they have bytes.

    Args:
        limit: Bytes of both streams together that are kept.

    Attributes:
        seen: Bytes of the lines that were taken, with their line feeds.
        cuts: Bytes of each stream that were not kept, also those that others add.
    """

    def __init__(self, limit: int) -> None:
        self.seen = 0
        self.cuts = [0, 0]
        self._head: list[_Block] = []
        self._head_room = limit - limit // 2
        self._tail: deque[_Block] = deque()
        self._tail_room = limit // 2

    def add(self, stream: int, line: str) -> None:
        """Take a line, without its line feed, of stream 0 or 1."""
        data = b"%s\n" % line.encode()
        self.seen += len(data)
        if len(data) <= self._head_room:
            self._head_room -= len(data)
            _append(self._head, stream, data)
            return
        self._head_room = 0
        self._tail_room -= len(data)
        _append(self._tail, stream, data)
        while self._tail_room < 0:
            block = self._tail[0]
            enough = min(block.start - self._tail_room, len(block.data))
            end = block.data.index(b"\n", enough - 1) + 1
            self._tail_room += end - block.start
            self.cuts[block.stream] += end - block.start
            block.start = end
            if end == len(block.data):
                self._tail.popleft()

    def text(self, *streams: int, missing: int = 0) -> str:
        """Return the kept lines of some streams, in the order of their arrival.

        Args:
            streams: Which of them.
            missing: Bytes of theirs that are missing beside those in `cuts`. A line in the middle
                says how many are.
        """
        missing += sum(self.cuts[stream] for stream in streams)
        mark = b"[%d bytes were cut here]\n" % missing if missing else b""
        head, tail = (
            b"".join(block.data[block.start :] for block in blocks if block.stream in streams)
            for blocks in (self._head, self._tail)
        )
        return b"".join((head, mark, tail)).decode()


@define
class _Block:
    """Lines of one stream that follow each other, and where those begin that are still kept."""

    stream: int
    data: bytearray
    start: int = 0


def _append(blocks: MutableSequence[_Block], stream: int, data: bytes) -> None:
    if blocks and blocks[-1].stream == stream and len(blocks[-1].data) < _BLOCK:
        blocks[-1].data += data
    else:
        blocks.append(_Block(stream, bytearray(data)))


@final
class Output:
    """Takes both streams of one attempt, and never makes the writer wait.

    Listeners hear every line, so that the agent's events go on to be understood however much it
    writes. Kept are the first half of `limit` and the last, because errors and results stand at the
    end; the middle is what is cut. No line takes more than half of `limit`, for listeners too.

    Args:
        limit: Bytes of both streams together that are kept.
        secrets: Applied to each line before it is passed on.
        on_stdout: Called with each line of standard output, without its line feed. If it raises,
            the loop's exception handler is told and reading goes on.
        on_stderr: The same for the error stream.

    Attributes:
        seen: Bytes written so far.
        last: Time of the loop, in seconds, when something was written last, or of the beginning.
    """

    def __init__(
        self,
        *,
        limit: int,
        secrets: Redaction,
        on_stdout: Callable[[str], object],
        on_stderr: Callable[[str], object],
    ) -> None:
        self.seen = 0
        self.last = asyncio.get_running_loop().time()
        self._secrets = secrets
        self._listeners = (on_stdout, on_stderr)
        self._line_limit = max(1, limit // 2 - 1)  # with its end it just fits
        # Room for a whole secret behind the border: a part of one would not be recognised.
        room = self._line_limit + _CHARACTER * secrets.longest
        self._splitters = (LineSplitter(room), LineSplitter(room))
        self._kept = KeptLines(limit)

    @property
    def cut(self) -> int:
        """Bytes that were written and not kept."""
        return sum(self._kept.cuts) + sum(splitter.dropped for splitter in self._splitters)

    @property
    def stdout(self) -> str:
        """The kept standard output; a line in the middle marks the missing part."""
        return self._text(0)

    @property
    def stderr(self) -> str:
        """The same of the error stream."""
        return self._text(1)

    def take_stdout(self, data: bytes) -> None:
        """Take a chunk of standard output."""
        self._take(0, data)

    def take_stderr(self, data: bytes) -> None:
        """Take a chunk of the error stream."""
        self._take(1, data)

    def finish(self) -> None:
        """Take unfinished last lines as lines; the second time nothing happens."""
        for stream, splitter in enumerate(self._splitters):
            for line in splitter.end():
                self._line(stream, line)

    def _take(self, stream: int, data: bytes) -> None:
        self.seen += len(data)
        self.last = asyncio.get_running_loop().time()
        for line in self._splitters[stream].feed(data):
            self._line(stream, line)

    def _line(self, stream: int, line: str) -> None:
        size = _size(line)
        if size > self._line_limit:
            length = len(line.encode()[: self._line_limit].decode(errors="ignore"))
            self._kept.cuts[stream] += size - self._line_limit
            line = self._secrets.head(line, length)
        else:
            line = self._secrets(line)
        self._kept.add(stream, line)
        try:
            self._listeners[stream](line)
        except Exception as error:  # noqa: BLE001 - a listener must never stop the reading
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self._listeners[stream]!r} raised", "exception": error}
            )

    def _text(self, stream: int) -> str:
        return self._kept.text(stream, missing=self._splitters[stream].dropped)


def _size(line: str) -> int:
    """Return the bytes of a line."""
    return len(line) if line.isascii() else len(line.encode())
