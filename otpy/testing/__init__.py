"""Tools for tests of a supervision tree.

A clock that never makes a test wait, faults, simulation, and assertions in the words of the
domain. The pytest plugin `otpy.testing.plugin` adds the fixtures `mock_clock`,
`supervisor_tree` and `start_supervised`, and the markers `otpy` and `otpy_simulate`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otpy.testing import faults
    from otpy.testing.clock import MockClock
    from otpy.testing.drawing import assert_tree
    from otpy.testing.fault_plan import FaultPlan
    from otpy.testing.faults import Fault
    from otpy.testing.injection import Injected
    from otpy.testing.plan_block import FaultImpossible, Hit
    from otpy.testing.promises import PromiseBroken
    from otpy.testing.recording import Recording, assert_reports
    from otpy.testing.restarted import assert_restarted
    from otpy.testing.schedule import NoProgress
    from otpy.testing.settling import NotSettled, settled
    from otpy.testing.simulated_loop import SeededClock
    from otpy.testing.simulation import Simulation, SimulationFailed, explore, simulate
    from otpy.testing.trees import StartChild, StartTree
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
    "NotSettled",
    "PromiseBroken",
    "Recording",
    "SeededClock",
    "Simulation",
    "SimulationFailed",
    "StartChild",
    "StartTree",
    "VirtualLoop",
    "assert_reports",
    "assert_restarted",
    "assert_tree",
    "explore",
    "faults",
    "settled",
    "simulate",
]

_HOMES = {
    "Deadlock": "virtual_loop",
    "Fault": "faults",
    "FaultImpossible": "plan_block",
    "FaultPlan": "fault_plan",
    "Hit": "plan_block",
    "Injected": "injection",
    "MockClock": "clock",
    "NoProgress": "schedule",
    "NotSettled": "settling",
    "PromiseBroken": "promises",
    "Recording": "recording",
    "SeededClock": "simulated_loop",
    "Simulation": "simulation",
    "SimulationFailed": "simulation",
    "StartChild": "trees",
    "StartTree": "trees",
    "VirtualLoop": "virtual_loop",
    "assert_reports": "recording",
    "assert_restarted": "restarted",
    "assert_tree": "drawing",
    "explore": "simulation",
    "settled": "settling",
    "simulate": "simulation",
}


if not TYPE_CHECKING:
    # Late, because pytest loads our plugin, and this package with it, in every project that has
    # otpy installed: also where the extra `test`, and with it time-machine, is not.
    def __getattr__(name: str) -> object:
        if name == "faults":
            return importlib.import_module(f"{__name__}.faults")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
