"""Drives the loop of a project as a child of the tree, with real agents, files and commands."""

from __future__ import annotations

from otpy_agents.control.server.project import ControlProject as ControlProject
from otpy_agents.control.server.projects import ControlProjects as ControlProjects
from otpy_agents.control.server.projects import open_projects as open_projects
from otpy_agents.control.server.settings import ControlSettings as ControlSettings
