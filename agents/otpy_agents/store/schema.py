"""The tables of a work list ledger."""

from __future__ import annotations

from typing import Final

from otpy_agents.store.kind import FileKind, in_seconds

__all__ = ["LEDGER"]

_AGENTS: Final = """
CREATE TABLE agent (
    assignment TEXT PRIMARY KEY,
    state TEXT NOT NULL, why TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE agent_move (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host INTEGER NOT NULL,
    assignment TEXT NOT NULL, at TEXT NOT NULL,
    source TEXT NOT NULL, happening TEXT NOT NULL, target TEXT NOT NULL,
    why TEXT NOT NULL DEFAULT ''
);
CREATE INDEX agent_moves ON agent_move (assignment);
CREATE TABLE document (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
"""
"""Since version 2: where agents stand, and what is kept as one text, such as their budgets."""

_COMMANDS: Final = """
CREATE TABLE command (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host INTEGER NOT NULL, agent TEXT NOT NULL,
    name TEXT NOT NULL, arguments TEXT NOT NULL, actor TEXT NOT NULL,
    at TEXT NOT NULL, answer TEXT
);
"""
"""From version 3 to 6: what operators told a host."""

_FAILURES: Final = """
ALTER TABLE agent ADD COLUMN failures TEXT NOT NULL DEFAULT '{}';
"""
"""Since version 4: how often each failure came to an agent."""

_RUNS: Final = """
ALTER TABLE agent ADD COLUMN run TEXT NOT NULL DEFAULT '';
"""
"""Since version 5: which run of an agent is at work, or has ended and nobody has taken that in."""

_TOLD: Final = """
ALTER TABLE assignment ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE assignment SET told = 1;
"""
"""Since version 6: whether the end of an assignment has been told; before, nobody knows."""

_NO_COMMANDS: Final = """
DROP TABLE IF EXISTS command;
"""
"""Since version 7: that stands in the event log."""

_TABLES: Final = """
CREATE TABLE identity (list_id TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE host (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL, create_time REAL NOT NULL,
    started TEXT NOT NULL, ended TEXT
);
CREATE TABLE assignment (
    id TEXT PRIMARY KEY,
    position INTEGER,
    digest TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', reason TEXT NOT NULL DEFAULT '',
    restarts INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    first_started TEXT, finished TEXT, seconds REAL NOT NULL DEFAULT 0,
    output_bytes INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER, last_line TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE attempt (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host INTEGER NOT NULL REFERENCES host (id),
    assignment TEXT NOT NULL, incarnation INTEGER NOT NULL,
    pid INTEGER, pgid INTEGER, create_time REAL,
    started TEXT NOT NULL, ended TEXT, seconds REAL, reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX attempt_live ON attempt (assignment) WHERE ended IS NULL;
INSERT INTO identity VALUES (
    lower(hex(randomblob(16))), strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')
);
"""

_UNIX: Final = (
    in_seconds("identity", "created", required=True)
    + in_seconds("host", "started", required=True)
    + in_seconds("host", "ended")
    + in_seconds("assignment", "first_started")
    + in_seconds("assignment", "finished")
    + "DROP INDEX attempt_live;\n"
    + in_seconds("attempt", "started", required=True)
    + in_seconds("attempt", "ended")
    + "CREATE INDEX attempt_live ON attempt (assignment) WHERE ended IS NULL;\n"
    + in_seconds("agent_move", "at", required=True)
)
"""Since version 8: moments are Unix seconds; before, they were text."""

_PAUSES: Final = """
ALTER TABLE agent ADD COLUMN pauses TEXT NOT NULL DEFAULT '[]';
ALTER TABLE agent ADD COLUMN reply TEXT NOT NULL DEFAULT '';
"""
"""Since version 9: why an agent rests, and a person's answer that it has not been told."""

LEDGER: Final = FileKind(
    noun="a work list ledger",
    application=0x6F747079,  # "otpy"
    newest=9,
    tables=_TABLES + _AGENTS + _FAILURES + _RUNS + _TOLD + _UNIX + _PAUSES,
    mode=0o600,
    upgrades={
        1: _AGENTS,
        2: _COMMANDS,
        3: _FAILURES,
        4: _RUNS,
        5: _TOLD,
        6: _NO_COMMANDS,
        7: _UNIX,
        8: _PAUSES,
    },
)
