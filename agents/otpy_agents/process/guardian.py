"""The host's end of the guardian of a worker, and the exit that it leaves on disk.

A guardian is a small process between the host and one worker. As long as the host lives it hands
on how the worker ended, and does nothing else. When the host dies, `kill -9` included, it ends
whatever the worker started, within `END_WITHIN` seconds. An exit that came before is on disk by
then, and the next host reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

from attrs import frozen

from otpy_agents.process import guardian_program
from otpy_agents.process.guardian_program import END_WITHIN
from otpy_agents.process.orphans import Recorded, same_start

__all__ = ["ExitOnDisk", "Guardian", "exit_on_disk"]

_KILLED: Final = -9
_PATIENCE: Final = END_WITHIN + 1.0
_LOOK: Final = 0.02
_READ: Final = 4096
# Neither a site nor anything of the user is loaded, which takes twice as long; and as a module,
# because a script is compiled at each start.
_START: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); import guardian_program as it; it.main()"
)
_PROGRAM: Final = (
    sys.executable,
    "-I",
    "-S",
    "-c",
    _START,
    str(Path(guardian_program.__file__).parent),
)
# Without these a Python that was built so does not find its own libraries.
_LIBRARIES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@frozen
class ExitOnDisk:
    """How a worker has ended by itself, as its guardian wrote it down.

    Attributes:
        marker: The marker of its attempt's processes.
        pid: Its number.
        started: When it was started, in Unix seconds.
        ended: When it ended, in Unix seconds.
        returncode: Exit code, negative for a signal.
    """

    marker: Mapping[str, str]
    pid: int
    started: float
    ended: float
    returncode: int

    def belongs(self, marker: Mapping[str, str], recorded: Recorded | None) -> bool:
        """Tell whether it is the exit of an attempt.

        Args:
            marker: Of the attempt.
            recorded: Its process, if that was written down.
        """
        return self.marker == marker and (
            recorded is None
            or (recorded.pid == self.pid and same_start(recorded.create_time, self.started))
        )


async def exit_on_disk(
    path: Path, marker: Mapping[str, str], recorded: Recorded | None
) -> ExitOnDisk | None:
    """Return how the worker of an attempt has ended by itself; None if it did not.

    Waits for its guardian if that is still at work, at most 6 s. Cancellation does no harm.

    Args:
        path: The file that was named to `spawn`.
        marker: Of the attempt.
        recorded: Its process, if that was written down.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for _ in range(int(_PATIENCE / _LOOK)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(_LOOK)
            else:
                break
        found = _parsed(os.read(descriptor, _READ))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return found if found is not None and found.belongs(marker, recorded) else None


def _parsed(text: bytes) -> ExitOnDisk | None:
    """Return a guardian's record; None if it is empty, or cut off by a full disk."""
    try:
        return ExitOnDisk(**json.loads(text))
    except (ValueError, TypeError):
        return None


@final
class Guardian:
    """The guardian of one worker: how to start it, and how to read its messages.

    Start a process with `command`, `environment` and `descriptors`, then call `listen`.

    Args:
        argv: Program and arguments of the worker.
        environment: That of the worker.
        marker: What of that the processes of its attempt are known by.
        grace: Seconds between SIGTERM and SIGKILL; not more than 4 are given.
        wrapped: As in `spawn`.
        record: File for the exit of the worker; None for none.

    Attributes:
        started: Pid of the worker, or the `OSError` that refused it.
        ended: How it ended, negative for a signal. A worker whose guardian was killed counts as
            killed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        marker: Mapping[str, str],
        grace: float,
        wrapped: bool,
        record: Path | None,
    ) -> None:
        self._argv, self._environment, self._marker = argv, environment, marker
        self._grace, self._wrapped, self._path = grace, wrapped, record
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[int] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()
        self._ours: socket.socket | None = None
        self._theirs: socket.socket | None = None
        self._record = -1
        self._heard = b""

    def open(self) -> None:
        """Open the files and sockets shared with the guardian.

        Raises:
            OSError: There are no more descriptors.
        """
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        if self._path is not None:
            # On a full disk a worker must still work; its exit is then not recorded.
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                how = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._record = os.open(self._path, how, 0o600)
                # The lock is on what is opened here, and so the guardian's for as long as it lives.
                fcntl.flock(self._record, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the guardian's process inherits."""
        assert self._theirs is not None  # noqa: S101 - for type checkers: `open` came before
        return (self._theirs.fileno(), *(() if self._record < 0 else (self._record,)))

    def command(self, held: Sequence[int]) -> list[str]:
        """Return its command line.

        Args:
            held: Descriptors of the host that it inherits and holds. The reading ends of the
                worker's pipes: with them open, the death of the host does not disturb the worker.
        """
        channel = self.descriptors[0]
        wrapped = "wrapped" if self._wrapped else "bare"
        numbers = map(str, (channel, self._record, *held))
        return [*_PROGRAM, str(os.getpid()), f"{self._grace:g}", wrapped, *numbers]

    @property
    def environment(self) -> dict[str, str]:
        """Return its environment, which holds the worker's in disguise.

        A search for a marker does not find the guardian, and no variable of a worker acts on it.
        """
        given = {name: os.environ[name] for name in _LIBRARIES if name in os.environ}
        given.update((f"+{name}", text) for name, text in self._environment.items())
        given.update((f"@{number}", word) for number, word in enumerate(self._argv))
        return {**given, "words": str(len(self._argv)), "marker": json.dumps(dict(self._marker))}

    def listen(self) -> None:
        """Listen to its messages from now on, through the running loop."""
        self._give_away()
        if self._ours is not None:
            asyncio.get_running_loop().add_reader(self._ours.fileno(), self._hear)

    def disown(self) -> None:
        """Forget the exit on disk: the worker is being ended, and its exit is not its own."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release it; it ends the worker's remains, of which there are normally none."""
        self._give_away()
        if self._ours is not None:
            asyncio.get_running_loop().remove_reader(self._ours.fileno())
            self._ours.close()
            self._ours = None

    def _give_away(self) -> None:
        """Close our copies of the guardian's inherited descriptors."""
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None
        if self._record >= 0:
            os.close(self._record)
            self._record = -1

    def _hear(self) -> None:
        assert self._ours is not None  # noqa: S101 - for type checkers: it is being read
        try:
            data = self._ours.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            kind, _, rest = line.decode("utf-8", "replace").partition(" ")
            if kind == "pid" and not self.started.done():
                self.started.set_result(int(rest))
            elif kind == "exit" and not self.ended.done():
                self.ended.set_result(int(rest))
            elif kind == "error":
                self._fail(OSError(int(rest), os.strerror(int(rest)), self._argv[0]))
        if not data:
            asyncio.get_running_loop().remove_reader(self._ours.fileno())
            self._fail(OSError("its guardian ended before it was started"))
            if not self.ended.done():
                self.ended.set_result(_KILLED)

    def _fail(self, error: OSError) -> None:
        if not self.started.done():
            self.started.set_exception(error)
