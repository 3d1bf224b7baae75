"""What a test of a supervision tree needs: a clock that never makes anybody wait, faults, chance.

The pytest plugin `otpy.testing.plugin` adds the fixtures `mock_clock` and `supervisor_tree`, and
the markers `otpy` and `otpy_simulate`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otpy.testing import faults
    from otpy.testing.clock import MockClock
    from otpy.testing.fault_plan import FaultPlan
    from otpy.testing.faults import Fault
    from otpy.testing.injection import FaultImpossible, Hit, Injected
    from otpy.testing.promises import PromiseBroken
    from otpy.testing.schedule import NoProgress
    from otpy.testing.simulated_loop import SeededClock
    from otpy.testing.simulation import Simulation, SimulationFailed, explore, simulate
    from otpy.testing.trees import StartTree
    from otpy.testing.virtual_loop import Deadlock, VirtualLoop

__all__ = [
    "Deadlock",
    "Fault",
    "FaultImpossible",
    "FaultPlan",
    "Hit",
    "Injected",
    "MockClock",
    "NoProgress",
    "PromiseBroken",
    "SeededClock",
    "Simulation",
    "SimulationFailed",
    "StartTree",
    "VirtualLoop",
    "explore",
    "faults",
    "simulate",
]

_HOMES = {
    "Deadlock": "virtual_loop",
    "Fault": "faults",
    "FaultImpossible": "injection",
    "FaultPlan": "fault_plan",
    "Hit": "injection",
    "Injected": "injection",
    "MockClock": "clock",
    "NoProgress": "schedule",
    "PromiseBroken": "promises",
    "SeededClock": "simulated_loop",
    "Simulation": "simulation",
    "SimulationFailed": "simulation",
    "StartTree": "trees",
    "VirtualLoop": "virtual_loop",
    "explore": "simulation",
    "simulate": "simulation",
}


# Late, because pytest loads our plugin, and this package with it, in every project that has otpy
# installed: also where the extra `test`, and with it time-machine, is not.
def __getattr__(name: str) -> object:
    if name == "faults":
        return importlib.import_module(f"{__name__}.faults")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
