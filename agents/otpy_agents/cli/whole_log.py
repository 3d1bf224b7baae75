"""The event log of a user with all that any program of ours keeps of it."""

from __future__ import annotations

from pathlib import Path

from otpy_agents.control.stores import sqlite as control
from otpy_agents.engine.circuits import CIRCUITS, CircuitChanged
from otpy_agents.engine.events import ENGINE_EVENTS
from otpy_agents.engine.projections import PROJECTIONS
from otpy_agents.log import EventLog
from otpy_agents.log.commands import COMMANDS, CommandAnswered, CommandGiven

__all__ = ["whole_log"]


def whole_log(path: Path, *, looks: bool) -> EventLog:
    """Return a log with every table that its events come to.

    Args:
        path: Of the file.
        looks: Whether nothing is to be changed.
    """
    types = (CommandGiven, CommandAnswered, *control.EVENTS, *ENGINE_EVENTS, CircuitChanged)
    tables = (COMMANDS, control.PROJECTS, control.QUEUES, *PROJECTIONS, CIRCUITS)
    return EventLog(path, types=types, projections=tables, looks=looks)
