"""Errors of work lists, their workers and their ledgers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "AlreadyRunning",
    "DeadlinePassed",
    "InvalidWorkList",
    "JakeGaveUp",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerForeign",
    "LedgerAstray",
    "LedgerTooNew",
    "LedgerUnwritable",
    "PreflightFailed",
    "SpawnFailed",
    "WorkerFailed",
    "WorkerStalled",
]


class InvalidWorkList(AgentsError, ValueError):
    """A work list that cannot be used, with the one place to mend first.

    Attributes:
        file: The work list as it was named by the caller.
        line: Line of the offending key, from 1; of the table's header if a key is missing; None if
            the file could not be read at all.
        key: What is wrong, for example `assignment 'zip'.deadline`; empty for a syntax error.
        got: The value found, as a person would write it.
        wanted: What would have been accepted.
    """

    def __init__(self, file: Path, line: int | None, key: str, got: str, wanted: str) -> None:
        self.file, self.line, self.key, self.got, self.wanted = file, line, key, got, wanted
        place = f"{file}:{line}" if line is not None else f"{file}"
        subject = f"{key}: " if key else ""
        super().__init__(f"{place}: {subject}got {got}, wanted {wanted}")


class PreflightFailed(AgentsError, RuntimeError):
    """An assignment that was not started, with everything that stands in its way (TREE-40).

    Unlike `SpawnFailed` nothing was tried. It is not a restart and must not be counted as one.

    Attributes:
        assignment: Id of the assignment.
        problems: One sentence for each obstacle, in the order they were checked; never empty.
    """

    def __init__(self, assignment: str, problems: Sequence[str]) -> None:
        self.assignment, self.problems = assignment, tuple(problems)
        super().__init__(f"assignment {assignment!r} cannot be started: {'; '.join(self.problems)}")


class SpawnFailed(AgentsError, RuntimeError):
    """The operating system refused to start a worker; `__cause__` is its error.

    Unlike `PreflightFailed` this was found by trying, for example when the program was removed in
    between or the machine ran out of processes. No process exists.

    Attributes:
        program: First item of the argv.
    """

    def __init__(self, program: str, reason: str) -> None:
        self.program = program
        super().__init__(f"cannot start {program!r}: {reason}, wanted a program that can be run")


class WorkerFailed(AgentsError, RuntimeError):
    """A worker ended with another exit code than 0, or by a signal.

    Attributes:
        assignment: Id of the assignment.
        status: How it ended, for example `exit code 1` or `SIGKILL`.
    """

    def __init__(self, assignment: str, status: str, last_line: str) -> None:
        self.assignment, self.status = assignment, status
        super().__init__(f"{status}: {last_line}" if last_line else status)


class WorkerStalled(AgentsError, TimeoutError):
    """A worker that the health monitor reported as stalled; the message is its finding."""


class DeadlinePassed(AgentsError, TimeoutError):
    """One attempt took longer than the assignment's deadline (C-01).

    Attributes:
        assignment: Id of the assignment.
        deadline: Seconds.
    """

    def __init__(self, assignment: str, deadline: float) -> None:
        self.assignment, self.deadline = assignment, deadline
        super().__init__(f"took longer than its deadline of {deadline:g} s")


class JakeGaveUp(AgentsError, RuntimeError):
    """Jake crashed more often than he may, and is not started again (C-13).

    Nobody can act on his list without him. The projects beside it are worked off first; then this
    is what the host of the tree gets to see. `__cause__` is what the first of them died of; None if
    he was killed.

    Attributes:
        projects: Those whose Jake gave up, in their order.
    """

    def __init__(self, causes: Mapping[str, object]) -> None:
        """Name each project, with the exit reason its Jake ended with last."""
        self.projects = tuple(causes)
        said = "; ".join(f"project {name!r}: {reason}" for name, reason in causes.items())
        super().__init__(f"Jake crashed more often than he may: {said}")


class AlreadyRunning(AgentsError, RuntimeError):
    """Another living host holds the lock of this ledger (G-19).

    Attributes:
        path: The ledger both want.
        pid: Process id of the other host; None if it has not yet written it down.
    """

    def __init__(self, path: Path, pid: int | None) -> None:
        self.path, self.pid = path, pid
        who = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{path}: in use by {who}, wanted a ledger that nobody works on")


class LedgerError(AgentsError):
    """An error about one of our files; the subclasses say what to do.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class LedgerCorrupt(LedgerError):
    """The file is damaged or is not of its kind: move it away and start over."""

    def __init__(self, path: Path, detail: str, wanted: str) -> None:
        super().__init__(path, f"got {detail}, wanted {wanted}; move the file away")


class LedgerForeign(LedgerCorrupt):
    """The file is a sound database of another program."""


class LedgerTooNew(LedgerError):
    """The file was written by a newer version; nothing was changed in it.

    Attributes:
        version: Schema version found.
        newest: Newest schema version this code can read.
    """

    def __init__(self, path: Path, version: int, newest: int) -> None:
        self.version, self.newest = version, newest
        super().__init__(
            path, f"got schema version {version}, wanted {newest} or older; upgrade otpy-tree"
        )


class LedgerUnwritable(LedgerError):
    """The folder is read-only, the disk is full, or the file cannot be opened or locked.

    Attributes:
        detail: What is in the way, as the system puts it.
    """

    def __init__(self, path: Path, detail: str) -> None:
        self.detail = detail
        super().__init__(path, f"got {detail!r}, wanted a file that can be written")


class LedgerAstray(LedgerError):
    """The file was deleted or replaced while it was open; nothing is written into it any more.

    Attributes:
        detail: What has become of what it held.
    """

    def __init__(self, path: Path, detail: str) -> None:
        self.detail = detail
        super().__init__(path, f"was deleted or replaced while it was open; {detail}")


class LedgerClosed(LedgerError, RuntimeError):
    """An operation outside the `async with` block of the object that has the file open."""

    def __init__(self, path: Path, wanted: str) -> None:
        super().__init__(path, f"got a closed file, wanted {wanted} inside its `async with` block")
