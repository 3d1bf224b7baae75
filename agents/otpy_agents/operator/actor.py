"""The author of a command (G-16)."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

__all__ = ["Actor", "actor_of", "peer_of"]

_CREDENTIALS: Final = struct.Struct("3i")
_TERMINALS: Final = ("/dev/pts/", "/dev/tty")


@frozen(kw_only=True)
class Actor:
    """The user and process at the other end of an operator socket, or of a typed command.

    Attributes:
        user: Name of the user, or the number if there is no name.
        uid: Number of the user.
        pid: The process; None if the system does not tell, or has given it no number here.
        tty: The terminal it reads from or writes to; None if there is none, or it cannot be seen.
    """

    user: str
    uid: int
    pid: int | None
    tty: str | None

    def __str__(self) -> str:
        parts = [f"uid {self.uid}"]
        parts += [f"pid {self.pid}"] if self.pid is not None else []
        parts += [self.tty] if self.tty is not None else []
        return f"{self.user} ({', '.join(parts)})"


def peer_of(connection: socket.socket | TransportSocket) -> Actor:
    """Return the process at the other end, by the kernel's word.

    Where it does not say (no `SO_PEERCRED`), nobody but this user can have opened the socket: its
    file has the mode 0600.
    """
    pid, uid = 0, os.geteuid()
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        pid, uid, _ = _CREDENTIALS.unpack(credentials)
    return actor_of(uid, pid)


def actor_of(uid: int, pid: int) -> Actor:
    """Return the actor of a process.

    Args:
        uid: Number of its user.
        pid: Its own number; 0 if the system does not tell.
    """
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return Actor(user=user, uid=uid, pid=pid or None, tty=_terminal_of(pid) if pid else None)


def _terminal_of(pid: int) -> str | None:
    for stream in range(3):
        with contextlib.suppress(OSError):
            target = str(Path(f"/proc/{pid}/fd/{stream}").readlink())
            if target.startswith(_TERMINALS):
                return target
    return None
