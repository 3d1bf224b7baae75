"""The hosts that share the store of runs, which of them are dead, and the store's place."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import aiosqlite
import psutil
from attrs import frozen

from otpy_agents.process.orphans import same_start
from otpy_agents.store.file import inserted

if TYPE_CHECKING:
    from otpy_agents.store.file import StoreFile

__all__ = [
    "HOST",
    "STATE_VARIABLE",
    "HostRecord",
    "Hosts",
    "default_state",
    "is_alive",
    "socket_of",
]

STATE_VARIABLE: Final = "OTPY_STATE"
"""Environment variable that names another file."""

HOST: Final = "host.id, host.pid, host.create_time, host.socket, host.started, host.ended"
"""The columns of a `HostRecord`."""


@frozen(kw_only=True)
class HostRecord:
    """A program that works, or worked, on runs.

    Attributes:
        id: Its number; never given twice.
        pid: Its process.
        create_time: Start of that process, in Unix seconds; with the pid its identity.
        socket: Its operator socket.
        started: When it opened the store, in Unix seconds.
        ended: When it closed it; None if it has not, or was killed.
    """

    id: int
    pid: int
    create_time: float
    socket: str
    started: float
    ended: float | None

    def lives(self) -> bool:
        """Tell whether it has not ended: the pid is there with the same start, and is not a zombie.

        A pid alone is never trusted. Hosts in containers that have pids of their own cannot be
        judged from outside of them. And a living host looks dead if the clock of the machine has
        been set since it started. Both are why every write needs a `Lease`.
        """
        return self.ended is None and is_alive(self.pid, self.create_time)


def is_alive(pid: int, create_time: float) -> bool:
    """Tell whether the process that was started then has not ended; a zombie has."""
    try:
        process = psutil.Process(pid)
        same = same_start(process.create_time(), create_time)
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def default_state(environment: Mapping[str, str]) -> Path:
    """Return the default place of a user's stored runs.

    Args:
        environment: Usually `os.environ`. `OTPY_STATE` is the file; if it is not set,
            `XDG_STATE_HOME`, which must be absolute, has the folder `otpy` with it; otherwise
            `~/.local/state` has.
    """
    if stated := environment.get(STATE_VARIABLE):
        return Path(stated)
    base = Path(environment.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        base = Path(environment.get("HOME") or Path.home()) / ".local" / "state"
    return base / "otpy" / "runs.sqlite3"


def socket_of(state: Path, host: int) -> Path:
    """Return where a host listens: beside the file, under a name that no other host ever has."""
    return state.with_name(f"{state.name}.{host}.sock")


@final
class Hosts:
    """Part of a `RunStore`: the hosts that share it."""

    def __init__(self, file: StoreFile, state: Path, clock: Callable[[], float]) -> None:
        self._file = file
        self._state = state
        self._clock = clock

    async def all(self) -> tuple[HostRecord, ...]:
        """Return every host that is not forgotten, oldest first."""
        rows = await self._file.rows(f"SELECT {HOST} FROM host ORDER BY id")  # noqa: S608 - our columns
        return tuple(HostRecord(**row) for row in rows)

    async def sign_on(self) -> int:
        """Write down this process as a new host, and return its number."""

        async def work(database: aiosqlite.Connection) -> int:
            host = await inserted(
                database,
                "INSERT INTO host (pid, create_time, started) VALUES (?, ?, ?)",
                (os.getpid(), psutil.Process().create_time(), self._clock()),
            )
            await database.execute(
                "UPDATE host SET socket = ? WHERE id = ?", (str(socket_of(self._state, host)), host)
            )
            return host

        return await self._file.change(work)

    async def sign_off(self, *hosts: int) -> None:
        """Write down that these have ended; their unfinished runs may be taken over."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.executemany(
                "UPDATE host SET ended = ? WHERE id = ? AND ended IS NULL",
                [(self._clock(), host) for host in hosts],
            )

        await self._file.change(work)

    async def sign_off_the_dead(self) -> None:
        """Do so for those that were killed, and remove their sockets."""
        dead = [host for host in await self.all() if host.ended is None and not host.lives()]
        for host in dead:
            _remove_socket(host.socket)
        if dead:
            await self.sign_off(*(host.id for host in dead))


def _remove_socket(path: str) -> None:
    """Remove a socket if it is there and nothing else."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            Path(path).unlink()
