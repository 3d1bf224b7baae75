"""The supervisor of a fixed list of children, as a pure state machine.

What goes in and what comes out
-------------------------------
`handle` takes one event and the time, `exited` the end of a child, which needs no event. Both
return effects, to be performed in their order before anything else goes in: start this child, stop
that one, tell, answer, set a timer. Nothing here awaits, reads a clock or logs, and nothing else
decides who is started, stopped or restarted. The tables are in `rules.py`, the accounts of restarts
in `limits.py`; `effects.py` collects effects; `stopping.py` is the other half of this class.

The three things that have a state
----------------------------------
The supervisor has a phase, which only moves on:

    STARTING ──► RUNNING ──► STOPPING ──► ENDED
        └──────────────────────┘             (a first start that fails, or a stop meanwhile)

A child has a status, and a number for each of its lives:

    UNDEFINED ──► STARTING ──► RUNNING ──► STOPPING ──► UNDEFINED     all goes well
                      │           ├──────► UNDEFINED                  it ended by itself,
                      │           └──────► BACKING_OFF                and its restart is due later
                      ├──────────────────► UNDEFINED                  it did not start,
                      └──────────────────► RESTARTING                 and that is tried again

One that is ready as soon as its task exists is RUNNING in the decision that starts it. Every event
names a life, and news of an earlier one is dropped: it is never charged to the next.

And there is one operation at a time, or none: the first start, a restart, a start or stop by hand,
a shutdown. It is an agenda: `_stops`, then `_starts`, worked off one after the other by `_advance`.

    | `_awaited`               | what `_advance` does                                              |
    |--------------------------|-------------------------------------------------------------------|
    | a child                  | nothing: its start or its stop is in progress                     |
    | None, agenda not empty   | the next stop; if there is none, the next start                   |
    | None, agenda empty       | completes the operation: ready, answered, or ended                |
    | None, no operation       | takes the oldest thing from the inbox                             |

Why there is an inbox
---------------------
OTP's supervisor is a process: while it waits for a child to start or to end it does not look into
its mailbox. So here what arrives while an operation is in progress waits, in order of arrival. Two
things do not wait, as there: what the operation itself waits for, and a shutdown.

An end by itself that has to wait is remembered with the child as well (`Child.pending`). If the
agenda comes to that child before the inbox does, the end is consumed there: it counts as a stop and
not as a failure (SUP-608, SUP-713), and what lies in the inbox is of a life that is over.

What ends an operation early
----------------------------
A start that fails drops the starts behind it: the first start gives up (SUP-306), a restart is
tried again later (SUP-612). A shutdown drops both agendas, refuses what waits, and plans the stops
of all who live; with nobody left it ends in the same decision, so that a failure climbs as fast as
it can be told of. A kill gives up the order, and asks everybody at once (`_at_once`); what it still
waits for is then a number, `_left`. A long list of starts pauses after `_SLICE` effects, and goes
on when the loop has had its turn.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, assert_never, final

from otpy._core.child import Child, Status
from otpy._core.phase import Operation, Phase
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
    ExitNoticed,
    Fact,
    Failure,
    Finish,
    GoOn,
    HasteAsked,
    InitFailed,
    KillAsked,
    Pause,
    Query,
    Ready,
    Reconfigure,
    Refusal,
    Remember,
    Request,
    RequestReply,
    RestartChild,
    RetryNow,
    ShutdownAsked,
    StartFailure,
    TerminateChild,
    TimerDue,
)
from otpy._core.reason import SHUTDOWN, Restart, failed_to_start
from otpy._core.reconfigure import rearranged, remembered
from otpy._core.rules import Verdict, group_of, verdict
from otpy._core.significance import Significance
from otpy._core.spec import Strategy
from otpy._core.stopping import Stopping

if TYPE_CHECKING:
    from otpy._core.reason import ExitReason
    from otpy._core.spec import SupervisorSpec

_SLICE: Final = 1000
"""Effects of one decision after which the loop has its turn before the next child is started."""


@final
class SupervisorMachine(Stopping):
    """Decides for one supervisor; see `Stopping` for its parts."""

    __slots__ = ()

    @property
    def settled(self) -> bool:
        """Whether nothing is in progress and nothing waits to be dealt with."""
        return self._operation is None and not self._inbox

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take one event at `now` (seconds, monotonic) and return what to do, in order."""
        self._out.now = now
        match event:
            case ChildReady() | StartFailure() | ChildIgnored():
                child = self.children.get(event.key)
                if child is not None and child.incarnation == event.incarnation:
                    self._hear(child, event)
            case ShutdownAsked():
                self._shut_down(event.reason)
            case HasteAsked():
                self._hasten()
            case KillAsked():
                self._kill(event.grace)
            case Begin():
                self.children |= {spec.id: Child(spec, spec.id) for spec in event.made}
                self._operation = Operation.INIT
                self._starts.extend(self.children.values())
            case InitFailed():  # SUP-114, SUP-115: nothing was started
                self._close(Finish(event.reason, Failure("", event.reason)))
                self._finish()
            case ChildReconfigured():
                child = self.children.get(event.key)
                if child is not None and child.incarnation == event.incarnation:
                    self._remember(child, event.spec)
            case GoOn():
                self._paused = False
            case TimerDue():
                self._inbox.append(event)
            case _:
                if self.phase is Phase.STARTING or self.phase is Phase.RUNNING:
                    self._inbox.append(event)
                else:
                    self._out.refuse(event.ref, Refusal.NOT_RUNNING)
        self._advance()
        return self._out.handed_over()

    def exited(
        self, child: Child, incarnation: int, reason: ExitReason, now: float
    ) -> list[Effect]:
        """Take the end of a child that had been ready, at `now`; return as `handle` does.

        It is the news that comes most often, so there is no event to make and to look into.
        """
        if child.incarnation != incarnation or self.children.get(child.key) is not child:
            return []
        self._out.now = now
        status = child.status
        if status is Status.RUNNING:
            if self._operation is None and not self._inbox and self.phase is Phase.RUNNING:
                self._exited(child, reason)  # nothing is before it in the inbox
            elif child.pending is None:
                child.defer_exit(reason)
                self._inbox.append(ExitNoticed(child.key, incarnation, reason))
        elif status is Status.STOPPING:
            self._gone(child, reason)
        elif status is Status.STARTING:  # before its supervisor heard that it was ready
            self._hear(child, StartFailure(child.key, incarnation, reason))
        if self._awaited is None:
            self._advance()
        return self._out.handed_over()

    # --- the one operation in progress -----------------------------------------------------------

    def _advance(self) -> None:
        """Work on until it must wait for a child, or nothing is left to do."""
        while self._awaited is None and not self._paused:
            if self._stops:
                self._stop(self._stops.popleft())
            elif self._starts:
                if len(self._out.effects) >= _SLICE:
                    self._paused = True
                    self._out.add(Pause())
                else:
                    self._start(self._starts.popleft())
            elif self._operation is not None:
                if self._left:
                    return
                self._complete(self._operation)
            elif self._inbox and self.phase is Phase.RUNNING:
                self._serve(self._inbox.popleft())
            else:
                return

    def _complete(self, operation: Operation) -> None:
        self._operation = None
        match operation:
            case Operation.RESTART | Operation.ADD | Operation.START_BY_HAND:
                pass
            case Operation.INIT:
                self.phase = Phase.RUNNING
                self._out.add(Ready())
            case Operation.TERMINATE:
                if self._subject is not None:  # it did not run
                    self._reply()
            case Operation.SHUTDOWN | Operation.AT_ONCE | Operation.KILL:
                self._finish()

    def _hear(self, child: Child, event: ChildReady | StartFailure | ChildIgnored) -> None:
        """Take news of the start of a child's present incarnation."""
        if child.status is Status.STOPPING:
            self._hear_of_stop(child, event)
        elif child.status is Status.STARTING:
            self._awaited = None
            ending = self._operation
            match event:
                case ChildReady():
                    self._started(child)
                case ChildIgnored():
                    self._ignored(child)
                case StartFailure():
                    self._start_failed(child, event.reason)
            if ending is Operation.SHUTDOWN:
                self._plan_stops()  # it waited for this start
            elif ending is Operation.AT_ONCE:
                if child.live:
                    self._out.ask(child)
                else:
                    self._left -= 1

    # --- starting --------------------------------------------------------------------------------

    def _start(self, child: Child) -> None:
        if child.incarnation and self._operation is Operation.RESTART:
            child.restarts += 1
        child.incarnation += 1
        self._out.effects.append(child)  # the order to start it
        if child.spec.ready_at_once:
            self._started(child)  # nothing can come between its start and its being ready
        else:
            child.status = Status.STARTING
            self._awaited = child

    def _started(self, child: Child) -> None:
        child.status = Status.RUNNING
        if child.spec.backoff is not None:
            child.ensure_restart_state().started_at = self._out.now
        self._out.tell_start(child)
        if self._subject is child:
            self._reply(child)

    def _ignored(self, child: Child) -> None:
        """SUP-310 to SUP-313: not started, not failed."""
        child.status = Status.UNDEFINED
        if child.spec.restart is Restart.TEMPORARY:
            self._remove(child)
        if self._subject is child:
            self._reply()

    def _start_failed(self, child: Child, reason: ExitReason) -> None:
        child.status = Status.UNDEFINED
        child.record_exit(reason)
        by_hand, ending = self._subject is child, self.phase is Phase.STOPPING
        self._out.tell_failed_start(child, reason, by_hand=by_hand, ending=ending)
        match self._operation:
            case Operation.INIT:  # SUP-306, SUP-309: final at once
                failure = Failure(child.key, reason)
                self._shut_down(failed_to_start(child.key, reason), failure)
            case Operation.RESTART:  # SUP-612: later siblings stay down, a retry is posted
                self._starts.clear()
                self._out.set_timer(child, Status.RESTARTING, self._out.next_delay(child))
            case Operation.ADD:  # SUP-803: the spec is discarded
                self._remove(child)
            case _:  # a start by hand (SUP-805), or one that a shutdown waited for
                pass
        if self._subject is child:
            self._reply_failed(child, reason)

    # --- one event at a time ---------------------------------------------------------------------

    def _serve(self, event: ExitNoticed | TimerDue | Request) -> None:
        """Deal with the next thing in the inbox; nothing is in progress."""
        match event:
            case ExitNoticed():
                child = self.children.get(event.key)
                if child and child.incarnation == event.incarnation:
                    reason = child.take_deferred_exit()
                    if reason is not None:
                        self._exited(child, reason)
            case TimerDue():
                child = self.children.get(event.key)
                if child and child.waits_for(event.token):
                    self._retry(child)
            case AddChild():
                self._add(event)
            case Reconfigure():
                self.spec, old = event.spec, self.children
                specs = self.spec.children or event.made
                self.children = rearranged(old, self.spec, specs, self._out)
                self._significant = None
                self._out.add(Remember(self.spec))
                self._out.add(RequestReply(event.ref))
            case Query():
                self._out.show(event, self.children)
            case TerminateChild() | RestartChild() | DeleteChild() | RetryNow():
                child = self.children.get(event.key)
                if child is None:
                    self._out.refuse(event.ref, Refusal.NOT_FOUND)
                else:
                    self._by_hand(child, event)
            case _:
                assert_never(event)

    def _remember(self, child: Child, spec: SupervisorSpec) -> None:
        """Let the next life of `child`, a supervisor, begin with `spec`, which this one goes by.

        And the next life of this supervisor too, if it is one of those that are listed.
        """
        old, child.spec = child.spec, remembered(child.spec, spec)
        listed = self.spec.children
        if any(one is old for one in listed):
            children = [child.spec if one is old else one for one in listed]
            self.spec = self.spec.replace(children=children)
            self._out.add(Remember(self.spec))

    def _exited(self, child: Child, reason: ExitReason) -> None:
        """A child ended by itself (section 4)."""
        self._out.tell_exit(child, reason)
        what = verdict(child.spec.restart, reason)
        if what is Verdict.RESTART:
            self._restart(child)
            return
        child.status = Status.UNDEFINED
        if what is Verdict.FORGET:
            self._remove(child)
        if child.spec.significant:
            self._lost_significant()

    def _lost_significant(self) -> None:
        """SUP-904: no report is written of it."""
        if self._significant is None:
            self._significant = Significance(self.children.values())
        if self._significant.decide(self.spec.auto_shutdown):
            self._shut_down(SHUTDOWN)

    # --- restarting ------------------------------------------------------------------------------

    def _restart(self, child: Child) -> None:
        """Restart `child` and those the strategy adds, now or after its delay, if allowed."""
        reason = child.last_exit
        delay = 0.0 if child.spec.backoff is None else self._out.next_delay(child)
        if not self._allowed(child):
            return
        child.status = Status.UNDEFINED
        if delay <= 0 and self.spec.strategy is Strategy.ONE_FOR_ONE:  # alone: there is no agenda
            self._out.tell(Fact.RESTARTING, child, reason)
            self._operation = Operation.RESTART
            self._start(child)
            if self._awaited is None:
                self._operation = None  # it is ready already
            return
        group = group_of(child, self.children, self.spec.strategy)
        # A member that is backing off already keeps its delay: the group waits for the longest.
        delay = max([delay, *(c.due - self._out.now for c in group if c.waits)])
        self._out.tell(Fact.RESTARTING, child, reason, delay=delay)
        self._plan_restart(child, group, start=delay <= 0)
        if delay > 0:
            self._out.set_timer(child, Status.BACKING_OFF, delay)

    def _retry(self, child: Child) -> None:
        """Perform the due restart of `child`. One that failed before is counted again (SUP-614)."""
        group = group_of(child, self.children, self.spec.strategy)
        if child.status is Status.BACKING_OFF or self._allowed(child):
            child.status = Status.UNDEFINED
            self._plan_restart(child, group, start=True)
        elif self.phase is Phase.RUNNING:  # it was given up; its group is brought up without it
            self._operation = Operation.RESTART
            self._starts.extend(c for c in group if c is not child and c.status is Status.UNDEFINED)

    def _allowed(self, child: Child) -> bool:
        """Count a restart; if it is one too many, give up the child or the supervisor."""
        outcome = self._out.count(child)
        if outcome is None:
            return True
        child.status = Status.UNDEFINED
        if isinstance(outcome, Failure):
            self._shut_down(SHUTDOWN, outcome)  # SUP-509
        else:
            self._remove(child)
            if child.spec.significant:
                self._lost_significant()
        return False

    def _plan_restart(self, failed: Child, group: list[Child], *, start: bool) -> None:
        """Stop the group in reverse (SUP-605), then start every member (SUP-607)."""
        self._operation = Operation.RESTART
        self._stops.extend(c for c in reversed(group) if c is not failed and (c.live or c.waits))
        if start:
            self._starts.extend(c for c in group if c.spec.restart is not Restart.TEMPORARY)

    # --- requests --------------------------------------------------------------------------------

    def _add(self, event: AddChild) -> None:
        key = event.spec.id
        present = self.children.get(key)
        if present is not None:
            running = present.status is Status.RUNNING
            refusal = Refusal.ALREADY_STARTED if running else Refusal.ALREADY_PRESENT
            self._out.refuse(event.ref, refusal, present)
            return
        child = self.children[key] = Child(event.spec, key)
        if self._significant is not None:
            self._significant.add(child)
        self._begin(Operation.ADD, event.ref, self._starts, child)

    def _by_hand(
        self, child: Child, event: TerminateChild | RestartChild | DeleteChild | RetryNow
    ) -> None:
        """The table of section 8. `ok` for a child that does not run is a reply without one."""
        match event:
            case TerminateChild():
                self._begin(Operation.TERMINATE, event.ref, self._stops, child)
            case RetryNow():
                self._out.add(RequestReply(event.ref, child if child.waits else None))
                if child.waits:
                    self._out.add(CancelTimer(child))
                    self._retry(child)
            case _ if child.live:
                self._out.refuse(event.ref, Refusal.RUNNING, child)
            case _ if child.waits:
                self._out.refuse(event.ref, Refusal.RESTARTING, child)
            case RestartChild():
                self._begin(Operation.START_BY_HAND, event.ref, self._starts, child)
            case DeleteChild():
                self._remove(child)
                self._out.add(RequestReply(event.ref))

    def _begin(self, operation: Operation, ref: object, agenda: deque[Child], child: Child) -> None:
        self._operation = operation
        self._ref, self._subject = ref, child
        self._starts_it = agenda is self._starts
        agenda.append(child)
