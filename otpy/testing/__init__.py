"""What a test of a supervision tree needs: a clock that never makes anybody wait.

The pytest plugin `otpy.testing.plugin` adds the fixtures `mock_clock` and `supervisor_tree`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otpy.testing.clock import MockClock
    from otpy.testing.trees import StartTree
    from otpy.testing.virtual_loop import Deadlock, VirtualLoop

__all__ = ["Deadlock", "MockClock", "StartTree", "VirtualLoop"]

_HOMES = {
    "Deadlock": "virtual_loop",
    "MockClock": "clock",
    "StartTree": "trees",
    "VirtualLoop": "virtual_loop",
}


if not TYPE_CHECKING:
    # Late, because pytest loads our plugin, and this package with it, in every project that has
    # otpy installed: also where the extra `test`, and with it time-machine, is not.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
