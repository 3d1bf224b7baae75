"""Sessions as files: one JSON file for each agent."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar, final

import anyio.to_thread

from otpy_agents.completion import to_completion
from otpy_agents.errors import LedgerUnwritable, SessionCorrupt
from otpy_agents.store.sessions.session import Broken, StoredSession, decode, encode

__all__ = ["QUARANTINE", "FileSessions"]

T = TypeVar("T")

QUARANTINE: Final = "quarantine"
"""Folder below that of the sessions for what was set aside; nothing in it is ever deleted."""

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_READABLE: Final = 40


@final
class FileSessions:
    """A `SessionStore` in a folder of its own, which only its user may read.

    Args:
        folder: Made when the first session is saved.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = asyncio.Lock()

    def path(self, agent: str) -> Path:
        """Return the file of an agent, whether it is there or not.

        Any text makes a name: a readable part, and a hash that keeps different agents apart.
        """
        digest = hashlib.sha256(agent.encode(errors="surrogatepass")).hexdigest()[:16]
        readable = _UNFIT.sub("-", agent)[:_READABLE]
        return self._folder / f"{readable}-{digest}.json"

    async def load(self, agent: str) -> StoredSession | None:
        """See `SessionStore.load`."""
        return await self._in_thread(lambda: self._load(agent))

    async def save(self, session: StoredSession) -> None:
        """See `SessionStore.save`: written beside the old file, then renamed over it."""
        await self._in_thread(lambda: self._save(session))

    async def forget(self, agent: str) -> None:
        """See `SessionStore.forget`."""
        await self._in_thread(lambda: self._forget(agent))

    async def all(self) -> tuple[StoredSession, ...]:
        """See `SessionStore.all`."""
        return await self._in_thread(self._all)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        async def in_turn() -> T:
            # Two saves at once would write into the same temporary file.
            async with self._turn:
                return await anyio.to_thread.run_sync(work)

        return await to_completion(in_turn())

    def _load(self, agent: str) -> StoredSession | None:
        path = self.path(agent)
        try:
            content = _content(path)
            return None if content is None else decode(content, agent)
        except Broken as error:
            raise SessionCorrupt(agent, str(error), str(self._set_aside(path))) from error

    def _save(self, session: StoredSession) -> None:
        path = self.path(session.agent)
        temporary = path.with_suffix(".tmp")
        with _typed(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _typed(path):
            # What an interrupted save has left is overwritten; it never had the name that counts.
            temporary.unlink(missing_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
                file.write(encode(session).encode())
                file.flush()
                os.fsync(descriptor)
            temporary.replace(path)
            _keep(self._folder)

    def _forget(self, agent: str) -> None:
        path = self.path(agent)
        with _typed(path):
            if not self._folder.is_dir():
                return
            path.with_suffix(".tmp").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            _keep(self._folder)

    def _all(self) -> tuple[StoredSession, ...]:
        with _typed(self._folder):
            paths = sorted(self._folder.glob("*.json"))
        found: list[StoredSession] = []
        for path in paths:
            with contextlib.suppress(Broken):
                session = decode(_content(path) or b"", None)
                if path == self.path(session.agent):
                    found.append(session)
        return tuple(sorted(found, key=lambda session: session.agent))

    def _set_aside(self, path: Path) -> Path:
        """Move the file away under a name that no other has, and return that."""
        quarantine = self._folder / QUARANTINE
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")  # noqa: TID251 - for people
        with _typed(path):
            quarantine.mkdir(mode=0o700, exist_ok=True)
            aside = quarantine / f"{path.stem}.{stamp}.json"
            path.replace(aside)
            _keep(quarantine)
            _keep(self._folder)
        return aside


def _content(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none.

    Raises:
        Broken: If there is something else than a file.
        LedgerUnwritable: If it cannot be read.
    """
    try:
        # A pipe would keep us waiting, and a link could lead anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            raise Broken("no plain file") from error
        raise LedgerUnwritable(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Broken("no plain file")
    with _typed(path), open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        return file.read()


def _keep(folder: Path) -> None:
    """See to it that a change of names in a folder outlives a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _typed(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerUnwritable(path, error.strerror or str(error)) from error
