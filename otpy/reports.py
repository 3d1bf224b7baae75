"""The reports of a tree: frozen facts, on one stream per tree, in order.

A report hook is any callable that takes one report. It is called from the event loop, must not
block, and can do no harm: one that raises is taken off the stream, and `HookFailed` is reported to
the others.

The exception of a crash that a report carries may be kept. The local variables in the frames of its
traceback are there until every hook has returned, and are cleared then.

`context` is OTP's error context (REP-03): None means that all is well, and anything else that OTP
would have written an error report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias, final

from attrs import frozen

from otpy._core.protocol import Context
from otpy._core.reason import ExitReason

ErrorContext: TypeAlias = Context


@frozen(kw_only=True)
class Report:
    """What every report has.

    Attributes:
        path: Path of the child or supervisor it is about, such as `"app/workers/db"`.
        time: When it happened, in seconds of the event loop's clock.
        incarnation: Which of its lives, from 1; 0 for a supervisor's report of itself.
        restarts: How often it had been restarted.
    """

    event: ClassVar[str] = "report"

    path: str
    time: float
    incarnation: int = 0
    restarts: int = 0

    @property
    def id(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def supervisor(self) -> str:
        """Path of the supervisor it stands under; empty for the root."""
        return self.path.rpartition("/")[0]


@final
@frozen(kw_only=True)
class ChildStarted(Report):
    """A child is ready: at the first start, or after a restart (REP-06)."""

    event: ClassVar[str] = "child.started"


@final
@frozen(kw_only=True)
class ChildStartFailed(Report):
    """A child ended before it was ready.

    Attributes:
        reason: Why.
        context: START_ERROR, or None if a caller asked for this start and was told.
    """

    event: ClassVar[str] = "child.start_failed"

    reason: ExitReason
    context: ErrorContext | None = None


@final
@frozen(kw_only=True)
class ChildExited(Report):
    """A child ended by itself.

    Attributes:
        reason: Why.
        context: CHILD_TERMINATED if it should not have.
    """

    event: ClassVar[str] = "child.exited"

    reason: ExitReason
    context: ErrorContext | None = None


@final
@frozen(kw_only=True)
class ChildRestarting(Report):
    """A child that ended will be started again.

    Attributes:
        reason: Why it ended.
        delay: Seconds until then; 0 is at once.
    """

    event: ClassVar[str] = "child.restarting"

    reason: ExitReason
    delay: float = 0.0


@final
@frozen(kw_only=True)
class ChildStopped(Report):
    """A child that its supervisor told to end has ended.

    Attributes:
        reason: Why, by its own account.
        context: SHUTDOWN_ERROR if it did not end as it should (SUP-704).
    """

    event: ClassVar[str] = "child.stopped"

    reason: ExitReason
    context: ErrorContext | None = None


@final
@frozen(kw_only=True)
class ChildAbandoned(Report):
    """A child refused to end; it was given up and still runs, outside the tree.

    Attributes:
        what: "task"; or "thread" if its task ended and a thread it waited for did not; or "subtask"
            if its task ended and another that it had created did not.
        stack: Its last known position, outermost call first, one line per frame.
        name: Name of the subtask, by `Task.get_name()`; else empty.
    """

    event: ClassVar[str] = "child.abandoned"

    what: str
    stack: tuple[str, ...]
    name: str = ""


@final
@frozen(kw_only=True)
class ChildGaveUp(Report):
    """A child used up its own restart limit and was removed; its siblings run on (extension).

    Attributes:
        reason: Why it ended the last time.
    """

    event: ClassVar[str] = "child.gave_up"

    reason: ExitReason


@final
@frozen(kw_only=True)
class MessageUnhandled(Report):
    """A server got a message that it has no `handle_info` for, and dropped it (GEN-24).

    Attributes:
        message: The message, as text; a thousand characters of it at most.
    """

    event: ClassVar[str] = "child.message_unhandled"

    message: str


@final
@frozen(kw_only=True)
class MailboxGrown(Report):
    """Many messages wait in the mailbox of a server: more than its `MailboxLimit` says is usual.

    It is reported when `warn` is reached, when the first message is dropped because `most` wait,
    and when the server ends with messages dropped that no such report has counted.

    Attributes:
        waiting: How many messages wait.
        dropped: How many were dropped since the last such report of this life.
    """

    event: ClassVar[str] = "child.mailbox_grown"

    waiting: int
    dropped: int = 0


@final
@frozen(kw_only=True)
class SupervisorGaveUp(Report):
    """A supervisor reached its restart limit, stops its children and ends (SUP-509).

    Attributes:
        child: Path of the child whose restart was one too many.
        reason: Why that child ended the last time.
    """

    event: ClassVar[str] = "supervisor.gave_up"

    child: str
    reason: ExitReason


@final
@frozen(kw_only=True)
class SupervisorStopped(Report):
    """A supervisor has ended; nothing below it runs.

    Attributes:
        reason: Its exit reason.
    """

    event: ClassVar[str] = "supervisor.stopped"

    reason: ExitReason


@final
@frozen(kw_only=True)
class HookFailed(Report):
    """A report hook raised and was taken off the stream, or a callback of a process raised.

    Attributes:
        hook: The hook or callback, as text; a thousand characters of it at most.
        error: Its exception.
    """

    event: ClassVar[str] = "hook.failed"

    hook: str
    error: BaseException


ReportHook: TypeAlias = Callable[[Report], object]
"""Takes one report; its result is ignored. Called from the event loop, it must not block.

A hook with a false attribute `hears_routine` wants no reports of routine: that a child has started,
and that it has ended as it should. As long as no hook of the tree wants them, none is made, which
saves a third of each start and stop. They are `ChildStarted`, and `ChildStopped` and `ChildExited`
without a `context`. The attribute may change: it is looked at once a second.
"""
