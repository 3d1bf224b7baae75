"""Context: the prompt of a worker, packed within the budget of its role (ENG-20 to ENG-23)."""

from __future__ import annotations

from otpy_agents.engine.context.packer import ContextPacker
from otpy_agents.engine.context.prompt import pack
from otpy_agents.engine.context.repomix import Repomix
from otpy_agents.engine.context.values import (
    ContextRequest,
    ContextSection,
    ContextSource,
    PackedContext,
    Part,
    PartKind,
)
from otpy_agents.engine.context.work_tree import read_work_tree

__all__ = [
    "ContextPacker",
    "ContextRequest",
    "ContextSection",
    "ContextSource",
    "PackedContext",
    "Part",
    "PartKind",
    "Repomix",
    "pack",
    "read_work_tree",
]
