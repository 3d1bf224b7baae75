"""Everything otpy raises.

```
OtpyError
├── InvalidSpec         (ValueError)    a spec that can never work; raised where it is written
├── SupervisorFailed    (RuntimeError)  the root gave up, or could not start
│   └── TreeStartFailed                 … while it was starting
├── StartFailed         (RuntimeError)  one child did not start on request
│   └── StartTimeout    (TimeoutError)  … because it was not ready in time
├── ChildNotReady       (RuntimeError)  a child ended before it said that it was ready
├── AlreadyStarted      (ValueError)    the id is taken by a running child
├── AlreadyPresent      (ValueError)    the id is taken by a child that is not running
├── NotFound            (LookupError)   no child has this id
├── ChildRunning        (RuntimeError)  the operation needs a child that is stopped
├── ChildRestarting     (RuntimeError)  the operation must wait for a restart, or end it first
├── MaxChildren         (RuntimeError)  a dynamic supervisor is full
├── CallingSelf         (RuntimeError)  a starting child calls the supervisor that waits for it
├── NotRunning          (RuntimeError)  the supervisor has ended, is ending, or was never started
└── NotSupervised       (LookupError)   the code runs in no child of any tree
```

Two classes are raised *by children* and are no errors of otpy: `Exit` and `Ignore`, in
`otpy.Exit` and `otpy.Ignore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Sequence


class OtpyError(Exception):
    """Root of every error that otpy raises."""


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
class ChildRestarting(ChildError, RuntimeError):
    """The child waits to be started again: `retry_now` or `terminate_child` it first."""

    problem = "waits for its restart: retry_now() or terminate_child() it first"


@final
class MaxChildren(ChildError, RuntimeError):
    """A dynamic supervisor holds as many children as it may (DYN-07)."""

    problem = "holds as many children as it may"


@final
class CallingSelf(ChildError, RuntimeError):
    """A child called, while it was starting, the supervisor that waits for it to start (SUP-318).

    The call would wait for the child, and the child for the call. Call after
    `task_status.started()`.
    """

    problem = "waits for the caller to start; call it after task_status.started()"


@final
class NotRunning(ChildError, RuntimeError):
    """The supervisor, or the child, has ended or is ending."""

    problem = "is not running"


@final
class NotSupervised(OtpyError, LookupError):
    """`otpy.current()` was called by code that no supervisor started."""


class SupervisorFailed(OtpyError, RuntimeError):
    """The root of a tree gave up; everything below it has been stopped.

    `__cause__` is the last exception of the child that used up the restarts, with its traceback.

    Attributes:
        path: Path of the child that could not be kept running.
        reasons: Why it ended, one exit reason per end, oldest first.
        history: The restarts that used up the limit, as `otpy.RestartRecord`; of the root first,
            then of the supervisor below it that failed, each oldest first.
        abandoned: Paths of the children that refused to stop, in the order they were given up.
    """

    def __init__(
        self,
        path: str,
        message: str,
        *,
        reasons: Sequence[object] = (),
        history: Sequence[object] = (),
        abandoned: Sequence[str] = (),
    ) -> None:
        """Build the error; the message is `path: message` with one line per restart below it."""
        lines = [f"{path}: {message}", *(f"  {line}" for line in history)]
        lines += [f"  abandoned: {name} refused to stop" for name in abandoned]
        # Not super(): a TreeStartFailed would pass through ChildError, which words its own message.
        Exception.__init__(self, "\n".join(lines))
        self.path = path
        self.reasons = tuple(reasons)
        self.history = tuple(history)
        self.abandoned = tuple(abandoned)


@final
class TreeStartFailed(SupervisorFailed, StartFailed):
    """The tree could not be started: what had been started was stopped in reverse (SUP-306)."""
