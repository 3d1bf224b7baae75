"""The report hook that logs through structlog. The only module that logs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

from otpy._core.reason import Crashed
from otpy.reports import (
    ChildAbandoned,
    ChildGaveUp,
    ChildRestarting,
    HookFailed,
    MessageUnhandled,
    SupervisorGaveUp,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy.reports import Report


def log_reports(logger: Any = None) -> Callable[[Report], None]:
    """Return a report hook that writes each report as one structlog event.

    Event names are those of the reports (`child.started`, `supervisor.gave_up` …), the keys are
    `child` or `supervisor` (a path), `incarnation`, `restarts`, `reason`, and `context` where OTP
    would have written an error report. What went wrong is logged at error level, with the
    traceback if there is one; restarts and unhandled messages as warnings; the rest at debug level.

    Args:
        logger: A structlog logger. The default is the one that the program has configured, or, if
            it has configured none, `console_logger()`.
    """
    log = program_logger(logger)

    def write(report: Report) -> None:
        kind, _, _ = report.event.partition(".")
        fields: dict[str, Any] = {"child" if kind == "child" else "supervisor": report.path}
        if report.incarnation:
            fields |= {"incarnation": report.incarnation, "restarts": report.restarts}
        reason = getattr(report, "reason", None)
        if reason is not None:
            fields["reason"] = str(reason)
        getattr(log, _level(report))(report.event, **fields, **_extra(report, reason))

    return write


def program_logger(logger: Any = None) -> Any:
    """Return `logger`; if that is None, what the program has configured, or `console_logger()`."""
    if logger is not None:
        return logger
    return structlog.get_logger("otpy") if structlog.is_configured() else console_logger()


def console_logger(*, verbose: bool = False) -> Any:
    """Return a structlog logger that writes to stderr, one line an event, tracebacks as Python's.

    In a program that was started without a stderr (a daemon, say) it writes nothing.

    Args:
        verbose: Whether debug events, such as each start, are written too.
    """
    level = logging.DEBUG if verbose else logging.INFO
    stderr: Any = sys.stderr  # None in a program that was started without one
    return structlog.wrap_logger(
        structlog.ReturnLogger() if stderr is None else structlog.PrintLogger(stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S"),
            structlog.dev.ConsoleRenderer(
                colors=stderr is not None and stderr.isatty(),
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )


def _level(report: Report) -> str:
    bad = SupervisorGaveUp | ChildGaveUp | ChildAbandoned | HookFailed
    if isinstance(report, bad) or getattr(report, "context", None) is not None:
        return "error"
    return "warning" if isinstance(report, ChildRestarting | MessageUnhandled) else "debug"


def _extra(report: Report, reason: object) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    context = getattr(report, "context", None)
    if context is not None:
        extra["context"] = context.value
        if isinstance(reason, Crashed):
            extra["exc_info"] = reason.error
    match report:
        case SupervisorGaveUp():
            extra["child"] = report.child
        case ChildRestarting():
            extra["delay"] = round(report.delay, 3)
        case ChildAbandoned():
            extra |= {"what": report.what, "stack": report.stack}
        case MessageUnhandled():
            extra["message"] = report.message
        case HookFailed():
            extra |= {"hook": report.hook, "exc_info": report.error}
        case _:
            pass
    return extra
