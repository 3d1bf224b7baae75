"""Drives workflows as children of the tree, with real workers, work trees and gates."""

from __future__ import annotations

from otpy_agents.engine.server.engine import Engine as Engine
from otpy_agents.engine.server.engine import open_engine as open_engine
from otpy_agents.engine.server.site import EngineSettings as EngineSettings
