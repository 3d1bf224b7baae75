"""The place of an operator socket: a file of mode 0600 in a private folder."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from otpy_agents.errors import SocketUnusable

__all__ = ["address_of", "bound"]

_LIMIT: Final = 107 if sys.platform == "linux" else 103
_DESCRIPTORS: Final = Path("/proc/self/fd")


@contextmanager
def address_of(path: Path) -> Generator[str]:
    """Yield a name by which the kernel finds `path`; it is good for as long as the block.

    The kernel takes 107 bytes. A longer path is named by its open folder: `/proc/self/fd/7/name`.

    Raises:
        SocketUnusable: If there is no such short name.
        OSError: If the folder cannot be opened.
    """
    name = os.fspath(path)
    if len(os.fsencode(name)) <= _LIMIT:
        yield name
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        name = f"{_DESCRIPTORS}/{folder}/{path.name}"
        size = len(os.fsencode(name))
        if size > _LIMIT or not _DESCRIPTORS.is_dir():
            detail = f"a path of {len(os.fsencode(path))} bytes"
            raise SocketUnusable(path, detail)
        yield name
    finally:
        os.close(folder)


@contextmanager
def bound(path: Path) -> Generator[socket.socket]:
    """Yield a socket that may listen at `path`; afterwards it is closed and its file removed.

    A socket that lies there already is removed first: no other living host may have this path.

    Raises:
        SocketUnusable: If it cannot be made there.
    """
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            name = stack.enter_context(address_of(path))
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()
            listener.bind(name)
            number = path.lstat().st_ino
            stack.callback(_remove, path, number)
            path.chmod(0o600)  # in time: nobody can connect before it listens
            listener.setblocking(False)
        except OSError as error:
            raise SocketUnusable(path, repr(error.strerror or str(error))) from error
        yield listener


def _remove(path: Path, number: int) -> None:
    """Remove the file, unless another has been put in its place."""
    with contextlib.suppress(OSError):
        if path.lstat().st_ino == number:
            path.unlink()
