"""How a second terminal reaches a host: commands over a unix socket.

```text
otpy-agents runs cancel 0a1b2c3d4e  →  ask(socket, "cancel", run="0a1b2c3d4e")
                                         │ one line of JSON
operator/socket in the host's tree  →  Handler(Command), written down before
                                         │ one line of JSON
the answer, or CommandRefused       ←────┘
```
"""

from __future__ import annotations

from otpy_agents.operator.actor import Actor as Actor
from otpy_agents.operator.actor import actor_of as actor_of
from otpy_agents.operator.client import ask as ask
from otpy_agents.operator.message import Argument as Argument
from otpy_agents.operator.message import CommandRefusal as CommandRefusal
from otpy_agents.operator.server import CommandKeeper as CommandKeeper
from otpy_agents.operator.server import Handler as Handler
from otpy_agents.operator.server import OperatorCommand as OperatorCommand
from otpy_agents.operator.server import operator_supervisor as operator_supervisor

__all__ = [
    "Actor",
    "Argument",
    "OperatorCommand",
    "Handler",
    "CommandKeeper",
    "CommandRefusal",
    "actor_of",
    "ask",
    "operator_supervisor",
]
