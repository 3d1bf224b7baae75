"""What a test of a supervision tree needs: a clock that never makes anybody wait."""

from __future__ import annotations

from otpy.testing.clock import MockClock
from otpy.testing.schedule import NoProgress
from otpy.testing.simulated_loop import SeededClock
from otpy.testing.virtual_loop import Deadlock, VirtualLoop

__all__ = ["Deadlock", "MockClock", "NoProgress", "SeededClock", "VirtualLoop"]
