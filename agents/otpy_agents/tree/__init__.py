"""The work list and the tree that works on it."""

from __future__ import annotations

from otpy_agents.tree.app import app_supervisor as app_supervisor
from otpy_agents.tree.assignment import Assignment as Assignment
from otpy_agents.tree.assignment import Expectation as Expectation
from otpy_agents.tree.assignment import Role as Role
from otpy_agents.tree.assignment import WorkList as WorkList
from otpy_agents.tree.jake import jake_supervisor as jake_supervisor
from otpy_agents.tree.pool import MortalPool as MortalPool
from otpy_agents.tree.project import Project as Project

__all__ = [
    "Assignment",
    "Expectation",
    "MortalPool",
    "Project",
    "Role",
    "WorkList",
    "app_supervisor",
    "jake_supervisor",
]
