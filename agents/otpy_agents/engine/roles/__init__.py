"""Roles: a worker's instructions, its context, and its gates (ENG-24 to ENG-26)."""

from __future__ import annotations

from otpy_agents.engine.roles.book import RoleBook, load_roles, read_roles, role_texts
from otpy_agents.engine.roles.role import (
    VARIABLES,
    ContextRules,
    GateUse,
    OnFail,
    Origin,
    RoleConfig,
    WorkerRole,
)

__all__ = [
    "VARIABLES",
    "ContextRules",
    "GateUse",
    "OnFail",
    "Origin",
    "WorkerRole",
    "RoleBook",
    "RoleConfig",
    "load_roles",
    "read_roles",
    "role_texts",
]
