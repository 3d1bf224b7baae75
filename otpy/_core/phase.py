"""Where a supervisor is in its life."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """Where a supervisor is in its life."""

    STARTING = "starting"
    """The initial children are being started, in order."""
    RUNNING = "running"
    """It serves; a restart or a request may be in progress."""
    STOPPING = "stopping"
    """Everything is being stopped; nothing will be started any more."""
    ENDED = "ended"
    """Nothing runs; `Finish` has been emitted."""
