"""The host of runs: performs decisions, stores them, and tells about them.

It tells the values of `otpy_agents.run.host.facts`.
"""

from __future__ import annotations

from otpy_agents.run.host.handle import RunHandle as RunHandle
from otpy_agents.run.host.host import RunHost as RunHost
from otpy_agents.run.host.host import run_host as run_host
from otpy_agents.run.host.order import RunOrder as RunOrder
from otpy_agents.run.host.order import SandboxChoice as SandboxChoice

__all__ = [
    "RunHandle",
    "RunHost",
    "RunOrder",
    "SandboxChoice",
    "run_host",
]
