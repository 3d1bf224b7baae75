"""Where an attempt runs: as a process, in namespaces, or in a container.

`DockerSandbox` is in `otpy_agents.sandbox.docker`, so that nobody else waits for the import of
an HTTP client.
"""

from __future__ import annotations

from otpy_agents.sandbox.behaviour import ContainerIdentity as ContainerIdentity
from otpy_agents.sandbox.behaviour import Egress as Egress
from otpy_agents.sandbox.behaviour import Ended as Ended
from otpy_agents.sandbox.behaviour import Identity as Identity
from otpy_agents.sandbox.behaviour import Job as Job
from otpy_agents.sandbox.behaviour import LeftOver as LeftOver
from otpy_agents.sandbox.behaviour import Listener as Listener
from otpy_agents.sandbox.behaviour import Mount as Mount
from otpy_agents.sandbox.behaviour import Running as Running
from otpy_agents.sandbox.behaviour import Sandbox as Sandbox
from otpy_agents.sandbox.behaviour import SandboxLimits as SandboxLimits
from otpy_agents.sandbox.bubblewrap import BubblewrapSandbox as BubblewrapSandbox
from otpy_agents.sandbox.process import ProcessSandbox as ProcessSandbox

__all__ = [
    "BubblewrapSandbox",
    "ContainerIdentity",
    "Egress",
    "Ended",
    "Identity",
    "Job",
    "LeftOver",
    "SandboxLimits",
    "Listener",
    "Mount",
    "ProcessSandbox",
    "Running",
    "Sandbox",
]
