"""The log of a container: both streams in one, cut into frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from attrs import frozen

__all__ = ["STDERR", "STDOUT", "Frame", "LogFrames"]

STDOUT: Final = 1
STDERR: Final = 2

_HEADER: Final = 8
_LENGTH: Final = 4


@frozen
class Frame:
    """A piece of one stream, `STDOUT` or `STDERR`; it may end in the middle of a line."""

    stream: int
    data: bytes


@final
class LogFrames:
    """Splits the engine's stream; holds at most an unfinished header.

    Each frame has a header of eight bytes: the stream, three unused, and the length of its data
    with the most significant byte first.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield what `data` holds of each frame, in order, without waiting for the rest of one."""
        view = memoryview(data)
        while view:
            if self._left:
                piece = view[: self._left]
                view = view[len(piece) :]
                self._left -= len(piece)
                yield Frame(self._stream, bytes(piece))
                continue
            missing = _HEADER - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER:
                # What the engine itself has to say (3) is an error.
                self._stream = STDOUT if self._header[0] in {0, STDOUT} else STDERR
                self._left = int.from_bytes(self._header[_LENGTH:], "big")
                self._header.clear()
