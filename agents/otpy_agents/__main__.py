"""`python -m otpy_agents` is the command `otpy-agents`."""

from __future__ import annotations

from otpy_agents.entry import main

main()
