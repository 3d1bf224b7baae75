"""Workers as operating system processes: their start, their output and their certain end."""

from __future__ import annotations

from otpy_agents.run.marker import attempt_marker as attempt_marker
from otpy_agents.run.marker import list_marker as list_marker
from otpy_agents.run.marker import worker_environment as worker_environment
from otpy_agents.run.orphans import Orphan as Orphan
from otpy_agents.run.orphans import Recorded as Recorded
from otpy_agents.run.process import ExitStatus as ExitStatus
from otpy_agents.run.process import WorkerProcess as WorkerProcess
from otpy_agents.run.process import spawn as spawn

__all__ = [
    "ExitStatus",
    "Orphan",
    "Recorded",
    "WorkerProcess",
    "attempt_marker",
    "list_marker",
    "spawn",
    "worker_environment",
]
