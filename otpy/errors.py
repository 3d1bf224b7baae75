"""Everything otpy raises.

```
OtpyError
├── InvalidSpec         (ValueError)    a spec that can never work; raised where it is written
├── SupervisorFailed    (RuntimeError)  the root gave up, or could not start
│   └── TreeStartFailed                 … while it was starting
├── StartFailed         (RuntimeError)  one child did not start on request
│   └── StartTimeout    (TimeoutError)  … because it was not ready in time
├── ChildNotReady       (RuntimeError)  a child ended before it said that it was ready
├── CannotInterrupt     (RuntimeError)  a child has `max_step` where no step can be interrupted
├── AlreadyStarted      (ValueError)    the id is taken by a running child
├── AlreadyPresent      (ValueError)    the id is taken by a child that is not running
├── NotFound            (LookupError)   no child has this id
├── ChildRunning        (RuntimeError)  the operation needs a child that is stopped
├── RestartPending      (RuntimeError)  the operation must wait for a restart, or end it first
├── MaxChildren         (RuntimeError)  a dynamic supervisor is full
├── CallingSelf         (RuntimeError)  a call would wait for its own caller
├── WrongThread         (RuntimeError)  what the event loop of a tree must do is asked for elsewhere
├── NotRunning          (RuntimeError)  the supervisor has ended, is ending, or was never started
├── CallFailed          (RuntimeError)  a server ended, or was not there, before it replied
├── CallTimeout         (TimeoutError)  a server did not reply in time
├── MailboxFull         (RuntimeError)  a server has as many messages waiting as it may
├── BadReturn           (TypeError)     a server's callback returned what it must not
├── Demonitored         (RuntimeError)  an awaited monitor was taken back
├── NotSupervised       (LookupError)   the code runs in no child of any tree
├── TaskTimeout         (TimeoutError)  a task took longer than its caller waited
├── NotOwner            (RuntimeError)  a task is awaited by another than who started it
├── TaskFailed          (otpy.Exit)     a task ended without a result
├── AlreadyRegistered   (ValueError)    a key of a registry is taken by a live process
├── NotRegistered       (LookupError)   no process holds this key
├── KeysNotUnique       (TypeError)     the operation needs a registry with unique keys
└── PartitionError      (ValueError)    no partition can be found for this key, or made
```

`OtpyError`, `InvalidSpec` and `SupervisorFailed` are imported from `otpy`, `TaskFailed` from
`otpy.tasks`.

Two classes are raised *by children* and are not errors of otpy: `Exit` and `Ignore`, in
`otpy.Exit` and `otpy.Ignore`. One is raised *inside* a child and is not an `Exception`, so that
`except Exception` does not catch it: `StepOverran`.

All of them can be copied and pickled, as far as what a child raised can: type, text and attributes
come back, and a process comes back as its path. As with every exception of Python, the traceback,
`__cause__` and `__context__` do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Reduced: TypeAlias = tuple[Any, tuple[Any, ...], dict[str, Any]]

_E = TypeVar("_E", bound=BaseException)


def _remade(kind: type[_E], args: tuple[object, ...]) -> _E:
    """Return an error as it was, without wording its message a second time."""
    base: Any = kind
    while "__new__" not in vars(base):  # `kind.__new__` may be another's than that of its layout
        base = base.__base__
    error: _E = base.__new__(kind)
    error.args = args
    return error


def _reduced(error: BaseException) -> Reduced:
    return _remade, (type(error), error.args), dict(vars(error))


class OtpyError(Exception):
    """Root of every error that otpy raises."""

    def __reduce__(self) -> Reduced:
        """Be copied and pickled with the message as it stands."""
        return _reduced(self)


@final
class InvalidSpec(OtpyError, ValueError):
    """A spec that can never work: the message names the child, the value got and the one wanted.

    Raised when the spec is built, never when it is started (SUP-104 to SUP-214).
    """


class ChildError(OtpyError):
    """An operation on one child was refused.

    Attributes:
        path: Path of the child, such as `"app/workers/db"`.
    """

    problem = "refused"

    def __init__(self, path: str, detail: str = "") -> None:
        """Name the child at `path`; `detail` is appended to the message."""
        super().__init__(f"{path}: {self.problem}{f': {detail}' if detail else ''}")
        self.path = path


class StartFailed(ChildError, RuntimeError):
    """A child did not start. `__cause__` is the exception that its start raised, if there is one.

    Unlike `SupervisorFailed` this concerns one child that somebody asked for: nothing else was
    disturbed, and no restart was counted (SUP-803, SUP-805).
    """

    problem = "did not start"


@final
class StartTimeout(StartFailed, TimeoutError):
    """A child was not ready within its `start_timeout`; it was cancelled (an otpy extension)."""

    problem = "was not ready in time"


@final
class ChildNotReady(ChildError, RuntimeError):
    """A child that promised readiness ended without calling `task_status.started()`."""

    problem = "ended before it called task_status.started()"


@final
class CannotInterrupt(ChildError, RuntimeError):
    """A child declares `max_step`, and no step of it could be interrupted here.

    Steps are interrupted by a signal, and Python handles signals in the main thread only: the
    event loop must run there, and SIGURG must be free. The child's start fails with this.
    """

    problem = "max_step cannot be kept"


@final
class StepOverran(BaseException):
    """Raised inside a child that kept the event loop for longer than its `max_step`.

    No `Exception`, like `asyncio.CancelledError`: a loop that catches every `Exception` and goes on
    is just what it must end. Let it pass, after a clean-up that does not take long. Code that
    catches it and goes on is hit again after another `max_step` seconds.

    Attributes:
        path: Path of the child.
        seconds: How long the step had taken by then.
        limit: Its `max_step`, in seconds.
    """

    def __init__(self, path: str, seconds: float, limit: float) -> None:
        """Say that a step of the child at `path` took `seconds` already, with this `limit`."""
        super().__init__(f"{path}: one step took {seconds:.3f} s, max_step={limit:g} s")
        self.path = path
        self.seconds = seconds
        self.limit = limit

    def __reduce__(self) -> Reduced:
        """Be copied and pickled with the message as it stands."""
        return _reduced(self)


@final
class AlreadyStarted(ChildError, ValueError):
    """The id is taken by a child that runs: use it, or end it first (`terminate_child`)."""

    problem = "already started"

    def __init__(self, path: str, process: object) -> None:
        """Name the child at `path` and keep the `process` that holds the id."""
        super().__init__(path)
        self.process = process


@final
class AlreadyPresent(ChildError, ValueError):
    """The id is taken by a child that does not run: `restart_child` or `delete_child` it."""

    problem = "already present, but not running: restart_child() or delete_child() it"


@final
class NotFound(ChildError, LookupError):
    """No child has this id. A temporary child that has ended is forgotten at once (SUP-403)."""

    problem = "no such child"


@final
class ChildRunning(ChildError, RuntimeError):
    """The child runs: `terminate_child` it first."""

    problem = "is running: terminate_child() it first"


@final
class RestartPending(ChildError, RuntimeError):
    """The child waits to be started again: `retry_now` or `terminate_child` it first."""

    problem = "waits for its restart: retry_now() or terminate_child() it first"


@final
class MaxChildren(ChildError, RuntimeError):
    """A dynamic supervisor holds as many children as it may (DYN-07)."""

    problem = "holds as many children as it may"


@final
class CallingSelf(ChildError, RuntimeError):
    """A call would wait for its own caller, for ever.

    A child that is starting calls a supervisor that waits for it to start (SUP-318): call after
    `task_status.started()`. Or a server calls itself in a callback (GEN-15): do what the call
    would have done, or `cast`.
    """

    problem = "waits for the caller"


@final
class WrongThread(ChildError, RuntimeError):
    """An operation that belongs to the event loop of the tree was called elsewhere.

    In another thread, or in another event loop. What is to be waited for, and what registers or
    looks at a whole tree, goes by `root.portal()` there. Orders (`cast`, `send`, `exit`, `kill`)
    and looking a process up may be used everywhere.
    """

    problem = "lives in another event loop; in a thread, go by root.portal()"


@final
class NotRunning(ChildError, RuntimeError):
    """The supervisor, or the child, has ended or is ending."""

    problem = "is not running"


@final
class CallFailed(ChildError, RuntimeError):
    """A server ended before it replied, or was not there (GEN-11, GEN-15).

    Whether the request was carried out is not known. `__cause__` is what the server raised, or why
    it was not found.

    Attributes:
        reason: Why the server has ended, or is ending, an `ExitReason`; None if there was none:
            nothing of that name runs, or what runs is not a server.
    """

    problem = "the call failed"

    def __init__(self, path: str, reason: object, detail: str = "") -> None:
        """Name the server at `path` and say why it gives no reply."""
        super().__init__(path, detail or ("no such process" if reason is None else str(reason)))
        self.reason = reason


@final
class CallTimeout(ChildError, TimeoutError):
    """A server did not reply in time (GEN-14).

    The request is not taken back: it will be, or was, carried out, and the reply is dropped.
    """

    problem = "did not reply in time"


@final
class MailboxFull(ChildError, RuntimeError):
    """A server has as many messages waiting as its `MailboxLimit` allows.

    Who called it knows that the request was not taken, and may try again later. With
    `Overflow.END` it is what the server crashed with.
    """

    problem = "has as many messages waiting as it may"


@final
class BadReturn(ChildError, TypeError):
    """A callback of a server returned a bad value; the server crashes with this (GEN-12)."""

    problem = "a callback returned"


@final
class Demonitored(ChildError, RuntimeError):
    """Somebody awaited a monitor that was taken back by `demonitor()`."""

    problem = "is not monitored any more"


@final
class NotSupervised(OtpyError, LookupError):
    """`otpy.current()` was called by code that no supervisor started."""


@final
class TaskTimeout(OtpyError, TimeoutError):
    """A task took longer than its caller waited, or than its limit (TSK-07, TSK-11)."""


@final
class NotOwner(OtpyError, RuntimeError):
    """A process awaited a task that another process started (TSK-07)."""


@final
class AlreadyRegistered(OtpyError, ValueError):
    """The key is taken, in a registry with unique keys (REG-02).

    Attributes:
        key: The key.
        process: The live process that holds it; it may be the caller's own.
    """

    def __init__(self, path: str, key: object, process: object) -> None:
        """Name the registry at `path`, the `key`, and the `process` that holds it."""
        super().__init__(f"{path}: {key!r} is taken by {process!r}")
        self.key = key
        self.process = process


@final
class NotRegistered(OtpyError, LookupError):
    """No live process holds this key, or another one than the caller's (REG-08, REG-10).

    Attributes:
        path: Path of the registry.
        key: The key.
    """

    def __init__(self, path: str, key: object) -> None:
        """Name the registry at `path` and the `key`."""
        super().__init__(f"{path}: {key!r} is not registered")
        self.path = path
        self.key = key


@final
class KeysNotUnique(OtpyError, TypeError):
    """The operation makes no sense where several processes may hold a key (REG-08, REG-10)."""


@final
class PartitionError(OtpyError, ValueError):
    """No partition can be found for a key, or a number of partitions cannot be had (PAR-06)."""


class SupervisorFailed(OtpyError, RuntimeError):
    """The root of a tree gave up; everything below it has been stopped.

    `__cause__` is the last exception of the child that used up the restarts, with its traceback.

    Attributes:
        path: Path of the child that could not be kept running.
        reasons: Why it ended, one exit reason per end, oldest first.
        history: The restarts that led here, of all children, as `otpy.snapshot.RestartRecord`; of
            the root first, then of the supervisor below it that failed, each oldest first and the
            last 1001 at most.
        abandoned: Paths of the children that refused to stop, or left a task that did, in the order
            they were given up.
    """

    def __init__(
        self,
        path: str,
        message: str,
        *,
        reasons: Sequence[object] = (),
        history: Iterable[object] = (),
        abandoned: Sequence[str] = (),
    ) -> None:
        """Build the error; the message is `path: message` with one line per restart below it."""
        # Not super(): a TreeStartFailed would pass through ChildError, which words its own message.
        Exception.__init__(self, f"{path}: {message}")
        self.path = path
        self.reasons = tuple(reasons)
        self._history = history
        self.abandoned = tuple(abandoned)

    @property
    def history(self) -> tuple[object, ...]:
        """The restarts that led here; built on first use."""
        self._history = told = tuple(self._history)
        return told

    def __reduce__(self) -> Reduced:
        """Be copied and pickled with its history put together."""
        _ = self.history
        return super().__reduce__()

    def __str__(self) -> str:
        """Return the message; it is built only on use."""
        lines = [super().__str__(), *(f"  {line}" for line in self.history)]
        lines += [f"  abandoned: {name} refused to stop" for name in self.abandoned]
        return "\n".join(lines)


@final
class TreeStartFailed(SupervisorFailed, StartFailed):
    """The tree could not be started: what had been started was stopped in reverse (SUP-306)."""
