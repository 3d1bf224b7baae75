"""The sessions of agents, kept across restarts, and the note to a restarted agent."""

from __future__ import annotations

from otpy_agents.store.sessions.behaviour import SessionStore as SessionStore
from otpy_agents.store.sessions.files import FileSessions as FileSessions
from otpy_agents.store.sessions.recovery import Continuation as Continuation
from otpy_agents.store.sessions.recovery import RestartContext as RestartContext
from otpy_agents.store.sessions.recovery import continuation as continuation
from otpy_agents.store.sessions.recovery import recovery_note as recovery_note
from otpy_agents.store.sessions.session import CHECKPOINT_LIMIT as CHECKPOINT_LIMIT
from otpy_agents.store.sessions.session import JSON as JSON
from otpy_agents.store.sessions.session import StoredSession as StoredSession
from otpy_agents.store.sessions.sqlite import SqliteSessions as SqliteSessions

__all__ = [
    "CHECKPOINT_LIMIT",
    "RestartContext",
    "Continuation",
    "FileSessions",
    "JSON",
    "SessionStore",
    "SqliteSessions",
    "StoredSession",
    "continuation",
    "recovery_note",
]
