"""What a test of a supervision tree needs: a clock that never makes anybody wait."""

from __future__ import annotations

from otpy.testing import faults
from otpy.testing.clock import MockClock
from otpy.testing.fault_plan import FaultPlan
from otpy.testing.faults import Fault
from otpy.testing.injection import FaultImpossible, Hit, Injected
from otpy.testing.promises import PromiseBroken
from otpy.testing.schedule import NoProgress
from otpy.testing.simulated_loop import SeededClock
from otpy.testing.simulation import Simulation, SimulationFailed, explore, simulate
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
    "VirtualLoop",
    "explore",
    "faults",
    "simulate",
]
