"""Every error `otpy_agents` raises on purpose, and how they relate.

```
AgentsError
├── InvalidWorkList   (ValueError)     the work list says something it must not
├── PreflightFailed   (RuntimeError)   an assignment cannot be started as things stand
├── SpawnFailed       (RuntimeError)   the operating system refused to start a worker
├── WorkerFailed      (RuntimeError)   a worker ended otherwise than with exit code 0
├── WorkerStalled     (TimeoutError)   a worker made no progress for longer than it may
├── DeadlinePassed    (TimeoutError)   a worker took longer than its deadline
├── JakeGaveUp        (RuntimeError)   Jake crashed more often than he may
├── AlreadyRunning    (RuntimeError)   another host works on the same ledger
├── InvalidJob        (ValueError)     a sandbox cannot run an attempt as it is described
├── SandboxUnavailable (RuntimeError)  attempts cannot run in this sandbox here
├── CannotAdopt       (LookupError)    an attempt of an earlier host is not there to go on with
├── EngineError       (RuntimeError)   a container engine refused, or did not answer
├── UnknownRun        (LookupError)    no run of that id is stored
├── RunExists         (ValueError)     a run of that id is stored already
├── RunHeld           (RuntimeError)   a run that a living host works on
├── RunLost           (RuntimeError)   a run that another host has taken over
├── RunBroken         (RuntimeError)   a run that this host cannot go on with
├── RunFinished       (ValueError)     a run that is over and cannot be resumed
├── CliMissing        (LookupError)    no agent of a run is installed
├── OperatorError
│   ├── SocketUnusable   (OSError)          no operator socket can be made there
│   ├── HostGone         (ConnectionError)  nobody listens on the operator socket
│   └── NoAnswer         (TimeoutError)     a host took the command and did not answer
├── CommandRefused    (ValueError)     a host did not carry a command out
├── InvalidRunSetting (ValueError)     a chain, a policy or a liveness that can never work
├── RunStateError
│   ├── RunStateTooNew    a newer otpy_agents stored this run
│   └── RunStateCorrupt   (ValueError)  what was stored is not the state of a run
└── LedgerError
    ├── LedgerCorrupt    the file is damaged, or is none of ours
    ├── LedgerTooNew     a newer otpy_agents wrote it
    ├── LedgerUnwritable the folder, the disk or the file does not take writes
    └── LedgerClosed  (RuntimeError)   used outside its `async with` block
```

Each message is one line and names the value got and the value wanted, so that a command line can
print `str(error)` and exit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from otpy.errors import OtpyError

__all__ = [
    "AdapterError",
    "AgentsError",
    "AlreadyRunning",
    "AmbiguousAdapter",
    "BrokenAdapter",
    "CannotAdopt",
    "CliMissing",
    "CommandRefused",
    "DeadlinePassed",
    "EngineError",
    "HostGone",
    "InvalidJob",
    "InvalidRequest",
    "InvalidRunSetting",
    "InvalidWorkList",
    "JakeGaveUp",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerTooNew",
    "LedgerUnwritable",
    "NoAnswer",
    "OperatorError",
    "PreflightFailed",
    "RunBroken",
    "RunExists",
    "RunFinished",
    "RunHeld",
    "RunLost",
    "RunStateCorrupt",
    "RunStateError",
    "RunStateTooNew",
    "SandboxUnavailable",
    "SocketUnusable",
    "SpawnFailed",
    "UnknownAdapter",
    "UnknownRun",
    "WorkerFailed",
    "WorkerStalled",
]


class AgentsError(OtpyError):
    """Root of the errors of `otpy_agents`; catch this to catch them all."""


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
    """Jake crashed more often than he may, and is not started again; `__cause__` is his last crash.

    Nobody can act on the list without him, so this is what the host of the tree gets to see.
    """


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
    """Something about the file of a ledger or of the runs; the subclasses say what to do.

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
    """The folder is read-only, the disk is full, or the file cannot be opened or locked."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path, f"got {detail!r}, wanted a file that can be written")


class LedgerClosed(LedgerError, RuntimeError):
    """An operation outside the `async with` block of a ledger or of the store of runs."""

    def __init__(self, path: Path, wanted: str) -> None:
        super().__init__(path, f"got a closed file, wanted {wanted} inside its `async with` block")


class InvalidRequest(AgentsError, ValueError):
    """A request that an agent CLI cannot be started with.

    Attributes:
        field: Field of the request.
    """

    def __init__(self, field: str, got: str, wanted: str) -> None:
        self.field = field
        super().__init__(f"request.{field}: got {got}, wanted {wanted}")


class AdapterError(AgentsError):
    """Something about the adapters that are installed; the subclasses say what.

    Attributes:
        name: The adapter's name.
    """

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        super().__init__(f"agent {name!r}: {message}")


class UnknownAdapter(AdapterError, LookupError):
    """No adapter has this name.

    Attributes:
        known: Names there are, sorted.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.known = tuple(known)
        super().__init__(name, f"got an unknown name, wanted one of {', '.join(self.known)}")


class AmbiguousAdapter(AdapterError, ValueError):
    """Two packages bring an adapter of one name; remove one of them.

    Attributes:
        values: What the entry points refer to, sorted.
    """

    def __init__(self, name: str, values: Sequence[str]) -> None:
        self.values = tuple(values)
        super().__init__(name, f"got {' and '.join(self.values)}, wanted one adapter of that name")


class BrokenAdapter(AdapterError, TypeError):
    """An entry point that cannot be loaded, or leads to no adapter of its name."""


class InvalidJob(AgentsError, ValueError):
    """An attempt that no sandbox, or not the one asked, can run as it is described.

    Attributes:
        field: Field of the job.
    """

    def __init__(self, field: str, got: str, wanted: str) -> None:
        self.field = field
        super().__init__(f"job.{field}: got {got}, wanted {wanted}")


class SandboxUnavailable(AgentsError, RuntimeError):
    """Attempts cannot run in this sandbox here and now; nothing was started.

    Attributes:
        sandbox: Its name.
    """

    def __init__(self, sandbox: str, reason: str) -> None:
        self.sandbox = sandbox
        super().__init__(f"sandbox {sandbox!r}: {reason}")


class CannotAdopt(AgentsError, LookupError):
    """What an earlier host started is gone, never began, or died with that host.

    Attributes:
        sandbox: Name of the sandbox.
    """

    def __init__(self, sandbox: str, identity: str, reason: str) -> None:
        self.sandbox = sandbox
        super().__init__(f"sandbox {sandbox!r}: cannot adopt {identity}: {reason}")


class EngineError(AgentsError, RuntimeError):
    """A container engine refused what it was asked, or did not answer.

    Attributes:
        status: Its HTTP status; None if there was no answer.
        reason: What it said, or why there was no answer.
    """

    def __init__(self, asked: str, status: int | None, reason: str) -> None:
        self.status, self.reason = status, reason
        answer = f"got status {status}" if status is not None else "got no answer"
        super().__init__(f"container engine: {asked}: {answer}: {reason}")


class UnknownRun(AgentsError, LookupError):
    """No run of this id is stored; it may have been purged.

    Attributes:
        run: The id asked for.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"run {run!r}: got an unknown id, wanted one of `otpy-agents runs --all`")


class RunExists(AgentsError, ValueError):
    """A run of this id is stored already; nothing was changed.

    Attributes:
        run: The id.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"run {run!r}: got an id that is taken, wanted a new one")


class RunHeld(AgentsError, RuntimeError):
    """A run that cannot be taken over, because the host that works on it lives (G-19).

    Attributes:
        run: Its id.
        pid: Process id of that host.
    """

    def __init__(self, run: str, pid: int) -> None:
        self.run, self.pid = run, pid
        super().__init__(f"run {run!r}: held by process {pid}, wanted a run whose host is dead")


class RunLost(AgentsError, RuntimeError):
    """A write to a run that was taken over since; nothing was written (G-19).

    Who gets this must stop to work on the run at once: somebody else does.

    Attributes:
        run: Its id.
        pid: Process id of the host that has it now; it may be the writer's own, if the run was
            taken over within one host.
    """

    def __init__(self, run: str, pid: int) -> None:
        self.run, self.pid = run, pid
        super().__init__(f"run {run!r}: taken over by process {pid}, which works on it now")


class RunBroken(AgentsError, RuntimeError):
    """A run that this host does not go on with, although it is not over; it can be resumed.

    Attributes:
        run: Its id.
        reason: Why, in words.
    """

    def __init__(self, run: str, reason: str) -> None:
        self.run, self.reason = run, reason
        super().__init__(
            f"run {run!r}: not gone on with: {reason}; `otpy-agents runs resume {run}`"
        )


class RunFinished(AgentsError, ValueError):
    """A run that was to be resumed and is over.

    Attributes:
        run: Its id.
    """

    def __init__(self, run: str, status: str) -> None:
        self.run = run
        super().__init__(f"run {run!r}: got one that is over ({status}), wanted an unfinished one")


class CliMissing(AgentsError, LookupError):
    """No agent that a run may use is installed; nothing was stored or started.

    Attributes:
        program: The program that was looked for first.
        hint: What to type to install it.
    """

    def __init__(self, program: str, hint: str) -> None:
        self.program, self.hint = program, hint
        super().__init__(f"got no program {program!r} on the PATH, wanted one; {hint}")


class OperatorError(AgentsError):
    """Something about an operator socket; the subclasses say what to do.

    Attributes:
        path: The socket.
    """

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class SocketUnusable(OperatorError, OSError):
    """No operator socket can be made at this place."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path, f"got {detail}, wanted a place for an operator socket")


class HostGone(OperatorError, ConnectionError):
    """Nobody listens on the socket: the host has ended. Nothing was carried out."""

    def __init__(self, path: Path, advice: str) -> None:
        super().__init__(path, f"no host listens there any more; {advice}")


class NoAnswer(OperatorError, TimeoutError):
    """The host was reached and gave no sound answer; the command may have been carried out."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(path, f"got {detail}, wanted an answer; the command may have taken effect")


class CommandRefused(AgentsError, ValueError):
    """A command that was not, or not wholly, carried out; the message is the host's.

    Raised by a handler too, to refuse what it was asked.

    Attributes:
        reason: Which kind of refusal; see `Refusal` in `otpy_agents.operator`.
    """

    def __init__(self, message: str, reason: str = "refused") -> None:
        self.reason = reason
        super().__init__(message)


class InvalidRunSetting(AgentsError, ValueError):
    """A setting of a run that can never work: of its agents, its retry policy or its liveness.

    Attributes:
        field: The setting, for example `retry.max_retries`.
    """

    def __init__(self, field: str, got: str, wanted: str) -> None:
        self.field = field
        super().__init__(f"{field}: got {got}, wanted {wanted}")


class RunStateError(AgentsError):
    """The stored state of a run that cannot be gone on with; the subclasses say why."""


class RunStateTooNew(RunStateError):
    """A newer version stored it; nothing was read.

    Attributes:
        version: Version found.
        newest: Newest version this code can read.
    """

    def __init__(self, version: int, newest: int) -> None:
        self.version, self.newest = version, newest
        super().__init__(
            f"run state: got version {version}, wanted {newest} or older; upgrade otpy-tree"
        )


class RunStateCorrupt(RunStateError, ValueError):
    """What was stored is not the complete state of a run.

    Attributes:
        place: Where in it, for example `attempts[2].began`.
    """

    def __init__(self, place: str, got: str, wanted: str) -> None:
        self.place = place
        super().__init__(f"run state: {place}: got {got}, wanted {wanted}")
