"""Circuit breakers: an agent that keeps failing at a kind of step is left alone (ENG-04, ENG-05).

`circuit` decides and does nothing; `store` keeps circuits in the event log, for all processes.
"""

from __future__ import annotations

from otpy_agents.engine.circuits.circuit import Circuit as Circuit
from otpy_agents.engine.circuits.circuit import CircuitKey as CircuitKey
from otpy_agents.engine.circuits.circuit import CircuitRules as CircuitRules
from otpy_agents.engine.circuits.circuit import CircuitState as CircuitState
from otpy_agents.engine.circuits.store import CIRCUITS as CIRCUITS
from otpy_agents.engine.circuits.store import CIRCUITS_FILE as CIRCUITS_FILE
from otpy_agents.engine.circuits.store import CircuitChanged as CircuitChanged
from otpy_agents.engine.circuits.store import CircuitStore as CircuitStore

__all__ = [
    "CIRCUITS",
    "CIRCUITS_FILE",
    "Circuit",
    "CircuitChanged",
    "CircuitKey",
    "CircuitRules",
    "CircuitState",
    "CircuitStore",
]
