"""The event log: all events in order, for ever; and the state that follows from them.

| you want | you use |
|---|---|
| to say what can happen | `event_type` |
| to write it down, and read it | `EventLog`, `Append`, `Stored` |
| to write for any log, in SQLite or not | `EventStore` |
| to tell what happens, and never wait | `Teller`, `run_stream`, `list_stream` |
| to write commands of operators down | `CommandLog`, `GivenCommand` |
| to know what it comes to | `Projection`, `Difference` |
| to use the log of a user | `log_beside`, `users_log` |
| to check lines that were exported | `verified` |
"""

from __future__ import annotations

from otpy_agents.log.chain import verified as verified
from otpy_agents.log.commands import CommandLog as CommandLog
from otpy_agents.log.commands import GivenCommand as GivenCommand
from otpy_agents.log.commands import list_stream as list_stream
from otpy_agents.log.commands import run_stream as run_stream
from otpy_agents.log.commands import users_log as users_log
from otpy_agents.log.event import Append as Append
from otpy_agents.log.event import Stored as Stored
from otpy_agents.log.event_log import EventLog as EventLog
from otpy_agents.log.event_store import EventStore as EventStore
from otpy_agents.log.projection import Difference as Difference
from otpy_agents.log.projection import Projection as Projection
from otpy_agents.log.tables import log_beside as log_beside
from otpy_agents.log.teller import Teller as Teller
from otpy_agents.log.types import event_type as event_type

__all__ = [
    "Append",
    "CommandLog",
    "Difference",
    "EventLog",
    "EventStore",
    "GivenCommand",
    "Projection",
    "Stored",
    "Teller",
    "event_type",
    "log_beside",
    "list_stream",
    "run_stream",
    "users_log",
    "verified",
]
