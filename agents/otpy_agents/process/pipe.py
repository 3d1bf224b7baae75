"""A pipe of our own for the output of a process.

Ours, because whether asyncio's `wait` also waits for the end of its own pipes depends on the
version of Python, and a grandchild may hold a pipe open for as long as it likes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, final

__all__ = ["OutputPipe"]

# Not more: a chunk may be thousands of short lines, and a stop of the run has to wait for a few
# chunks.
_READ: Final = 8192
_DRAIN_READS: Final = 256  # 2 MiB: no pipe holds more unless an administrator allows it


@final
class OutputPipe:
    """One pipe; whatever comes through it is handed on at once, so that its writer never waits.

    Args:
        take: Called with each chunk, which is never empty. Must not raise.

    Attributes:
        end: Its end for reading; None while there is none.
    """

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self.end: int | None = None

    def open(self) -> int:
        """Make the pipe and return its end for writing, which the caller closes.

        Raises:
            OSError: There are no more descriptors.
        """
        self.end, write_end = os.pipe()
        os.set_blocking(self.end, False)
        return write_end

    def listen(self) -> None:
        """Let the running loop read from now on."""
        if self.end is not None:
            asyncio.get_running_loop().add_reader(self.end, self._read)

    def drain(self) -> None:
        """Read the current content of the pipe; bounded, because a writer may go on."""
        for _ in range(_DRAIN_READS):
            if not self._read():
                break

    def close(self) -> None:
        """Give the pipe back; the second time nothing happens."""
        if self.end is not None:
            asyncio.get_running_loop().remove_reader(self.end)
            os.close(self.end)
            self.end = None

    def _read(self) -> bool:
        """Take one chunk; False if there is nothing to take now."""
        if self.end is None:
            return False
        try:
            data = os.read(self.end, _READ)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self._take(data)
        return True
