"""Gates: commands that judge a worker's result; it can neither skip nor change them (ENG-27)."""

from __future__ import annotations

from otpy_agents.engine.gates.cache import GateCache as GateCache
from otpy_agents.engine.gates.cache import cache_folder as cache_folder
from otpy_agents.engine.gates.executor import GateExecutor as GateExecutor
from otpy_agents.engine.gates.executor import gate_commands as gate_commands
from otpy_agents.engine.gates.gate import Gate as Gate
from otpy_agents.engine.gates.gate import GateFailAction as GateFailAction
from otpy_agents.engine.gates.gate import GateResult as GateResult
from otpy_agents.engine.gates.gate import GateSeverity as GateSeverity
from otpy_agents.engine.gates.gate import GateStatus as GateStatus
from otpy_agents.engine.gates.gate_file import GATES_FILE as GATES_FILE
from otpy_agents.engine.gates.gate_file import load_gates as load_gates
from otpy_agents.engine.gates.kept import KeptFiles as KeptFiles
from otpy_agents.engine.gates.kept import outputs_folder as outputs_folder
from otpy_agents.engine.gates.order import gate_stages as gate_stages
from otpy_agents.engine.gates.verdict import GateVerdict as GateVerdict
from otpy_agents.engine.gates.verdict import verdict as verdict

__all__ = [
    "GATES_FILE",
    "Gate",
    "GateCache",
    "GateExecutor",
    "GateFailAction",
    "GateResult",
    "GateSeverity",
    "GateStatus",
    "GateVerdict",
    "KeptFiles",
    "cache_folder",
    "gate_commands",
    "gate_stages",
    "load_gates",
    "outputs_folder",
    "verdict",
]
