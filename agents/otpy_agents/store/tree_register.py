"""Which trees of this user run, so that a second terminal finds them: one small file for each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final, final

import psutil
from attrs import asdict, frozen

from otpy_agents.clock import CLOCK
from otpy_agents.store.hosts import is_alive

__all__ = ["TreeRecord", "TreeRegister", "socket_beside"]

_FOLDER: Final = "trees"


def socket_beside(ledger: Path) -> Path:
    """Return where the host of a work list listens; only one host at a time works on a ledger."""
    return ledger.with_name(f"{ledger.name}.sock")


@frozen(kw_only=True)
class TreeRecord:
    """A tree that runs, or whose host was killed.

    Attributes:
        list: The work list, absolute.
        state: Its ledger, absolute.
        pid: Process of its host.
        create_time: Start of that process, in Unix seconds; with the pid its identity.
        started: When the tree was started, in Unix seconds.
    """

    list: str
    state: str
    pid: int
    create_time: float
    started: float

    @property
    def socket(self) -> Path:
        """Where its host listens."""
        return socket_beside(Path(self.state))

    def lives(self) -> bool:
        """Tell whether its host has not ended."""
        return is_alive(self.pid, self.create_time)


@final
class TreeRegister:
    """The trees of a user. What it says is a hint: whether a tree answers, only its socket tells.

    Args:
        runs: The store of runs of the user; the register lies beside it.
    """

    def __init__(self, runs: Path) -> None:
        self._folder = runs.parent / _FOLDER

    @contextlib.contextmanager
    def listing(self, file: Path, state: Path) -> Generator[None]:
        """List the tree of this process for as long as the block lasts.

        It is found by its work list alone where the register cannot be written.
        """
        record = TreeRecord(
            list=os.path.abspath(file),  # noqa: PTH100 - keeps links, as the user typed them
            state=str(state),
            pid=os.getpid(),
            create_time=psutil.Process().create_time(),
            started=CLOCK(),
        )
        path = self._path(state)
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(asdict(record)), encoding="utf-8")
            fresh.replace(path)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    def all(self) -> tuple[TreeRecord, ...]:
        """Return the trees that are listed, by their lists, but for dead ones without a ledger.

        A living host puts a ledger back that was deleted, as soon as somebody asks it something.
        """
        found: list[TreeRecord] = []
        with contextlib.suppress(OSError):
            for path in self._folder.glob("*.json"):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    record = TreeRecord(**json.loads(path.read_text(encoding="utf-8")))
                    if Path(record.state).exists() or record.lives():
                        found.append(record)
        return tuple(sorted(found, key=lambda one: one.list))

    def _path(self, state: Path) -> Path:
        name = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
        return self._folder / f"{name}.json"
