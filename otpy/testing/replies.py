"""TCP connections over which a peer outside the loop may be about to answer.

A socket that the loop waits on says nothing about whether anything will come. But the kernel counts
what went out and what came in: who has been sent something may answer. That is known of TCP on
Linux; of other sockets nothing is, and `MockClock.hold()` has to tell.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Iterable

PATIENCE = 0.25
"""Real seconds that a peer gets to answer after something was sent to it."""

# Of the kernel's struct tcp_info: tcpi_data_segs_in and tcpi_data_segs_out, since Linux 4.6.
_SEGMENTS = struct.Struct("@II")
_OFFSET = 152


@final
class Replies:
    """What was sent and received when the loop looked last."""

    def __init__(self) -> None:
        """Know of no connection."""
        self._seen: dict[int, tuple[int, int]] = {}
        self._due: dict[int, float] = {}

    def patience_left(self, descriptors: Iterable[int]) -> float:
        """Return for how many real seconds an answer may still be under way; 0.0 if none is."""
        if sys.platform != "linux":
            return 0.0
        now = time.monotonic()
        seen = _connections(descriptors)
        for number, (received, sent) in seen.items():
            before = self._seen.get(number, (0, 0))
            if sent != before[1]:  # also if something came too: it may have come first
                self._due[number] = now + PATIENCE
            elif received != before[0]:
                self._due.pop(number, None)
        self._seen = seen
        self._due = {n: due for n, due in self._due.items() if n in seen and due > now}
        return max(self._due.values(), default=now) - now


def _connections(descriptors: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the segments received and sent, of connections that do not lead back to the loop."""
    found: dict[int, tuple[int, int]] = {}
    own: set[Any] = set()
    peers: dict[int, Any] = {}
    for number in descriptors:
        try:
            connection = socket.socket(fileno=number)
        except OSError:  # it is no socket
            continue
        try:
            own.add(connection.getsockname())
            peers[number] = connection.getpeername()
            facts = connection.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_INFO, _OFFSET + _SEGMENTS.size
            )
            found[number] = _SEGMENTS.unpack_from(facts, _OFFSET)
        except (OSError, struct.error):  # it listens, is no TCP, or the kernel is too old
            continue
        finally:
            connection.detach()
    return {number: counts for number, counts in found.items() if peers[number] not in own}
