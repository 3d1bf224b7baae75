"""When several agents of one group fail together, the group has gone wrong, not each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import final

from attrs import evolve, field, frozen

from otpy_agents.errors import InvalidGang

__all__ = ["Gang", "GangAction", "GangWatch"]


class GangAction(StrEnum):
    """What follows when a group has gone wrong (TREE-31)."""

    RESTART = "restart"
    """All of its agents that still work are restarted, as by `one_for_all`."""
    ASK = "ask"
    """All of them are paused, and a person decides."""


@final
@frozen(kw_only=True)
class Gang:
    """A group of agents, as it is declared.

    Attributes:
        name: Its name.
        failures: How many *different* members must fail within `within`; one that fails again and
            again is a matter of its own restart window.
        within: Seconds.
        action: What follows.

    Raises:
        InvalidGang: One of these can never work.
    """

    name: str
    failures: int = 2
    within: float = 300.0
    action: GangAction = field(default=GangAction.ASK, converter=GangAction)

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        if not self.name.strip():
            raise InvalidGang("name", repr(self.name), "a name")
        if self.failures < 2:  # noqa: PLR2004 - one is not a group
            raise InvalidGang("failures", repr(self.failures), "a whole number from 2")
        if not 0 < self.within < math.inf:
            raise InvalidGang("within", repr(self.within), "seconds above 0")


def _sealed(failed: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(failed))


@final
@frozen
class GangWatch:
    """What is known of the failures of one group; a value.

    Attributes:
        gang: The group.
        failed: When each member failed last, by its name; only those within the window.
    """

    gang: Gang
    failed: Mapping[str, float] = field(factory=dict[str, float], converter=_sealed)

    def fail(self, member: str, now: float) -> tuple[GangWatch, tuple[str, ...]]:
        """Take a failure.

        Args:
            member: Who failed.
            now: Seconds of any one clock.

        Returns:
            The watch from now on, and the members that failed together; empty as long as they are
            too few. Returned members are forgotten, so that the group is judged once for them.
        """
        oldest = now - self.gang.within
        failed = {name: at for name, at in self.failed.items() if at > oldest and name != member}
        failed[member] = now
        if len(failed) < self.gang.failures:
            return evolve(self, failed=failed), ()
        return evolve(self, failed={}), tuple(failed)
