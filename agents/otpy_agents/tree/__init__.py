"""The work list, the tree that works on it, and what outlives the agents in it."""

from __future__ import annotations

from otpy_agents.tree.app import app_supervisor as app_supervisor
from otpy_agents.tree.assignment import Assignment as Assignment
from otpy_agents.tree.assignment import Expectation as Expectation
from otpy_agents.tree.assignment import Role as Role
from otpy_agents.tree.assignment import WorkList as WorkList
from otpy_agents.tree.changesets import Changeset as Changeset
from otpy_agents.tree.changesets import Changesets as Changesets
from otpy_agents.tree.changesets import Fate as Fate
from otpy_agents.tree.changesets import FateRule as FateRule
from otpy_agents.tree.changesets import Fates as Fates
from otpy_agents.tree.jake import jake_supervisor as jake_supervisor
from otpy_agents.tree.pool import MortalPool as MortalPool
from otpy_agents.tree.preflight import Needs as Needs
from otpy_agents.tree.project import Project as Project
from otpy_agents.tree.sessions import Context as Context
from otpy_agents.tree.sessions import FileSessions as FileSessions
from otpy_agents.tree.sessions import SessionStore as SessionStore
from otpy_agents.tree.sessions import SqliteSessions as SqliteSessions
from otpy_agents.tree.sessions import StoredSession as StoredSession

__all__ = [
    "Assignment",
    "Changeset",
    "Changesets",
    "Context",
    "Expectation",
    "Fate",
    "FateRule",
    "Fates",
    "FileSessions",
    "MortalPool",
    "Needs",
    "Project",
    "Role",
    "SessionStore",
    "SqliteSessions",
    "StoredSession",
    "WorkList",
    "app_supervisor",
    "jake_supervisor",
]
