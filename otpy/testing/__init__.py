"""What a test of a supervision tree needs: a clock that nobody waits for, and assertions."""

from __future__ import annotations

from otpy.testing.clock import MockClock
from otpy.testing.drawing import assert_tree
from otpy.testing.recording import Recording, assert_reports
from otpy.testing.restarted import assert_restarted
from otpy.testing.settled import NotSettled, settled
from otpy.testing.virtual_loop import Deadlock, VirtualLoop

__all__ = [
    "Deadlock",
    "MockClock",
    "NotSettled",
    "Recording",
    "VirtualLoop",
    "assert_reports",
    "assert_restarted",
    "assert_tree",
    "settled",
]
