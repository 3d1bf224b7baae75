"""How a static supervisor stops its children and ends: the other half of `machine.py`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from otpy._core.child import Child, Status
from otpy._core.effects import EVERYBODY, Effects
from otpy._core.phase import Operation, Phase
from otpy._core.protocol import (
    ChildIgnored,
    ChildReady,
    ExitNoticed,
    Finish,
    Hurry,
    KillChild,
    Refusal,
    Request,
    RequestReply,
    StartFailure,
    TimerDue,
)
from otpy._core.reason import KILLED, NORMAL, SHUTDOWN, Restart, declines
from otpy._core.rules import is_expected
from otpy._core.spec import BRUTAL_KILL

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.effects import Audience
    from otpy._core.protocol import Failure
    from otpy._core.reason import ExitReason
    from otpy._core.significance import Significance
    from otpy._core.spec import SupervisorSpec


class Stopping:
    """The operations of a static supervisor, and how each is brought to an end.

    Attributes:
        spec: The supervisor's spec.
        phase: The phase of its life.
        children: The child table, in start order (OTP's termination order is its reverse).
        forgotten: Keys of children that have left the table; who has seen them clears it.
    """

    __slots__ = (
        "_awaited",
        "_ending",
        "_inbox",
        "_left",
        "_operation",
        "_out",
        "_paused",
        "_ref",
        "_significant",
        "_starts",
        "_starts_it",
        "_stops",
        "_subject",
        "children",
        "forgotten",
        "phase",
        "spec",
    )

    def __init__(
        self, spec: SupervisorSpec, random: Callable[[], float], audience: Audience = EVERYBODY
    ) -> None:
        """Have started nothing, and be busy with nothing.

        `random` serves the jitter of backoffs; facts are told while there is an `audience`.
        """
        self.spec = spec
        self.phase = Phase.STARTING
        self.children = {child.id: Child(child, child.id) for child in spec.children}
        self.forgotten: list[str] = []
        self._out = Effects(spec.intensity, spec.period, random, audience)
        self._inbox: deque[ExitNoticed | TimerDue | Request] = deque()
        self._operation: Operation | None = None
        self._ref: object = None  # of the request in progress,
        self._subject: Child | None = None  # which is about this child, None if nobody waits,
        self._starts_it = False  # and which is to start it, not to stop it
        self._stops: deque[Child] = deque()  # the agenda: whom to stop, in this order,
        self._starts: deque[Child] = deque()  # and then whom to start
        self._awaited: Child | None = None  # its start or its stop is in progress
        self._ending = Finish(NORMAL)
        self._paused = False  # the loop has its turn before the next start
        self._left = 0  # children that are ending, of which none is awaited
        self._significant: Significance | None = None  # none of them has been lost yet

    def _remove(self, child: Child) -> None:
        """Let `child`, which does not run, leave the table."""
        del self.children[child.key]
        if self._significant is not None:
            self._significant.remove(child)
        self.forgotten.append(child.key)

    def _stop(self, child: Child) -> None:
        reason = child.take_deferred_exit()
        if reason is not None:  # SUP-713: its notice is consumed here
            self._gone(child, reason)
        elif child.status is Status.RUNNING:
            self._awaited = child
            self._out.ask(child)
        elif child.waits:
            self._out.cancel_timer(child)

    def _hear_of_stop(self, child: Child, event: ChildReady | StartFailure | ChildIgnored) -> None:
        """Take news of the start of a child that was told to end while it was starting."""
        wanted = self._subject is child and self._starts_it  # else its end, by hand
        match event:
            case ChildReady():
                if wanted:
                    self._reply(child)
            case ChildIgnored():
                if wanted:
                    self._reply()
                self._gone(child, SHUTDOWN)
            case StartFailure():
                if wanted:
                    self._reply_failed(child, event.reason)
                self._gone(child, event.reason)

    def _gone(self, child: Child, reason: ExitReason) -> None:
        """A child that was told to end has ended."""
        if self._awaited is child:
            self._awaited = None
        elif child.status is Status.STOPPING:
            self._left -= 1
        child.status = Status.UNDEFINED
        child.record_exit(reason)
        spec = child.spec
        expected = is_expected(spec.restart, reason, brutal=spec.shutdown is BRUTAL_KILL)
        self._out.tell_stop(child, reason, expected=expected)
        if spec.restart is Restart.TEMPORARY:
            self._remove(child)  # SUP-606, SUP-806
        if self._subject is child:  # by hand
            self._reply()

    def _reply(self, started: Child | None = None) -> None:
        """Grant the request in progress."""
        self._subject = None
        self._out.add(RequestReply(self._ref, started))

    def _reply_failed(self, child: Child, reason: ExitReason) -> None:
        """Answer the request in progress, which was to start `child`."""
        self._subject = None
        self._out.refuse(self._ref, Refusal.START_FAILED, child, reason)

    def _shut_down(self, reason: ExitReason, failure: Failure | None = None) -> None:
        """Stop everything in reverse, then finish.

        A start in progress is hurried, so that its child is stopped in order; the
        starts after it are dropped. OTP would start them all first (SUP-317).
        """
        if self.phase is Phase.STOPPING or self.phase is Phase.ENDED:
            return
        self._close(Finish(reason, failure))
        awaited = self._awaited
        if awaited is None:
            self._plan_stops()
            if not self._stops:  # no child lives, as where a failure climbs from level to level
                self._finish()
                return
        elif awaited.status is Status.STARTING:
            self._out.add(Hurry(awaited))
        else:
            self._plan_stops()  # the one being stopped now is skipped: its turn has come already
        self._operation = Operation.SHUTDOWN

    def _kill(self, grace: float) -> None:
        """End as killed: ask all children at once, and kill those left after `grace` (SUP-719).

        A start in progress is hurried. The runtime gives up children that refuse to end.
        """
        if self.phase is Phase.ENDED or not self._out.grant(grace):
            return
        self._close(Finish(KILLED, self._ending.failure))
        if grace > 0:
            self._at_once()
            return
        self._operation, self._awaited, self._left = Operation.KILL, None, 0
        for child in list(self.children.values()):
            if child.pending is not None:
                self._stop(child)
            elif child.live:
                child.status = Status.STOPPING
                self._left += 1
                self._out.add(KillChild(child))

    def _hasten(self) -> None:
        """Give up the order of a stop in progress, here and below."""
        if self._operation is Operation.SHUTDOWN:
            self._at_once()
        if self._operation is Operation.AT_ONCE:
            self._out.hasten(self.children)

    def _at_once(self) -> None:
        """Ask all children that were not asked yet, and wait for the last to end."""
        hurried = self._awaited if self._operation is Operation.SHUTDOWN else None
        self._operation, self._awaited, self._left = Operation.AT_ONCE, None, 0
        self._stops.clear()
        for child in reversed(list(self.children.values())):
            if child.pending is not None:
                self._stop(child)
            elif child.live:
                self._left += 1
                if child.status is Status.RUNNING:
                    self._out.ask(child)
                elif child.status is Status.STARTING and child is not hurried:
                    self._out.add(Hurry(child))

    def _close(self, ending: Finish) -> None:
        """Take no more requests, and refuse those that wait; the one in progress is answered."""
        self.phase = Phase.STOPPING
        self._ending = ending
        for event in self._inbox:
            if not isinstance(event, ExitNoticed | TimerDue):
                self._out.refuse(event.ref, Refusal.NOT_RUNNING)
        self._inbox.clear()
        self._stops.clear()
        self._starts.clear()
        self._paused = False
        for child in self.children.values():
            if child.waits:
                self._out.cancel_timer(child)

    def _plan_stops(self) -> None:
        for child in reversed(self.children.values()):
            if child.live:
                self._stops.append(child)

    def _finish(self) -> None:
        """Nothing lives: end as planned."""
        self.phase = Phase.ENDED
        self._operation = None
        self._inbox.clear()
        if not declines(self._ending.reason):
            self._out.tell_end(self._ending.reason)
        self._out.add(self._ending)
