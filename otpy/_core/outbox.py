"""What both machines share: the list of effects, timers, and the restart accounting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from otpy._core.child import Child, Status
from otpy._core.limits import RestartLimits
from otpy._core.protocol import (
    CancelTimer,
    Context,
    Effect,
    Fact,
    Failure,
    Refusal,
    Reply,
    SetTimer,
    Tell,
)
from otpy._core.reason import Verdict, is_expected, is_reported, verdict
from otpy._core.spec import BRUTAL_KILL, ChildSpec, Then

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sized

    from otpy._core.reason import ExitReason


EVERYBODY: Final = ("everybody",)
"""An audience that is always there."""


@final
class Outbox:
    """Collects the effects of one event.

    Nothing is told, and nothing is built to tell it, while nobody listens.

    Attributes:
        audience: Those who listen at the moment; empty if nobody does.
        effects: The effects so far, in order.
        now: Time of the event, in monotonic seconds.
    """

    __slots__ = ("_limits", "_random", "_tokens", "audience", "effects", "now")

    def __init__(
        self, intensity: int, period: float, random: Callable[[], float], audience: Sized
    ) -> None:
        """Allow `intensity` restarts in `period` seconds; `random` serves the jitter."""
        self.audience = audience
        self._limits = RestartLimits(intensity, period)
        self._random = random
        self._tokens = 0
        self.effects: list[Effect] = []
        self.now = 0.0

    def limit(self, intensity: int, period: float) -> None:
        """Allow `intensity` restarts in `period` seconds from now on; the past counts too."""
        self._limits.change(intensity, period)

    def replaces(self, child: Child, incarnation: int, reason: ExitReason, now: float) -> bool:
        """Take the end of `child` by itself, if all that follows is its next start, at once.

        Returns:
            Whether that is so; if not, nothing has changed.
        """
        spec = child.spec
        if (
            self.audience
            or child.status is not Status.RUNNING
            or child.incarnation != incarnation
            or not isinstance(spec, ChildSpec)
            or not spec.ready_at_once
            or spec.backoff is not None
            or spec.intensity is not None
            or verdict(spec.restart, reason) is not Verdict.RESTART
            or not self._limits.count_if_allowed(child, reason, now)
        ):
            return False
        child.ran(reason)
        child.restarts += 1
        child.incarnation += 1
        return True

    def fails(
        self,
        child: Child,
        incarnation: int,
        reason: ExitReason,
        now: float,
        siblings: Mapping[str, Child],
    ) -> Failure | None:
        """Take the end of `child` by itself, if its restart is one too many and nobody else lives.

        Returns:
            The failure of its supervisor; None if that is not so, and nothing has changed.
        """
        spec = child.spec
        if (
            self.audience
            or child.status is not Status.RUNNING
            or child.incarnation != incarnation
            or spec.backoff is not None
            or (isinstance(spec, ChildSpec) and spec.intensity is not None)
            or verdict(spec.restart, reason) is not Verdict.RESTART
        ):
            return None
        for other in siblings.values():
            if other is not child and (other.live or other.waits):
                return None
        failure = self._limits.count_if_exceeded(child, reason, now)
        if failure is not None:
            child.ran(reason)
            child.status = Status.UNDEFINED
        return failure

    def handed_over(self) -> list[Effect]:
        """Return the effects and keep none: a batch of starts is long."""
        effects, self.effects = self.effects, []
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

    def tell_failed_start(self, child: Child, reason: ExitReason, context: Context | None) -> None:
        """Append that a start of `child` failed; in a shutdown it may have been told to end."""
        told = context is Context.SHUTDOWN_ERROR
        if told and is_expected(child.spec.restart, reason, brutal=False):
            context = None
        self.tell(Fact.START_FAILED, child, reason, context)

    def tell_exit(self, child: Child, reason: ExitReason) -> None:
        """Note that `child` ended by itself, and append that fact."""
        child.ran(reason)
        if not self.audience:
            return
        reported = is_reported(child.spec.restart, reason)
        self.tell(Fact.EXITED, child, reason, Context.CHILD_TERMINATED if reported else None)

    def tell_stop(self, child: Child, reason: ExitReason) -> None:
        """Append that `child`, which was told to end, has ended (SUP-704)."""
        if self.audience:
            spec = child.spec
            expected = is_expected(spec.restart, reason, brutal=spec.shutdown is BRUTAL_KILL)
            context = None if expected else Context.SHUTDOWN_ERROR
            self.tell(Fact.STOPPED, child, reason, context)

    def tell_end(self, reason: ExitReason) -> None:
        """Append that the supervisor itself has ended."""
        if self.audience:
            self.effects.append(Tell(Fact.ENDED, reason=reason))

    def refuse(
        self,
        ref: object,
        refusal: Refusal,
        child: Child | None = None,
        reason: ExitReason | None = None,
    ) -> None:
        """Refuse the request `ref`."""
        self.effects.append(Reply(ref, child, refusal, reason))

    def show(self, ref: object, children: Mapping[str, Child]) -> None:
        """Answer the query `ref` with `children` as they are now."""
        rows = tuple((child, child.status, child.process) for child in children.values())
        self.effects.append(Reply(ref, rows=rows))

    def next_delay(self, child: Child) -> float:
        """Return the seconds to wait before the next restart of `child`, and count it."""
        return child.next_delay(self.now, self._random)

    def set_timer(self, child: Child, status: Status, delay: float) -> None:
        """Let `child` wait for a restart that is due in `delay` seconds."""
        self._tokens += 1
        child.status = status
        pace = child.made_pace()
        pace.token = self._tokens
        pace.due = self.now + delay
        self.effects.append(SetTimer(child, pace.token, delay))

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
