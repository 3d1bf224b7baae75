"""Drives workflows as children of the tree, with real workers, work trees and gates."""

from __future__ import annotations

from otpy_agents.engine.server.site import EngineSettings as EngineSettings
