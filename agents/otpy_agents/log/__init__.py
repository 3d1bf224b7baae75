"""The event log: what happened, in order, for ever; and what it comes to.

| you want | you use |
|---|---|
| to say what can happen | `event_type` |
| to write it down, and read it | `EventLog`, `Append`, `Stored` |
| to know what it comes to | `Projection`, `Difference` |
| to know where it lies | `log_beside` |
| to check lines that were exported | `verified` |
"""

from __future__ import annotations

from otpy_agents.log.chain import verified as verified
from otpy_agents.log.event_log import Append as Append
from otpy_agents.log.event_log import EventLog as EventLog
from otpy_agents.log.projection import Difference as Difference
from otpy_agents.log.projection import Projection as Projection
from otpy_agents.log.stored import Stored as Stored
from otpy_agents.log.tables import log_beside as log_beside
from otpy_agents.log.types import event_type as event_type

__all__ = [
    "Append",
    "Difference",
    "EventLog",
    "Projection",
    "Stored",
    "event_type",
    "log_beside",
    "verified",
]
