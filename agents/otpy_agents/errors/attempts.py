"""Errors of adapters, of sandboxes, and of the programs they start."""

from __future__ import annotations

from collections.abc import Sequence

from otpy_agents.errors.ancestor import AgentsError

__all__ = [
    "AdapterError",
    "AmbiguousAdapter",
    "BrokenAdapter",
    "CannotAdopt",
    "EngineError",
    "InvalidJob",
    "InvalidRequest",
    "SandboxUnavailable",
    "UnknownAdapter",
]


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
    """A container engine refused a request, or did not answer.

    Attributes:
        status: Its HTTP status; None if there was no answer.
        reason: What it said, or why there was no answer.
    """

    def __init__(self, asked: str, status: int | None, reason: str) -> None:
        self.status, self.reason = status, reason
        answer = f"got status {status}" if status is not None else "got no answer"
        super().__init__(f"container engine: {asked}: {answer}: {reason}")
