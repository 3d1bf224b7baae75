"""From what a machine tells to the reports that hooks get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy._core.protocol import Fact
from otpy._core.reason import Normal
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
    child = tell.child
    reason = tell.reason or Normal()
    if child is None:
        return SupervisorStopped(path=supervisor, time=now, reason=reason)
    path = f"{supervisor}/{child.key}"
    if tell.fact is Fact.GAVE_UP:
        return SupervisorGaveUp(path=supervisor, time=now, child=path, reason=reason)
    life, restarts, context = tell.incarnation, tell.restarts, tell.context
    match tell.fact:
        case Fact.STARTED:
            return ChildStarted(path=path, time=now, incarnation=life, restarts=restarts)
        case Fact.RESTARTING:
            return ChildRestarting(
                path=path,
                time=now,
                incarnation=life,
                restarts=restarts,
                reason=reason,
                delay=tell.delay,
            )
        case Fact.CHILD_GAVE_UP:
            return ChildGaveUp(
                path=path, time=now, incarnation=life, restarts=restarts, reason=reason
            )
        case Fact.START_FAILED:
            kind: type[ChildStartFailed | ChildExited | ChildStopped] = ChildStartFailed
        case Fact.EXITED:
            kind = ChildExited
        case Fact.STOPPED | Fact.ENDED:
            kind = ChildStopped
    return kind(
        path=path, time=now, incarnation=life, restarts=restarts, reason=reason, context=context
    )
