"""The supervisor of children that come and go, as a pure state machine; see `machine.py`.

Its children have no order, so nothing waits for anything: each is started, restarted and stopped
for itself, and all are stopped at once (SUP-709, DYN-14). It needs no agenda and no inbox. That a
slow start delays no sibling is where it differs from OTP, whose dynamic supervisor runs one start
at a time. Neither cuts a start off: a child that is not wanted any more while it starts is hurried,
and stopped when it is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

from otpy._core.child import Child, Status
from otpy._core.effects import EVERYBODY, Effects
from otpy._core.phase import Phase
from otpy._core.protocol import (
    AddChild,
    Begin,
    CancelTimer,
    ChildIgnored,
    ChildReady,
    ChildReconfigured,
    DeleteChild,
    Effect,
    Event,
    Fact,
    Failure,
    Finish,
    GoOn,
    HasteAsked,
    Hurry,
    InitFailed,
    KillAsked,
    KillChild,
    Query,
    Ready,
    Reconfigure,
    Refusal,
    RequestReply,
    RestartChild,
    RetryNow,
    ShutdownAsked,
    StartFailure,
    TerminateChild,
    TimerDue,
)
from otpy._core.reason import (
    KILLED,
    NORMAL,
    SHUTDOWN,
    ExitReason,
)
from otpy._core.reconfigure import remembered
from otpy._core.rules import Verdict, is_expected_in_pool, verdict
from otpy._core.significance import Significance
from otpy._core.spec import BRUTAL_KILL, DynamicSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.effects import Audience
    from otpy._core.spec import AnySpec


@final
class DynamicMachine:
    """Decides for one dynamic supervisor.

    Attributes:
        spec: The supervisor's spec.
        phase: The phase of its life.
        children: Its children by key, in start order. The key is the spec's id, with `#n` added
            where a sibling has that id: equal ids are fine (DYN-03).
        forgotten: Keys of children that have left the table; who has seen them clears it.
    """

    __slots__ = (
        "_ending",
        "_out",
        "_serial",
        "_significant",
        "_starters",
        "_stoppers",
        "children",
        "forgotten",
        "phase",
        "spec",
    )

    def __init__(
        self, spec: DynamicSpec, random: Callable[[], float], audience: Audience = EVERYBODY
    ) -> None:
        """Make a machine without children.

        `random` serves the jitter of backoffs; facts are told while there is an `audience`.
        """
        self.spec = spec
        self.phase = Phase.STARTING
        self.children: dict[str, Child] = {}
        self.forgotten: list[str] = []
        self._out = Effects(spec.intensity, spec.period, random, audience)
        self._ending = Finish(NORMAL)
        self._serial = 1
        self._significant: Significance | None = None  # none of them has been lost yet
        self._starters: dict[str, object] = {}  # who waits for a child's first start
        self._stoppers: dict[str, list[object]] = {}  # who waits for a child's end

    @property
    def settled(self) -> bool:
        """Whether no child is being started or stopped."""
        busy = (Status.STARTING, Status.STOPPING)
        return not any(child.status in busy for child in self.children.values())

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event at `now` (seconds, monotonic) and return what to do, in order."""
        self._out.now = now
        match event:
            case Begin():
                self.phase = Phase.RUNNING
                self._out.add(Ready())
            case GoOn() | InitFailed():
                pass  # it never pauses, and has no initial children
            case ChildReady() | StartFailure() | ChildIgnored() | ChildReconfigured():
                child = self.children.get(event.key)
                if child is not None and child.incarnation == event.incarnation:
                    self._hear(child, event)
            case TimerDue():
                child = self.children.get(event.key)
                if child is not None and child.waits_for(event.token):
                    self._retry(child)
            case ShutdownAsked() | HasteAsked() | KillAsked():
                self._end(event)
            case _ if self.phase is not Phase.RUNNING:
                self._out.refuse(event.ref, Refusal.NOT_RUNNING)
            case AddChild():
                self._add(event)
            case Query():
                self._out.show(event, self.children)
            case TerminateChild() | RetryNow():
                child = self.children.get(event.key)
                if child is None:
                    self._out.refuse(event.ref, Refusal.NOT_FOUND)
                else:
                    self._by_hand(child, event)
            case RestartChild() | DeleteChild() | Reconfigure():
                # DYN-16: a child that ended is forgotten. And there is no list to change.
                self._out.refuse(event.ref, Refusal.NOT_FOUND)
            case _:
                assert_never(event)
        return self._decided()

    def exited(
        self, child: Child, incarnation: int, reason: ExitReason, now: float
    ) -> list[Effect]:
        """Take the end of a child that had been ready; see `SupervisorMachine.exited`."""
        if child.incarnation != incarnation or self.children.get(child.key) is not child:
            return []
        self._out.now = now
        if child.status is Status.STOPPING:
            self._gone(child, reason)
        elif child.status is Status.RUNNING:
            self._exited(child, reason)
        elif child.status is Status.STARTING:  # before its supervisor heard that it was ready
            self._start_failed(child, reason)
        return self._decided()

    def _decided(self) -> list[Effect]:
        """Return the effects; a supervisor that has stopped its last child ends."""
        if self.phase is Phase.STOPPING and not self.children:
            self.phase = Phase.ENDED
            self._out.tell_end(self._ending.reason)
            self._out.add(self._ending)
        return self._out.handed_over()

    def _hear(
        self, child: Child, event: ChildReady | StartFailure | ChildIgnored | ChildReconfigured
    ) -> None:
        """Take news of a child's present incarnation, most often of its start."""
        if isinstance(event, ChildReconfigured):
            child.spec = remembered(child.spec, event.spec)
        elif child.status is Status.STOPPING:
            self._hear_of_stop(child, event)
        elif child.status is Status.STARTING:
            self._hear_of_start(child, event)

    def _hear_of_start(self, child: Child, event: ChildReady | StartFailure | ChildIgnored) -> None:
        match event:
            case ChildReady():
                self._started(child)
                if self._is_unwanted(child):
                    self._stop(child)
            case ChildIgnored():  # DYN-08, DYN-09
                self._reply(child, None)
                self._forget(child)
            case StartFailure():
                self._start_failed(child, event.reason)

    def _hear_of_stop(self, child: Child, event: ChildReady | StartFailure | ChildIgnored) -> None:
        """Take news of the start of a child that was killed while it was starting."""
        match event:
            case ChildReady():
                self._reply(child, child)
            case ChildIgnored():
                self._reply(child, None)
                self._gone(child, SHUTDOWN)
            case StartFailure():
                self._reply_failed(child, event.reason)
                self._gone(child, event.reason)

    def _is_unwanted(self, child: Child) -> bool:
        """Whether `child` is to be stopped as soon as it is ready."""
        return self.phase is not Phase.RUNNING or child.key in self._stoppers

    def _reply(self, child: Child, started: Child | None) -> None:
        """Answer the caller that asked for the start of `child`."""
        if child.key in self._starters:
            self._out.add(RequestReply(self._starters.pop(child.key), started))

    def _reply_failed(self, child: Child, reason: ExitReason) -> None:
        if child.key in self._starters:
            self._out.refuse(self._starters.pop(child.key), Refusal.START_FAILED, child, reason)

    def _remove(self, child: Child) -> None:
        """Let `child`, which does not run, leave the table."""
        del self.children[child.key]
        if self._significant is not None:
            self._significant.remove(child)
        self.forgotten.append(child.key)

    def _forget(self, child: Child) -> None:
        """Forget a child that has ended, and answer the callers that wait for its end."""
        self._remove(child)
        for ref in self._stoppers.pop(child.key, ()):
            self._out.add(RequestReply(ref))

    # --- starting and restarting -----------------------------------------------------------------

    def _add(self, event: AddChild) -> None:
        if self._is_full():
            self._out.refuse(event.ref, Refusal.MAX_CHILDREN)
            return
        child = self._named(event.spec)
        self._starters[child.key] = event.ref
        self._start(child)

    def _is_full(self) -> bool:
        limit = self.spec.max_children
        return isinstance(limit, int) and len(self.children) >= limit

    def _named(self, spec: AnySpec) -> Child:
        """Return one more child, by the id of its spec or by one made from it."""
        key = spec.id
        while key in self.children:
            self._serial += 1
            key = f"{spec.id}#{self._serial}"
        child = self.children[key] = Child(spec, key)
        if self._significant is not None:
            self._significant.add(child)
        return child

    def _start(self, child: Child) -> None:
        if child.incarnation:
            child.restarts += 1
        child.incarnation += 1
        child.status = Status.STARTING
        self._out.effects.append(child)  # the order to start it
        if child.spec.ready_at_once:
            self._started(child)  # nothing can come between its start and its being ready

    def _started(self, child: Child) -> None:
        child.status = Status.RUNNING
        if child.spec.backoff is not None:
            child.ensure_restart_state().started_at = self._out.now
        self._out.tell_start(child)
        if self._starters:
            self._reply(child, child)

    def _start_failed(self, child: Child, reason: ExitReason) -> None:
        child.record_exit(reason)
        by_hand = child.key in self._starters
        unwanted = self._is_unwanted(child)
        self._out.tell_failed_start(child, reason, by_hand=by_hand, ending=unwanted)
        if by_hand or unwanted:
            self._reply_failed(child, reason)
            self._forget(child)
        else:
            self._out.set_timer(child, Status.RESTARTING, self._out.next_delay(child))

    def _exited(self, child: Child, reason: ExitReason) -> None:
        """A child ended by itself (section 4, DYN-17)."""
        self._out.tell_exit(child, reason)
        if verdict(child.spec.restart, reason) is not Verdict.RESTART:
            self._remove(child)
            if child.spec.significant:
                self._lost_significant()
            return
        delay = self._out.next_delay(child)
        if self._allowed(child):
            self._out.tell(Fact.RESTARTING, child, reason, delay=delay)
            if delay > 0:
                self._out.set_timer(child, Status.BACKING_OFF, delay)
            else:
                self._start(child)

    def _lost_significant(self) -> None:
        """SUP-904: no report is written of it."""
        if self._significant is None:
            staying = (c for c in self.children.values() if c.key not in self._stoppers)
            self._significant = Significance(staying)
        if self._significant.decide(self.spec.auto_shutdown):
            self._shut_down(Finish(SHUTDOWN))

    def _retry(self, child: Child) -> None:
        """Perform the due restart of `child`. One that failed before is counted again (DYN-10)."""
        if child.status is Status.BACKING_OFF or self._allowed(child):
            self._start(child)

    def _allowed(self, child: Child) -> bool:
        """Count a restart; if it is one too many, give up the child or the supervisor."""
        outcome = self._out.count(child)
        if outcome is None:
            return True
        self._remove(child)
        if isinstance(outcome, Failure):
            self._shut_down(Finish(SHUTDOWN, outcome))
        elif child.spec.significant:
            self._lost_significant()
        return False

    # --- stopping --------------------------------------------------------------------------------

    def _by_hand(self, child: Child, event: TerminateChild | RetryNow) -> None:
        match event:
            case RetryNow():
                self._out.add(RequestReply(event.ref, child if child.waits else None))
                if child.waits:
                    self._out.add(CancelTimer(child))
                    self._retry(child)
            case TerminateChild() if child.waits:
                self._out.cancel_timer(child)
                self._remove(child)
                self._out.add(RequestReply(event.ref))
            case TerminateChild():
                told = child.key in self._stoppers
                self._stoppers.setdefault(child.key, []).append(event.ref)
                if self._significant is not None:
                    self._significant.remove(child)  # it will not run again
                if not told:
                    self._stop(child)

    def _stop(self, child: Child) -> None:
        """Make `child` end; a starting child ends when it is ready."""
        if child.waits:
            self._out.cancel_timer(child)
            self._remove(child)
        elif child.status is Status.STARTING:
            self._out.add(Hurry(child))
        elif child.status is Status.RUNNING:
            self._out.ask(child)

    def _gone(self, child: Child, reason: ExitReason) -> None:
        """A child that was told to end has ended."""
        child.status = Status.UNDEFINED
        child.record_exit(reason)
        spec = child.spec
        expected = is_expected_in_pool(spec.restart, reason, brutal=spec.shutdown is BRUTAL_KILL)
        self._out.tell_stop(child, reason, expected=expected)
        self._forget(child)

    def _end(self, event: ShutdownAsked | HasteAsked | KillAsked) -> None:
        match event:
            case ShutdownAsked():
                self._shut_down(Finish(event.reason))
            case HasteAsked():
                if self.phase is Phase.STOPPING:
                    self._out.hasten(self.children)
            case KillAsked():
                self._kill(event.grace)

    def _shut_down(self, ending: Finish) -> None:
        """Stop everything at once.

        In start order, because asyncio keeps those who wait for one event or queue in order of
        arrival and seeks who leaves from the front: from the back, many take the square of their
        number. In whatever order they are told, all are told before any of them runs (DYN-14).
        """
        if self.phase is Phase.STOPPING or self.phase is Phase.ENDED:
            return
        self.phase = Phase.STOPPING
        self._ending = ending
        for child in list(self.children.values()):
            if child.key not in self._stoppers:  # else it has been told
                self._stop(child)

    def _kill(self, grace: float) -> None:
        """End as killed: ask all children, and kill those left after `grace` (SUP-719)."""
        if self.phase is Phase.ENDED or not self._out.grant(grace):
            return
        ending = Finish(KILLED, self._ending.failure)
        if grace > 0:
            self._shut_down(ending)  # unless it was told before
            self._ending = ending
            return
        self.phase = Phase.STOPPING
        self._ending = ending
        for child in list(self.children.values()):
            if child.waits:
                self._stop(child)
            else:
                child.status = Status.STOPPING
                self._out.add(KillChild(child))
