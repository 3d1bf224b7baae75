"""What an attempt writes: cleaned of secrets line by line, heard at once, kept within a limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, final

from otpy_agents.process.lines import LineSplitter
from otpy_agents.store.redaction import Redaction

__all__ = ["OUTPUT_LIMIT", "Output"]

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of output that are kept of one attempt."""

_CHARACTER: Final = 4
"""Bytes that a character takes at most."""


@final
class Output:
    """Takes both streams of one attempt, and never asks anybody to wait.

    Listeners hear every line, so that the agent's events go on to be understood however much it
    writes. Kept are the first half of `limit` and the last, because errors and results stand at the
    end; the middle is what is cut. No line takes more than half of `limit`, for listeners too.

    Args:
        limit: Bytes of both streams together that are kept.
        secrets: Applied to each line before anybody gets it.
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
        self._heads: tuple[list[str], list[str]] = ([], [])
        self._head_room = limit - limit // 2
        self._tail: deque[tuple[int, str, int]] = deque()
        self._tail_room = limit // 2
        self._cuts = [0, 0]

    @property
    def cut(self) -> int:
        """Bytes that were written and not kept."""
        return sum(self._cuts) + sum(splitter.dropped for splitter in self._splitters)

    @property
    def stdout(self) -> str:
        """Standard output as far as it is kept; a line in the middle says what is missing."""
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
            self._cuts[stream] += size - self._line_limit
            line = self._secrets.head(line, length)
        else:
            line = self._secrets(line)
        self._keep(stream, line)
        try:
            self._listeners[stream](line)
        except Exception as error:  # noqa: BLE001 - a listener must never stop the reading
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"{self._listeners[stream]!r} raised", "exception": error}
            )

    def _keep(self, stream: int, line: str) -> None:
        size = _size(line) + 1
        if size <= self._head_room:
            self._head_room -= size
            self._heads[stream].append(line)
            return
        self._head_room = 0
        self._tail.append((stream, line, size))
        self._tail_room -= size
        while self._tail_room < 0:
            of, _, size = self._tail.popleft()
            self._tail_room += size
            self._cuts[of] += size

    def _text(self, stream: int) -> str:
        missing = self._cuts[stream] + self._splitters[stream].dropped
        mark = [f"[{missing} bytes were cut here]"] if missing else []
        tail = [line for of, line, _ in self._tail if of == stream]
        return "".join(f"{line}\n" for line in [*self._heads[stream], *mark, *tail])


def _size(line: str) -> int:
    """Return the bytes of a line."""
    return len(line) if line.isascii() else len(line.encode())
