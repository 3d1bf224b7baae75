"""The report hook that logs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

from otpy._core.checks import refuse
from otpy._core.reason import Crashed
from otpy._core.text import TEXT_LIMIT, text_of
from otpy._runtime.log_limit import BurstLimit
from otpy.reports import (
    ChildAbandoned,
    ChildGaveUp,
    ChildRestarting,
    ChildStarted,
    HookFailed,
    MailboxGrown,
    MessageUnhandled,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._runtime.log_limit import RecordKind
    from otpy._runtime.log_program import ProgramLog

DEFAULT_LIMIT: Final = 10

_LEVELS: Final[dict[type[Report], str]] = {
    ChildAbandoned: "error",
    ChildGaveUp: "error",
    ChildRestarting: "warning",
    ChildStarted: "debug",
    HookFailed: "error",
    MailboxGrown: "warning",
    MessageUnhandled: "warning",
    SupervisorGaveUp: "error",
    SupervisorStopped: "debug",
}


def log_reports(
    logger: Any = None, *, limit: int | None = DEFAULT_LIMIT
) -> Callable[[Report], None]:
    """Return a report hook that writes each report as one entry of the program's log.

    Event names are those of the reports (`child.started`, `supervisor.gave_up` …), the keys are
    `child` or `supervisor` (a path), `incarnation`, `restarts`, `reason`, and `context` where OTP
    would have written an error report. What went wrong is logged at error level, with the
    traceback if there is one; restarts, unhandled messages and long mailboxes as warnings; the
    rest at debug level.

    The hook never raises. Entries that cannot be written are counted; the first of them goes to
    stderr, and their number into the log as `log.lost`, as soon as that works again.

    Texts of other people's objects are cut at 1,000 characters, messages of exceptions at 10,000,
    tracebacks at 100 frames. Where an exception exceeds that, or has no text, or more than 20
    exceptions led to it, `exc_info` is a stand-in of another class with the same name.

    Args:
        logger: A structlog logger. The default is what the program uses when the first entry is
            written: structlog if it has been configured; else `logging.getLogger("otpy")` if
            that, or the root logger, has a handler; else `console_logger()`.
        limit: How many entries of one name and level are written in a second, and a fourth of
            them about one child; at the end of the second the others are one entry, such as
            `child.exited: +312 more in 1 s`. None writes all.

    Raises:
        InvalidSpec: If `limit` is not a whole number of at least 1.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("log_reports", "limit", limit, "a whole number of at least 1, or None")
    # Here, and not with `import otpy`, a third of whose time structlog takes; and not in the loop,
    # which would wait for it before the first entry.
    from otpy._runtime.log_program import ProgramLog  # noqa: PLC0415

    return _ReportLog(ProgramLog(logger), limit)


@final
class _ReportLog:
    """Receives all reports of a tree, and writes those that its limit admits."""

    __slots__ = ("_limit", "_log")

    def __init__(self, log: ProgramLog, limit: int | None) -> None:
        self._log = log
        self._limit = None if limit is None else BurstLimit(limit, self._sum_up)

    @property
    def hears_routine(self) -> bool:
        """Whether what goes as it should is written down."""
        return self._log.writes("debug")

    def __call__(self, report: Report) -> None:
        """Take a report; raise nothing, or this would be taken off the stream."""
        try:
            level = _LEVELS.get(type(report)) or _level(report)
            if level != "debug" or self._log.writes(level):
                limit = self._limit
                event = report.event
                if limit is None or limit.admits(level, event, report.path, report.time):
                    self._log.write(level, event, **_fields(report))
            if type(report) is SupervisorStopped and not report.supervisor:  # the last of a tree
                if self._limit is not None:
                    self._limit.finish(report.time)
                self._log.finish()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - there may be no memory, for one
            with suppress(Exception):
                self._log.lose(error, report.event, {"path": report.path})

    def _sum_up(self, kind: RecordKind, seconds: float) -> None:
        first = next(iter(kind.hidden))
        about = {_who(kind.event): first} if len(kind.hidden) == 1 else {"paths": len(kind.hidden)}
        what = f"{kind.event}: +{kind.more:,} more in {seconds:g} s"
        self._log.write(kind.level, what, **about, more=kind.more, seconds=seconds)


def _level(report: Report) -> str:
    """Return the level of a report whose class alone does not tell it."""
    return "debug" if getattr(report, "context", None) is None else "error"


def _who(event: str) -> str:
    """Return the name of an event's subject."""
    return "child" if event.startswith("child.") else "supervisor"


def _fields(report: Report) -> dict[str, Any]:
    fields: dict[str, Any] = {_who(report.event): report.path}
    if report.incarnation:
        fields |= {"incarnation": report.incarnation, "restarts": report.restarts}
    reason = getattr(report, "reason", None)
    if reason is not None:
        fields["reason"] = text_of(reason, 2 * TEXT_LIMIT)  # of a failure deep below it is long
    context = getattr(report, "context", None)
    if context is not None:
        fields["context"] = context.value
        if isinstance(reason, Crashed):
            fields["exc_info"] = reason.error
    match report:
        case SupervisorGaveUp():
            fields["child"] = report.child
        case ChildRestarting():
            fields["delay"] = round(report.delay, 3)
        case ChildAbandoned():
            fields |= {"what": report.what, "stack": "\n".join(report.stack)}
            if report.name:
                fields["task"] = report.name
        case MessageUnhandled():
            fields["unhandled"] = report.message
        case MailboxGrown():
            fields |= {"waiting": report.waiting, "dropped": report.dropped}
        case HookFailed():
            fields |= {"hook": report.hook, "exc_info": report.error}
        case _:
            pass
    return fields
