"""Peers outside the loop that may be about to say something, over sockets of any kind and pipes.

A descriptor that the loop waits on says nothing about whether anything will come. But the loop sees
what goes on over it, in which order, and when in real time:

- Who was sent something, or has just been connected to, may answer or speak first. Until then, or
  until it has been silent for as long as the clock has patience, no timer is jumped to.
- Who has said something may say more. Nobody can tell, so the clock jumps to the end of a sleep at
  once, but to no timeout before the silence has lasted as long. Of a stream (`StreamReader`) it is
  known whether a task waits for more; if none does, nothing has to wait.

Sockets that lead back into the loop are none of this: what the kernel has sent over them has
arrived before the loop would jump. But it may hold a part back for some milliseconds (Nagle's
algorithm), so the clock waits for it. Listening sockets do not count either: nobody outside knows
of them.

Private names of asyncio that this module stands on (`tests/testing/test_clock.py` holds each to its
meaning): what a descriptor is registered with is a pair of handles, for reading and writing, and
`asyncio.Handle._callback` of the first is a method of the transport; `StreamReader._waiter` is what
a task waits for, `StreamReaderProtocol._stream_reader` its reader, and `SSLProtocol._app_protocol`
the protocol behind the encryption.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import socket
import struct
import sys
import time
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from selectors import SelectorKey

PATIENCE = 0.25
"""Real seconds of silence after which a peer has nothing to say, unless somebody sets others."""

_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - to recognize it, not to listen there
# How an end of a connection is known: kind, host and port, or the inode of a Unix socket.
_Name: TypeAlias = tuple[int, str, int] | int | None

# Of Linux: SIOCOUTQNSD.
_UNSENT = 0x894B
# Of Linux: NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, UDIAG_SHOW_PEER, UNIX_DIAG_PEER.
_SOCK_DIAG, _BY_FAMILY, _REQUEST, _SHOW_PEER, _PEER = 4, 20, 1, 4, 2
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBHIIIII")
_ALL = 0xFFFFFFFF
_ANSWER_BEGINS = 32  # the header and a unix_diag_msg
_ATTRIBUTE = struct.Struct("=HHI")


@final
class Peers:
    """The data sent over the descriptors of a loop, and its times."""

    def __init__(self, registered: Callable[[], Mapping[Any, SelectorKey]]) -> None:
        """Start empty; `registered` returns the descriptors that the loop waits on."""
        self._registered = registered
        # Also those that it does not wait on now: a reader may pause between two messages.
        self._ever_registered: set[int] = set()
        self._may_answer: dict[int, float] = {}
        self._may_go_on: dict[int, float] = {}
        self._on_the_way: dict[int, float] = {}
        self._targets: dict[int, _Name] = {}
        # Each descriptor is in one of these.
        self._undecided: set[int] = set()
        self._lead_back: set[int] = set()
        self._lead_out: set[int] = set()
        self._take_from_anybody: set[int] = set()
        self._watched: type[socket.socket] | None = None

    # --- what the loop tells ---------------------------------------------------------------------

    def opened(self, number: int) -> None:
        """Note that the loop waits on a descriptor from now on."""
        self._may_answer[number] = time.monotonic()
        self._ever_registered.add(number)
        self._undecided.add(number)
        self._undecided |= self._lead_out  # it may be the other end of any
        self._lead_out.clear()

    def sent(self, number: int) -> None:
        """Note a send; a descriptor that the loop does not wait on cannot bring an answer."""
        if number in self._lead_back:
            self._on_the_way[number] = time.monotonic()
        elif number in self._undecided or number in self._lead_out:
            self._may_answer[number] = time.monotonic()

    def sent_to(self, number: int, address: Any) -> None:
        """Note that a datagram was sent to an address."""
        target: _Name = None
        with suppress(TypeError, ValueError, AttributeError):  # not an internet address
            target = _named(socket.SOCK_DGRAM, address)
        if target != self._targets.get(number):
            self._targets[number] = target
            if number in self._lead_back or number in self._lead_out:
                self._decide_again(number)
        self.sent(number)

    def heard(self, number: int) -> None:
        """Note that something has come."""
        if number in self._take_from_anybody:
            self._decide_again(number)
        if number not in self._lead_back:
            self._may_answer.pop(number, None)
            self._may_go_on[number] = time.monotonic()

    def closed(self, number: int) -> None:
        """Note that the loop waits on a descriptor no more; it may be asked to once more."""
        for known in (self._may_answer, self._may_go_on, self._on_the_way):
            known.pop(number, None)
        for decided in (self._undecided, self._lead_back, self._lead_out, self._take_from_anybody):
            decided.discard(number)

    def gone(self, number: int) -> None:
        """Note that a watched socket is closed, and that another may get its number."""
        self._targets.pop(number, None)

    def _decide_again(self, number: int) -> None:
        self._lead_back.discard(number)
        self._lead_out.discard(number)
        self._undecided.add(number)

    def leave_out(self, numbers: Iterable[int]) -> None:
        """Take descriptors for the loop's own."""
        for number in numbers:
            self.closed(number)
            self._lead_back.add(number)

    def watch(self, sock: socket.socket) -> None:
        """Note all later sends over a socket."""
        if type(sock) is socket.socket:
            if self._watched is None:
                self._watched = _watched_by(self)
            sock.__class__ = self._watched

    # --- what the loop asks ----------------------------------------------------------------------

    def seconds_left(self, patience: float) -> tuple[float, float]:
        """Return for how many real seconds no timer may be jumped to, and no timeout."""
        if not self._may_answer and not self._may_go_on and not self._on_the_way:
            return 0.0, 0.0
        outside = self.outside()
        for number in self._may_answer.keys() - outside:
            self._on_the_way[number] = self._may_answer.pop(number)
        for number in self._may_go_on.keys() - outside:
            del self._may_go_on[number]
        for number in [number for number in self._on_the_way if not _holds_back(number)]:
            del self._on_the_way[number]
        return (
            max(_left(self._may_answer, patience), _left(self._on_the_way, patience)),
            _left(self._may_go_on, patience, self._is_read),
        )

    def _is_read(self, number: int) -> bool:
        """Tell whether a task may wait for data of a descriptor."""
        key = self._registered().get(number)
        handles: Any = () if key is None else key.data
        with suppress(TypeError, IndexError, AttributeError):  # not registered by a transport
            return _waits_for_more(handles[0]._callback.__self__)
        return True

    def outside(self) -> set[int]:
        """Return which descriptors lead out of the loop, for all it knows."""
        if self._undecided:
            ends = {n: end for n in self._ever_registered if (end := _end_of(n)) is not None}
            names = {end.name for end in ends.values()}
            for number in self._undecided:
                out = self._leads_out(number, ends, names)
                (self._lead_out if out else self._lead_back).add(number)
            self._undecided.clear()
        return self._lead_out

    def _leads_out(self, number: int, ends: dict[int, _End], names: set[_Name]) -> bool:
        end = ends.get(number)
        if end is None:  # a pipe, for example
            return True
        if not end.takes_from_anybody:
            return not end.listens and not _is_among(end.peer, names)
        self._take_from_anybody.add(number)
        if number in self._targets:
            return not _is_among(self._targets[number], names)
        said_here = any(_is_among(each.peer, {end.name}) for each in ends.values())
        return number in self._may_go_on and not said_here


def _waits_for_more(transport: Any) -> bool:
    """Tell whether a task may wait for data of a transport; for streams that is known."""
    protocol = transport.get_protocol()
    if isinstance(protocol, SSLProtocol):
        protocol = cast("Any", protocol)._app_protocol
    received: object = cast("Any", type(protocol)).data_received
    if received is not asyncio.StreamReaderProtocol.data_received:
        return True
    reader = protocol._stream_reader
    return reader is not None and reader._waiter is not None


def _left(
    since: dict[int, float], patience: float, counts: Callable[[int], bool] = lambda _: True
) -> float:
    now = time.monotonic()
    for number in [number for number, moment in since.items() if moment + patience <= now]:
        del since[number]
    counted = (moment for number, moment in since.items() if counts(number))
    return max(0.0, max(counted, default=-math.inf) + patience - now)


def _holds_back(number: int) -> bool:
    """Tell whether the kernel has not sent all yet, which only Linux tells."""
    try:
        unsent = fcntl.ioctl(number, _UNSENT, bytes(4))
    except OSError:
        return False
    return any(unsent)


@frozen
class _End:
    """A socket: its address, its peer's, and the way in which it takes data."""

    name: _Name
    peer: _Name
    listens: bool
    takes_from_anybody: bool


def _end_of(number: int) -> _End | None:
    try:
        end = socket.socket(fileno=number)
    except OSError:
        return None
    try:
        listens = bool(end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        if end.family == socket.AF_UNIX:
            inode = os.fstat(number).st_ino
            return _End(inode, None if listens else _unix_peer(inode), listens, False)
        name, peer = _named(end.type, end.getsockname()), None
        with suppress(OSError):
            peer = _named(end.type, end.getpeername())
        anybody = peer is None and end.type == socket.SOCK_DGRAM
        return _End(name, peer, listens, anybody)
    except (OSError, IndexError, TypeError):  # of a family that has no such names
        return None
    finally:
        end.detach()


def _named(kind: int, address: Any) -> _Name:
    host, port = address[:2]
    return kind, host.removeprefix("::ffff:"), port


def _is_among(peer: _Name, names: Container[_Name]) -> bool:
    if not isinstance(peer, tuple):
        return peer is not None and peer in names
    kind, _, port = peer
    return peer in names or any((kind, host, port) in names for host in _ANYWHERE)


def _unix_peer(inode: int) -> int | None:
    """Return the inode of the other end of a Unix socket; None where that is not known."""
    if sys.platform != "linux":
        return None
    question = _QUESTION.pack(socket.AF_UNIX, 0, 0, _ALL, inode, _SHOW_PEER, _ALL, _ALL)
    header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(header + question)
            answer = kernel.recv(4096)
    except OSError:
        return None
    at = _ANSWER_BEGINS
    while at + _ATTRIBUTE.size <= len(answer):
        length, attribute, peer = _ATTRIBUTE.unpack_from(answer, at)
        if attribute == _PEER:
            return int(peer)
        at += max(4, (length + 3) & ~3)
    return None


def _watched_by(peers: Peers) -> type[socket.socket]:
    """Return a class that a socket can become, which reports its sends."""

    class WatchedSocket(socket.socket):
        __slots__ = ()

        def send(self, *args: Any) -> int:
            peers.sent(self.fileno())
            return super().send(*args)

        def sendmsg(self, *args: Any) -> int:
            peers.sent(self.fileno())
            return super().sendmsg(*args)

        def sendto(self, *args: Any) -> int:
            peers.sent_to(self.fileno(), args[-1])
            return super().sendto(*args)

        def close(self) -> None:
            peers.gone(self.fileno())
            super().close()

    return WatchedSocket
