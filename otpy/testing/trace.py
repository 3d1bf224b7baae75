"""The record of a simulation as text, free of all that differs from process to process."""

from __future__ import annotations

from collections.abc import Iterable

from otpy._core.reason import Crashed
from otpy.reports import Report
from otpy.testing.schedule import Entry


def lines_of(record: Iterable[Entry]) -> tuple[str, ...]:
    """Return one line per step and report, each with its moment in seconds."""
    now = 0.0
    lines: list[str] = []
    for entry in record:
        if isinstance(entry, float):
            now = entry
        elif isinstance(entry, Report):
            lines.append(f"{now:.9g} {_told(entry)}")
        else:
            lines.append(f"{now:.9g} step {entry}")
    return tuple(lines)


def _told(report: Report) -> str:
    """Leave out messages of exceptions: they may hold addresses, and differ between versions."""
    text = f"{report.event} {report.path} {report.incarnation}"
    reason = getattr(report, "reason", None)
    if reason is None:
        return text
    error = reason.error if isinstance(reason, Crashed) else None
    return f"{text} {type(reason).__name__}" + (f" {type(error).__name__}" if error else "")
