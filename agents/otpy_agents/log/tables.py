"""The tables of an event log. `events` is a public contract: any SQLite program may read it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from otpy_agents.store.kind import FileKind

__all__ = ["LOG", "log_beside"]

# A trigger's own semicolons would be taken for ends of statements, if a new line followed.
_TABLES: Final = """
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL, version INTEGER NOT NULL,
    event_type TEXT NOT NULL, schema INTEGER NOT NULL,
    timestamp REAL NOT NULL,
    workflow_id TEXT, role TEXT, step_id TEXT, component TEXT, status TEXT,
    payload TEXT NOT NULL, actor TEXT NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (stream, version)
);
CREATE INDEX events_of_workflow ON events (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX events_of_step ON events (step_id) WHERE step_id IS NOT NULL;
CREATE INDEX events_by_time ON events (timestamp);
CREATE TABLE archived (
    position INTEGER PRIMARY KEY, stream TEXT NOT NULL, version INTEGER NOT NULL,
    hash BLOB NOT NULL, file TEXT NOT NULL
);
CREATE INDEX archived_streams ON archived (stream, version);
CREATE TABLE projections (
    name TEXT PRIMARY KEY, version INTEGER NOT NULL, position INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM archived WHERE position = OLD.position AND hash = OLD.hash)
BEGIN SELECT RAISE(ABORT, 'events are deleted only when they are archived'); END;
CREATE TRIGGER events_come_last BEFORE INSERT ON events
WHEN NEW.position IS NOT (SELECT seq + 1 FROM (
    SELECT max(seq) AS seq FROM (
        SELECT seq FROM sqlite_sequence WHERE name = 'events' UNION ALL SELECT 0)))
BEGIN SELECT RAISE(ABORT, 'events are appended at the end'); END;
CREATE TRIGGER versions_come_last BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND version >= NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are appended at the end of their stream'); END;
CREATE TRIGGER archived_never_changes BEFORE UPDATE ON archived
BEGIN SELECT RAISE(ABORT, 'what is known of archived events is never changed'); END;
CREATE TRIGGER archived_stays BEFORE DELETE ON archived
BEGIN SELECT RAISE(ABORT, 'what is known of archived events is never deleted'); END;
"""

LOG: Final = FileKind(
    noun="an event log",
    application=0x6F74706C,  # "otpl"
    newest=1,
    tables=_TABLES,
    mode=0o600,
    put_back=False,  # two that were written to apart cannot be made one
    sound=False,
)


def log_beside(state: Path) -> Path:
    """Return the event log of a user, beside the store of runs: one for each state folder."""
    return state.with_name("events.sqlite3")
