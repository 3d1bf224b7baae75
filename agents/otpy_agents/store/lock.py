"""One host per ledger: a lock that dies with its holder."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import final

from otpy_agents.errors import AlreadyRunning, LedgerUnwritable
from otpy_agents.store.astray import inode_of

__all__ = ["HostLock"]


@final
class HostLock:
    """An exclusive lock on `<state>.lock`, held by the kernel for as long as this process lives.

    There is nothing to clean up after `kill -9`, and nothing stale to trust (G-19). The file stays
    behind on purpose: removing it would let two hosts lock two different files of one name. Child
    processes do not inherit the lock, unless its descriptor is handed to them.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._path = state.with_name(state.name + ".lock")
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether it is held."""
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        """What a child process may inherit, so that the lock is held until that has ended too.

        Raises:
            RuntimeError: The lock is not held.
        """
        if self._descriptor is None:
            raise RuntimeError(f"{self._path}: got no lock, wanted one that is held")
        return self._descriptor

    def acquire(self) -> None:
        """Take the lock or fail at once.

        Raises:
            AlreadyRunning: If another process holds it.
            LedgerUnwritable: If the lock file cannot be made.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerUnwritable(self._state, error.strerror or str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0)
            os.close(descriptor)
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                # Empty for the instant between the other's lock and its note.
                pid = int(holder) if holder.isdigit() else None
                raise AlreadyRunning(self._state, pid) from None
            raise LedgerUnwritable(self._state, error.strerror or str(error)) from error
        self.release()
        self._descriptor = descriptor

    def renew(self) -> None:
        """Take the lock on the file of that name, if the held lock is on a replaced file.

        Raises:
            AlreadyRunning: If another process holds it.
            LedgerUnwritable: If the lock file cannot be made.
        """
        held = None if self._descriptor is None else os.fstat(self._descriptor)
        if held is not None and inode_of(self._path) != (held.st_dev, held.st_ino):
            self.acquire()

    def remove(self) -> None:
        """Delete its file and release it; for a name that is not locked again."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Give the lock back; nothing happens if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
