"""How far Jake has come with a list."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Effort"]


class Effort(StrEnum):
    """What Jake does about a list."""

    AT_WORK = "at work"
    """He works it off."""
    THROUGH = "through"
    """Nothing is left to do, as far as he knows."""
    GIVEN_UP = "given up"
    """He is not started again to work."""
