"""The records of work, its processes and its outcome: of a work list, and of all runs of a user."""

from __future__ import annotations

from otpy_agents.store.cooldowns import Cooldowns as Cooldowns
from otpy_agents.store.hosts import STATE_VARIABLE as STATE_VARIABLE
from otpy_agents.store.hosts import HostRecord as HostRecord
from otpy_agents.store.hosts import default_state as default_state
from otpy_agents.store.ledger import Ledger as Ledger
from otpy_agents.store.records import AssignmentRecord as AssignmentRecord
from otpy_agents.store.records import State as State
from otpy_agents.store.records import WorkerRecord as WorkerRecord
from otpy_agents.store.redaction import Redaction as Redaction
from otpy_agents.store.run_records import AttemptBegun as AttemptBegun
from otpy_agents.store.run_records import AttemptEnded as AttemptEnded
from otpy_agents.store.run_records import CooldownRecord as CooldownRecord
from otpy_agents.store.run_records import Lease as Lease
from otpy_agents.store.run_records import RunRecord as RunRecord
from otpy_agents.store.run_records import StoredAttempt as StoredAttempt
from otpy_agents.store.run_records import StoredRun as StoredRun
from otpy_agents.store.run_records import new_run_id as new_run_id
from otpy_agents.store.runs import RunStore as RunStore

__all__ = [
    "AssignmentRecord",
    "AttemptBegun",
    "AttemptEnded",
    "WorkerRecord",
    "CooldownRecord",
    "Cooldowns",
    "HostRecord",
    "Lease",
    "Ledger",
    "Redaction",
    "RunRecord",
    "RunStore",
    "STATE_VARIABLE",
    "State",
    "StoredAttempt",
    "StoredRun",
    "default_state",
    "new_run_id",
]
