"""How a mortal is supervised: transient, with a restart window of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otpy import Backoff, ChildSpec, Intensity, Restart
from otpy.specs import GIVE_UP
from otpy_agents.agent.life import agent_life
from otpy_agents.agent.mortal import mortal
from otpy_agents.run.host.attempt import MARGIN
from otpy_agents.worklist.assignment import Assignment, Role

if TYPE_CHECKING:
    from otpy_agents.agent.desk import Desk

__all__ = ["mortal_spec"]

_MARGIN: Final = 5.0
"""Seconds beyond its grace in which a worker's process group is certainly gone."""


def mortal_spec(desk: Desk, assignment: Assignment) -> ChildSpec:
    """Return the spec of the mortal, or drone, that takes `assignment` (TREE-17, TREE-18).

    Transient, with a restart window of its own: when that is used up, this one is reaped and its
    siblings work on.
    """
    if assignment.backoff is not None:
        backoff = Backoff.sequence(*assignment.backoff) if assignment.backoff else Backoff.none()
    elif assignment.role is Role.DRONE:
        backoff = Backoff.none()
    else:
        backoff = Backoff.exponential(2.0, max=60.0)
    # An agent waits for the end of its attempt, which has the margin of attempts.
    more = _MARGIN if assignment.agent is None else MARGIN + _MARGIN
    return ChildSpec(
        assignment.id,
        mortal if assignment.agent is None else agent_life,
        (desk, assignment),
        restart=Restart.TRANSIENT,
        shutdown=assignment.grace + more,
        backoff=backoff,
        intensity=Intensity(assignment.restarts, assignment.within, then=GIVE_UP),
    )
