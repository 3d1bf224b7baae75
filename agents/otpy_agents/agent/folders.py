"""Where the files of a work list lie, beside its ledger, and what others say to its agents.

The notes lie where the agent works, for it to look into. What waits for its next prompt lies where
it does not work, and outlives its host. So do exits, which guardians write down: the next host
takes in those of workers that ended while none lived.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import anyio.to_thread

from otpy_agents.agent.checkpoint import CHECKPOINT
from otpy_agents.process.guardian import exit_on_disk
from otpy_agents.process.orphans import Recorded
from otpy_agents.process.process import ExitStatus
from otpy_agents.sandbox.marker import attempt_marker

if TYPE_CHECKING:
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Folders", "add_note", "exit_file", "forget_exits", "settle"]

# An agent can put anything in the place of its notes: a link elsewhere, or a pipe nobody reads.
_FLAGS: Final = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)


@final
class Folders:
    """The files of one list.

    Args:
        state: Its ledger.

    Attributes:
        state: As given.
        root: Folder of the private work directories.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self.root = state.with_suffix(".work")
        self._messages = state.with_suffix(".messages")

    def work(self, assignment: str) -> Path:
        """Return the private work directory of an assignment; it is made on first use."""
        directory = self.root / assignment
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def notes(self, assignment: str) -> Path:
        """Return the file by which messages reach the worker; its name is `OTPY_NOTES` there."""
        return self.work(assignment) / "NOTES"

    def checkpoint(self, assignment: str) -> Path:
        """Return the file for an agent's checkpoint, which it finds in `OTPY_CHECKPOINT`."""
        return self.work(assignment) / CHECKPOINT

    def kept_messages(self, assignment: Assignment) -> list[str]:
        """Return what others had to say to an agent before its host ended."""
        return _kept(self._kept_in(assignment))

    def keep_messages(self, assignment: Assignment, said: Sequence[str]) -> None:
        """Keep what others have to say to an agent, until its next prompt under any host."""
        with contextlib.suppress(OSError):  # then it is told if this host lives as long
            _keep(self._kept_in(assignment), said)

    def _kept_in(self, assignment: Assignment) -> Path:
        # By its definition: with another one it is another agent.
        return self._messages / f"{assignment.id}.{assignment.digest}.json"


def add_note(file: Path, message: str) -> None:
    """Append a message to the notes of a worker (TREE-47).

    Raises:
        OSError: They cannot be written, or are not plain files.
    """
    descriptor = os.open(file, _FLAGS, 0o644)
    with open(descriptor, "a", encoding="utf-8") as notes:  # noqa: PTH123 - it is open already
        notes.write(f"{message}\n")


def _keep(file: Path, messages: Sequence[str]) -> None:
    """Keep messages in the place of those that were kept; without any, the file goes.

    Raises:
        OSError: The disk does not take it; what was kept still is.
    """
    if not messages:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(list(messages)), encoding="utf-8")
    new.replace(file)


def _kept(file: Path) -> list[str]:
    """Return the messages that were kept; none if there are none, or if they cannot be read."""
    try:
        read = cast("object", json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []
    if not isinstance(read, list):
        return []
    return [one for one in cast("list[object]", read) if isinstance(one, str)]


def exit_file(state: Path, assignment: str) -> Path:
    """Return where the guardian of a worker writes down its exit; no worker is told of it.

    Args:
        state: The ledger.
        assignment: Id of the assignment.
    """
    return state.with_suffix(".exits") / assignment


async def settle(ledger: Ledger, ended: Collection[int]) -> None:
    """Write into the ledger which programs have ended by themselves, though no host lived.

    Args:
        ledger: Of which `close_interrupted` has not been called yet.
        ended: Pids of processes that this host has ended: their exits are not their own.
    """
    for attempt in await ledger.last_attempts():
        recorded = None
        if attempt.pid is not None and attempt.create_time is not None:
            recorded = Recorded(attempt.pid, attempt.create_time)
        marker = attempt_marker(ledger.list_id, attempt.assignment, attempt.incarnation)
        found = await exit_on_disk(exit_file(ledger.path, attempt.assignment), marker, recorded)
        if found is not None and found.pid not in ended:
            status = ExitStatus.of(found.returncode)
            await ledger.settle(attempt.id, status.code, str(status))


async def forget_exits(state: Path) -> None:
    """Remove what earlier hosts have left, once it is settled."""
    folder = state.with_suffix(".exits")
    await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
