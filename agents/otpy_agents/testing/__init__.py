"""Scripted agents: trees of agents in virtual time, and without a CLI.

| you want | you use |
|---|---|
| an agent that does what you wrote down | `Script` of `Say`, `UseTool`, `Succeed` … |
| to have it played | `ScriptedSandbox`, given to a `Workplace` or a `RunHost` |
| ledgers and stores that bear virtual time | `memory_stores` |
"""

from __future__ import annotations

from otpy_agents.testing.memory import memory_stores as memory_stores
from otpy_agents.testing.sandbox import Played as Played
from otpy_agents.testing.sandbox import ScriptedSandbox as ScriptedSandbox
from otpy_agents.testing.script import Ask as Ask
from otpy_agents.testing.script import Crash as Crash
from otpy_agents.testing.script import Do as Do
from otpy_agents.testing.script import ExitWith as ExitWith
from otpy_agents.testing.script import Fail as Fail
from otpy_agents.testing.script import Hang as Hang
from otpy_agents.testing.script import Say as Say
from otpy_agents.testing.script import Script as Script
from otpy_agents.testing.script import Spend as Spend
from otpy_agents.testing.script import Step as Step
from otpy_agents.testing.script import Succeed as Succeed
from otpy_agents.testing.script import UseTool as UseTool
from otpy_agents.testing.script import Write as Write

__all__ = [
    "Ask",
    "Crash",
    "Do",
    "ExitWith",
    "Fail",
    "Succeed",
    "Hang",
    "Played",
    "Say",
    "Script",
    "ScriptedSandbox",
    "Spend",
    "Step",
    "UseTool",
    "Write",
    "memory_stores",
]
