"""The memory of a work list: what was done, by which process, and how it ended."""

from __future__ import annotations

from otpy_agents.store.ledger import Ledger as Ledger
from otpy_agents.store.records import AssignmentRecord as AssignmentRecord
from otpy_agents.store.records import AttemptRecord as AttemptRecord
from otpy_agents.store.records import State as State
from otpy_agents.store.redaction import Redaction as Redaction

__all__ = ["AssignmentRecord", "AttemptRecord", "Ledger", "Redaction", "State"]
