"""Lines out of the bytes that a process writes, however they come."""

from __future__ import annotations

from typing import final

__all__ = ["LineSplitter"]


@final
class LineSplitter:
    """Turns chunks of bytes into lines of any length.

    Args:
        limit: Bytes of one line that are kept; the rest of a longer one is dropped.

    Attributes:
        dropped: Bytes dropped so far.
    """

    def __init__(self, limit: int = 10 * 1024 * 1024) -> None:
        self._limit = limit
        self._partial = bytearray()
        self.dropped = 0

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that `data` completes; bytes that are not UTF-8 become U+FFFD."""
        head, feed, rest = data.partition(b"\n")
        self._keep(head)
        if not feed:
            return []
        lines = [self._take()]
        *whole, last = rest.split(b"\n")
        for line in whole:
            self._keep(line)
            lines.append(self._take())
        self._keep(last)
        return lines

    def end(self) -> list[str]:
        """Return the rest of a stream that ends without a line feed."""
        return [self._take()] if self._partial else []

    def _keep(self, data: bytes) -> None:
        room = self._limit - len(self._partial)
        self._partial += data[:room]
        self.dropped += max(0, len(data) - room)

    def _take(self) -> str:
        line = self._partial.decode(errors="replace")
        self._partial.clear()
        return line
