"""The work of agents: a git work tree for each assignment, kept or put away on restart."""

from __future__ import annotations

from otpy_agents.workspace.claims import ChangesetOwner as ChangesetOwner
from otpy_agents.workspace.fates import FATES as FATES
from otpy_agents.workspace.fates import Fate as Fate
from otpy_agents.workspace.fates import FateRule as FateRule
from otpy_agents.workspace.fates import Fates as Fates
from otpy_agents.workspace.place import Changeset as Changeset
from otpy_agents.workspace.snapshot import StepChanges as StepChanges
from otpy_agents.workspace.step_place import StepTree as StepTree
from otpy_agents.workspace.step_repository import AppliedStep as AppliedStep
from otpy_agents.workspace.step_trees import StepTrees as StepTrees
from otpy_agents.workspace.worktrees import Changesets as Changesets
from otpy_agents.workspace.worktrees import Discarded as Discarded

__all__ = [
    "FATES",
    "AppliedStep",
    "Changeset",
    "Changesets",
    "Discarded",
    "Fate",
    "FateRule",
    "Fates",
    "StepChanges",
    "StepTree",
    "StepTrees",
    "ChangesetOwner",
]
