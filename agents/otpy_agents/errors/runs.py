"""Errors of runs: of their orders, their states, their store and their operators."""

from __future__ import annotations

from pathlib import Path

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "CliMissing",
    "CommandRefused",
    "HostGone",
    "InvalidRunSetting",
    "NoAnswer",
    "OperatorError",
    "RunBroken",
    "RunExists",
    "RunFinished",
    "RunHeld",
    "RunLost",
    "RunStateCorrupt",
    "RunStateError",
    "RunStateTooNew",
    "SocketUnusable",
    "UnknownRun",
]


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
        where = "that can be run" if "/" in program else "on the PATH"
        super().__init__(f"got no program {program!r} {where}, wanted one; {hint}")


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
    """No host listens on the socket: the host has ended. Nothing was carried out."""

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
