"""The remains of a supervisor whose machine broke in the middle of a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from otpy._core.phase import Phase
from otpy._core.protocol import (
    AddChild,
    DeleteChild,
    Fact,
    Failure,
    Finish,
    KillAsked,
    KillChild,
    Query,
    Reconfigure,
    Refusal,
    RequestReply,
    RestartChild,
    RetryNow,
    StopChild,
    Tell,
    TerminateChild,
)
from otpy._core.reason import Crashed

if TYPE_CHECKING:
    from otpy._core.child import Child
    from otpy._core.dynamic import DynamicMachine
    from otpy._core.machine import SupervisorMachine
    from otpy._core.protocol import Effect, Event
    from otpy._core.reason import ExitReason

_REQUESTS: Final = (
    AddChild,
    TerminateChild,
    RestartChild,
    DeleteChild,
    RetryNow,
    Reconfigure,
    Query,
)


@final
class Wreck:
    """Stands in for a machine that broke: kills every child, and ends when none lives.

    It goes by who is alive, not by what the machine believed: that may be half of a decision.

    Attributes:
        spec: The supervisor's spec.
        phase: STOPPING, then ENDED.
        children: The child table as the machine left it.
        forgotten: Always empty: it keeps its children.
        settled: Always False: it is being stopped.
    """

    __slots__ = ("_error", "children", "forgotten", "phase", "spec")

    settled = False

    def __init__(self, machine: SupervisorMachine | DynamicMachine, error: BaseException) -> None:
        """Take over from `machine`, which broke with `error`."""
        self.spec = machine.spec
        self.phase = Phase.STOPPING
        self.children = machine.children
        self.forgotten: list[str] = []
        self._error = error

    def exited(
        self, child: Child, incarnation: int, reason: ExitReason, now: float
    ) -> list[Effect]:
        """Take the end of `child`; see the class."""
        del child, incarnation, reason, now
        return self._ended(self._alive())

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event; see the class."""
        del now
        if isinstance(event, _REQUESTS):
            return [RequestReply(event.ref, refusal=Refusal.NOT_RUNNING)]
        alive = self._alive()
        if alive and isinstance(event, KillAsked):
            # Supervisors below are whole: as ever, they ask before they kill, while there is time.
            return [
                StopChild(child, kill=True) if event.grace > 0 else KillChild(child)
                for child in alive
            ]
        return self._ended(alive)

    def _alive(self) -> list[Child]:
        return [child for child in self.children.values() if _lives(child)]

    def _ended(self, alive: list[Child]) -> list[Effect]:
        """End when no child is alive any more."""
        if alive or self.phase is Phase.ENDED:
            return []
        self.phase = Phase.ENDED
        reason = Crashed(self._error)
        return [Tell(Fact.ENDED, reason=reason), Finish(reason, Failure("", reason))]


def _lives(child: Child) -> bool:
    process: Any = child.process
    return process is not None and process.alive
