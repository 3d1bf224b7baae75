"""Events and projections as a program has them, for tests of the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen

from otpy_agents.log import Append, EventLog, Projection, Stored, event_type


@event_type("step_started")
@frozen(kw_only=True)
class StepStarted:
    """A step began."""

    step_id: str
    task: str
    role: str | None = None


@event_type(
    "step_completed",
    version=3,
    upcasters={
        1: lambda fields: {**fields, "files": [fields["file"]], "role": None},
        2: lambda fields: {"workflow_id": None} | {k: fields[k] for k in fields if k != "file"},
    },
)
@frozen(kw_only=True)
class StepCompleted:
    """A step ended; older versions knew one file."""

    step_id: str
    status: str
    files: tuple[str, ...] = ()
    role: str | None = None
    workflow_id: str | None = None


@event_type("step_completed")
@frozen(kw_only=True)
class OldCompleted:
    """Its first version."""

    step_id: str
    status: str
    file: str


@event_type("noted")
@frozen(kw_only=True)
class OtherNoted:
    """The same event as another program declares it."""

    lines: int


@event_type("noted")
@frozen(kw_only=True)
class Noted:
    """An event that no projection folds."""

    text: str
    number: float = 0.0


TYPES = (StepStarted, StepCompleted, Noted)


def _fold(row: Any, event: Stored) -> dict[str, Any] | None:
    if event.fields.get("status") == "forgotten":
        return None
    seen = 0 if row is None else row["events"]
    return {"status": event.fields.get("status", "running"), "events": seen + 1}


STEPS = Projection(
    name="steps",
    columns={"status": "TEXT", "events": "INTEGER"},
    key=lambda event: event.fields.get("step_id"),
    fold=_fold,
)


def log_at(
    path: Path, *, clock: Callable[[], float] = lambda: 1000.0, clean: Callable[[str], str] = str
) -> EventLog:
    """Return a log, not entered yet."""
    return EventLog(path, types=TYPES, projections=[STEPS], clock=clock, clean=clean)


def started(step: str) -> StepStarted:
    """Return an event."""
    return StepStarted(step_id=step, task="work")


def completed(step: str, status: str = "success") -> StepCompleted:
    """Return an event."""
    return StepCompleted(step_id=step, status=status)


def to(stream: str, *events: object, expected: int | None = None) -> Append:
    """Return an append."""
    return Append(stream, events, expected)


def sql(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Change the file as another program could; return the rows of the last statement."""
    found: list[tuple[Any, ...]] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            found = database.execute(statement).fetchall()
    return found
