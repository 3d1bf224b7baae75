"""Quick access to the members of an enum."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import Enum


def cache_members(*enums: type[Enum]) -> None:
    """Make the members of `enums` plain attributes of their class, as they are since Python 3.12.

    In Python 3.11 each `Status.RUNNING` runs a function of the standard library, for 100 ns
    instead of 16, and a restart asks for twenty members.
    """
    if sys.version_info < (3, 12):
        for enum in enums:
            for name, member in enum.__members__.items():
                type.__setattr__(enum, name, member)  # the enum's own refuses to replace members
