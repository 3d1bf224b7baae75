"""What all errors of `otpy_agents` have in common."""

from __future__ import annotations

from otpy import OtpyError

__all__ = [
    "AgentsError",
]


class AgentsError(OtpyError):
    """Root of the errors of `otpy_agents`; catch this to catch them all."""
