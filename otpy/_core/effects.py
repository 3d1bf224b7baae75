"""What both machines share: the list of effects, timers, and the restart accounting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol, final

from otpy._core.child import Child, Status
from otpy._core.limits import RestartLimits
from otpy._core.protocol import (
    CancelTimer,
    Context,
    Effect,
    Fact,
    Failure,
    HasteAsked,
    Hasten,
    KillAsked,
    Later,
    Refusal,
    RequestReply,
    SetTimer,
    StopChild,
    Tell,
)
from otpy._core.reason import KILLED
from otpy._core.rules import context_of_failed_start, is_reported
from otpy._core.spec import BRUTAL_KILL, ChildType, Then

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otpy._core.protocol import Query
    from otpy._core.reason import ExitReason
    from otpy._core.spec import Count


class Audience(Protocol):
    """The listeners of machines; false if there are none."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def hears_routine(self, now: float) -> bool:
        """Whether a listener wants to hear of normal starts and stops."""
        ...


@final
class Everybody:
    """An audience that hears everything."""

    def __len__(self) -> int:
        """Return 1."""
        return 1

    def hears_routine(self, now: float) -> bool:  # noqa: ARG002 - a protocol
        """Return True."""
        return True


EVERYBODY: Final = Everybody()
"""An audience that is always there."""


@final
class Effects:
    """Collects the effects of one event.

    Messages without a listener are neither told nor built.

    Attributes:
        audience: The current listeners.
        effects: The effects so far, in order.
        now: Time of the event, in monotonic seconds.
        deadline: When all that is left is killed: infinity if the supervisor has not been killed,
            minus infinity if everything below has.
    """

    __slots__ = (
        "_limits",
        "_random",
        "_tokens",
        "audience",
        "deadline",
        "effects",
        "now",
    )

    def __init__(
        self, intensity: Count, period: float, random: Callable[[], float], audience: Audience
    ) -> None:
        """Allow `intensity` restarts in `period` seconds; `random` serves the jitter."""
        self.audience = audience
        self._limits = RestartLimits(intensity, period)
        self._random = random
        self._tokens = 0
        self.effects: list[Effect] = []
        self.now = 0.0
        self.deadline = math.inf

    def limit(self, intensity: Count, period: float) -> None:
        """Allow `intensity` restarts in `period` seconds from now on; the past counts too."""
        self._limits.change(intensity, period)

    def handed_over(self) -> list[Effect]:
        """Return the effects and keep none: a batch of starts is long."""
        effects = self.effects
        if effects:
            self.effects = []
        return effects

    def add(self, effect: Effect) -> None:
        """Append an effect."""
        self.effects.append(effect)

    def tell(
        self,
        fact: Fact,
        child: Child,
        reason: ExitReason | None = None,
        context: Context | None = None,
        delay: float = 0.0,
    ) -> None:
        """Append a fact about the present incarnation of `child`."""
        if not self.audience:
            return
        life, restarts = child.incarnation, child.restarts
        self.effects.append(Tell(fact, child, life, reason, context, delay, restarts))

    def tell_start(self, child: Child) -> None:
        """Append that `child` is ready."""
        if self.audience and self.audience.hears_routine(self.now):
            self.tell(Fact.STARTED, child)

    def tell_exit(self, child: Child, reason: ExitReason) -> None:
        """Note that `child` ended by itself, and append that fact."""
        child.record_exit(reason)
        if self.audience:
            if is_reported(child.spec.restart, reason):
                self.tell(Fact.EXITED, child, reason, Context.CHILD_TERMINATED)
            elif self.audience.hears_routine(self.now):
                self.tell(Fact.EXITED, child, reason)

    def tell_stop(self, child: Child, reason: ExitReason, *, expected: bool) -> None:
        """Append that `child`, which was told to end, has ended (SUP-704, DYN-15)."""
        if not expected:
            self.tell(Fact.STOPPED, child, reason, Context.SHUTDOWN_ERROR)
        elif self.audience and self.audience.hears_routine(self.now):
            self.tell(Fact.STOPPED, child, reason)

    def tell_failed_start(
        self, child: Child, reason: ExitReason, *, by_hand: bool, ending: bool
    ) -> None:
        """Append that `child` did not start; see `context_of_failed_start`."""
        spec = child.spec
        context = context_of_failed_start(
            spec.restart,
            reason,
            brutal=spec.shutdown is BRUTAL_KILL,
            by_hand=by_hand,
            ending=ending,
        )
        self.tell(Fact.START_FAILED, child, reason, context)

    def tell_end(self, reason: ExitReason) -> None:
        """Append that the supervisor itself has ended."""
        if self.audience:
            self.effects.append(Tell(Fact.ENDED, reason=reason))

    def grant(self, grace: float) -> bool:
        """Let everything below have `grace` seconds from now, in all, and kill it then.

        Half of the time is for the order in which supervisors below stop their children. In the
        other half all of them are asked, so that nobody who would have ended in time is killed
        because one before it did not.

        Returns:
            Whether something is to be done about it now: not if everybody has been told, or
            killed, before.
        """
        known, due = self.deadline < math.inf, self.now + grace if grace > 0 else -math.inf
        if due >= self.deadline:
            return False
        self.deadline = due
        if grace > 0:
            self.effects.append(Later(HasteAsked(), grace / 2))
            self.effects.append(Later(KillAsked(), grace))
        return not (known and grace > 0)

    def ask(self, child: Child) -> None:
        """Tell a running child to end; with `killed` if its supervisor was killed (SUP-719)."""
        child.status = Status.STOPPING
        if self.deadline < math.inf:
            self.effects.append(StopChild(child, kill=False, reason=KILLED))
        else:
            self.effects.append(StopChild(child, kill=child.spec.shutdown is BRUTAL_KILL))

    def hasten(self, children: Mapping[str, Child]) -> None:
        """Tell every supervisor below, which is being stopped, that time runs short."""
        for child in children.values():
            if child.live and child.spec.type is ChildType.SUPERVISOR:
                self.effects.append(Hasten(child))

    def refuse(
        self,
        ref: object,
        refusal: Refusal,
        child: Child | None = None,
        reason: ExitReason | None = None,
    ) -> None:
        """Refuse the request `ref`."""
        self.effects.append(RequestReply(ref, child, refusal, reason))

    def show(self, query: Query, children: Mapping[str, Child]) -> None:
        """Answer `query` with `children` as they are now."""
        if query.key is None:
            listed = [*children.values()]
        else:
            listed = [children[query.key]] if query.key in children else []
        rows = tuple([(child, child.status, child.process) for child in listed])
        self.effects.append(RequestReply(query.ref, rows=rows))

    def next_delay(self, child: Child) -> float:
        """Return the seconds to wait before the next restart of `child`, and count it."""
        return child.next_delay(self.now, self._random)

    def set_timer(self, child: Child, status: Status, delay: float) -> None:
        """Let `child` wait for a restart that is due in `delay` seconds."""
        self._tokens += 1
        child.status = status
        state = child.ensure_restart_state()
        state.token = self._tokens
        state.due = self.now + delay
        self.effects.append(SetTimer(child, state.token, delay))

    def cancel_timer(self, child: Child) -> None:
        """Let `child` wait no longer; it is not running."""
        child.status = Status.UNDEFINED
        self.effects.append(CancelTimer(child))

    def count(self, child: Child) -> Failure | Then | None:
        """Count a restart of `child` and report it if it is one too many; see `RestartLimits`."""
        outcome = self._limits.count(child, self.now)
        if outcome is not None:
            fact = Fact.CHILD_GAVE_UP if isinstance(outcome, Then) else Fact.GAVE_UP
            self.tell(fact, child, child.last_exit, Context.SHUTDOWN)
        return outcome
