"""The tables of the store of runs. All times are Unix seconds."""

from __future__ import annotations

from typing import Final

from otpy_agents.store.kind import FileKind

__all__ = ["RUNS"]

_TABLES: Final = """
CREATE TABLE host (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pid INTEGER NOT NULL, create_time REAL NOT NULL,
    socket TEXT NOT NULL DEFAULT '',
    started REAL NOT NULL, ended REAL
);
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    host INTEGER NOT NULL REFERENCES host (id),
    fence INTEGER NOT NULL DEFAULT 1,
    version INTEGER NOT NULL, state TEXT NOT NULL,
    status TEXT NOT NULL, agent TEXT NOT NULL, prompt TEXT NOT NULL, cwd TEXT NOT NULL,
    label TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, changed REAL NOT NULL, finished REAL, exit_code INTEGER
);
CREATE INDEX run_unfinished ON run (host) WHERE finished IS NULL;
CREATE INDEX run_label ON run (label) WHERE label != '';
CREATE TABLE attempt (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    agent TEXT NOT NULL, identity TEXT,
    started REAL NOT NULL, ended REAL, outcome TEXT,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE cooldown (
    agent_cli TEXT NOT NULL, credential TEXT NOT NULL,
    until REAL NOT NULL, reason TEXT NOT NULL,
    told REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_cli, credential)
) WITHOUT ROWID;
CREATE TABLE cursor (name TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
"""

_TOLD: Final = """
ALTER TABLE cooldown ADD COLUMN told REAL NOT NULL DEFAULT 0;
"""
"""Since version 2: when a cooldown was told, or ended before its time."""

_NO_COMMANDS: Final = """
DROP TABLE IF EXISTS command;
"""
"""Since version 3: what operators told hosts stands in the event log."""

RUNS: Final = FileKind(
    noun="a store of runs",
    application=0x6F747072,  # "otpr"
    newest=3,
    tables=_TABLES,
    mode=0o600,
    upgrades={1: _TOLD, 2: _NO_COMMANDS},
)
