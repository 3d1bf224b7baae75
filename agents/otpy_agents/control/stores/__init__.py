"""Where the state and the queue of a project are kept: one behaviour, two stores."""

from __future__ import annotations

from otpy_agents.control.stores.behaviour import ControlStore as ControlStore
from otpy_agents.control.stores.behaviour import Record as Record
from otpy_agents.control.stores.sqlite import SqliteControl as SqliteControl
