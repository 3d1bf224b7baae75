"""The phases of a supervisor's life, and its current activity."""

from __future__ import annotations

from enum import Enum, auto

from otpy._core.enum_cache import cache_members


class Phase(Enum):
    """The phases of a supervisor's life."""

    STARTING = "starting"
    """The initial children are being started, in order."""
    RUNNING = "running"
    """It serves; a restart or a request may be in progress."""
    STOPPING = "stopping"
    """Everything is being stopped; nothing will be started any more."""
    ENDED = "ended"
    """Nothing runs; `Finish` has been emitted."""


class Operation(Enum):
    """The purpose of the agenda in progress."""

    INIT = auto()
    RESTART = auto()
    ADD = auto()
    START_BY_HAND = auto()
    TERMINATE = auto()
    SHUTDOWN = auto()
    """In order, one after the other."""
    AT_ONCE = auto()
    """Ask all of them, and wait for none."""
    KILL = auto()


cache_members(Phase, Operation)
