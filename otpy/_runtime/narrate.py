"""Turns the messages of a machine into the reports that hooks get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy._core.protocol import Fact
from otpy._core.reason import NORMAL
from otpy.reports import (
    ChildExited,
    ChildGaveUp,
    ChildRestarting,
    ChildStarted,
    ChildStartFailed,
    ChildStopped,
    Report,
    SupervisorGaveUp,
    SupervisorStopped,
)

if TYPE_CHECKING:
    from otpy._core.protocol import Tell


def report_of(tell: Tell, supervisor: str, now: float) -> Report:
    """Return the report of `tell`, from the machine of the supervisor at path `supervisor`."""
    fact, child, reason = tell.fact, tell.child, tell.reason or NORMAL
    if child is None:
        return SupervisorStopped(path=supervisor, time=now, reason=reason)
    path = f"{supervisor}/{child.key}"
    life, restarts = tell.incarnation, tell.restarts
    if fact is Fact.STARTED:  # those first that are told most often
        return ChildStarted(path=path, time=now, incarnation=life, restarts=restarts)
    if fact is Fact.RESTARTING:
        return ChildRestarting(
            path=path,
            time=now,
            incarnation=life,
            restarts=restarts,
            reason=reason,
            delay=tell.delay,
        )
    if fact is Fact.GAVE_UP:
        return SupervisorGaveUp(path=supervisor, time=now, child=path, reason=reason)
    if fact is Fact.CHILD_GAVE_UP:
        return ChildGaveUp(path=path, time=now, incarnation=life, restarts=restarts, reason=reason)
    if fact is Fact.EXITED:
        kind: type[ChildStartFailed | ChildExited | ChildStopped] = ChildExited
    else:
        kind = ChildStartFailed if fact is Fact.START_FAILED else ChildStopped
    return kind(
        path=path,
        time=now,
        incarnation=life,
        restarts=restarts,
        reason=reason,
        context=tell.context,
    )
