"""A world that checks the promises at every step."""

from __future__ import annotations

from collections import Counter
from math import floor
from typing import TYPE_CHECKING, Any, cast

from otpy._core.child import Child
from otpy._core.machine import SupervisorMachine
from otpy._core.phase import Operation, Phase
from otpy._core.protocol import (
    ChildIgnored,
    ChildReady,
    Fact,
    Failure,
    RequestReply,
    SetTimer,
    StopChild,
    Tell,
    TerminateChild,
    TimerDue,
)
from otpy._core.reason import Restart
from otpy._core.spec import INFINITY, ChildSpec, DynamicSpec, Strategy, SupervisorSpec, Then
from tests.core.world import News, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otpy._core.limits import RestartLimits
    from otpy._core.protocol import Effect, Event, ExitNoticed, Request

_ENDS = (Fact.EXITED, Fact.STOPPED, Fact.START_FAILED)


class _Limits:
    """A layer between a machine and its limits that computes SUP-503 in the simple way."""

    def __init__(self, limits: RestartLimits, spec: SupervisorSpec | DynamicSpec) -> None:
        self._limits = limits
        self._spec = spec
        self._counted: dict[Child | None, list[int]] = {}
        self.calls: list[Child] = []

    def count(self, child: Child, now: float) -> Failure | Then | None:
        """Count, and compare the result."""
        self.calls.append(child)
        own = child.spec.intensity if isinstance(child.spec, ChildSpec) else None
        limit, period = self._spec.intensity, self._spec.period
        if own is not None:
            limit, period = own.max_restarts, own.within
        times = self._counted.setdefault(child if own else None, [])
        times[:] = [t for t in times if t >= floor(now) - period] + [floor(now)]
        outcome = self._limits.count(child, now)
        assert (outcome is None) is (limit is INFINITY or len(times) <= limit)
        if outcome is not None:
            wanted = Then.GIVE_UP if own and own.then is Then.GIVE_UP else None
            assert outcome is wanted or (wanted is None and isinstance(outcome, Failure))
        return outcome


class Witness(World):
    """A world in which the test decides every step, and every step is checked."""

    def __init__(self, spec: SupervisorSpec | DynamicSpec) -> None:
        super().__init__(spec, manual=True)
        self.limits = _Limits(self.machine._out._limits, spec)
        cast("Any", self.machine._out)._limits = self.limits
        self.history: list[tuple[Child | None, News | TimerDue]] = []
        self.requests: dict[object, Request] = {}
        self.told: Counter[tuple[Child, int]] = Counter()
        self.owed: set[tuple[Child, int]] = set()
        self.excused: set[str] = set()
        self.waited: set[str] = set()  # waited for a restart when the operation began
        self.broken = False

    def request(self, request: Request) -> None:
        """Send a request; its reply may come later."""
        self.requests[request.ref] = request
        self.take(request)

    def deliver(self) -> None:
        """Hand the oldest event to the machine."""
        news = self.news.popleft()
        assert not isinstance(news, TimerDue)
        child = self.children.get(news.key)
        assert child is not None, f"{news} is about nobody"
        assert child.incarnation == news.incarnation, f"{news} comes too late"
        if not isinstance(news, ChildReady | ChildIgnored):
            self.owed.add((child, news.incarnation))
        self.history.append((child, news))
        self.take(news)

    def smooth(self) -> None:
        """Let every start succeed and every stop be over, until nothing is in progress."""
        for _ in range(200):
            for key in sorted(self.unready):
                self.answer(key, "s")
            for key in sorted(self.asked):
                self.end(key)
            if not self.news:
                return
            while self.news:
                self.deliver()
                self.check_quiet()
        raise AssertionError("it never comes to rest")

    def due(self, key: str) -> None:
        """Let the timer of `key` be due now."""
        due, token = self.timers.pop(key)
        self.now = max(self.now, due)
        event = TimerDue(key, token)
        self.history.append((None, event))
        self.take(event)

    def replay(self, child: Child | None, event: News | TimerDue) -> None:
        """Hand an old event to the machine once more: it must not react."""
        present = self.children.get(event.key)
        namesake = child is not None and present is not None and present is not child
        if not namesake:
            assert self.take(event) == []

    # --- checks ----------------------------------------------------------------------------------

    def take(self, event: Event | ExitNoticed) -> Sequence[Effect]:
        """Hand an event over, and check the effects."""
        self.waited |= {key for key, child in self.children.items() if child.waits}
        self.broken = True
        self.limits.calls.clear()
        effects = super().take(event)
        restarting = [e.child for e in effects if isinstance(e, Tell) and e.fact is Fact.RESTARTING]
        gave_up = [e for e in effects if isinstance(e, Tell) and e.fact in _GAVE_UP]
        assert len(self.limits.calls) >= len(restarting) + len(gave_up)
        for effect in effects:
            self._note(effect)
        if isinstance(event, ChildIgnored):
            self.excused.add(event.key)
        assert not any(n > 1 for n in self.told.values()), "an end was told twice"
        if isinstance(self.machine, SupervisorMachine) and self.machine.phase is Phase.RUNNING:
            assert len(self.unready | self.asked) <= 1, "two things at once"
        self.broken = False
        if self.machine.settled:
            self.waited.clear()
        return effects

    def _note(self, effect: Effect) -> None:
        match effect:
            case Tell(child=child, fact=fact) if child is not None:
                if fact in _ENDS:
                    self.told[child, effect.incarnation] += 1
                if fact is Fact.STARTED:
                    self.excused.discard(child.key)
            case SetTimer(child=child):
                self.waited.add(child.key)
            case RequestReply(ref=ref, refusal=None) if isinstance(
                self.requests[ref], TerminateChild
            ):
                self._excuse(cast("TerminateChild", self.requests[ref]).key)
            case RequestReply(child=child) if child is not None:
                if child.status.value == "undefined":  # its start by hand did not succeed
                    self.excused.add(child.key)
            case _:
                pass

    def _excuse(self, key: str) -> None:
        """Excuse a child stopped by hand, and with it a group restart that waited for it."""
        self.excused.add(key)
        if key in self.waited:
            self.waited.remove(key)
            spec = self.machine.spec
            if isinstance(spec, SupervisorSpec) and spec.strategy is not Strategy.ONE_FOR_ONE:
                self.excused |= {k for k, c in self.children.items() if not c.live}

    def perform(self, effect: Effect) -> None:
        """Check the order of starts and stops, and perform them."""
        if isinstance(effect, Child | StopChild) and isinstance(self.machine, SupervisorMachine):
            self._check_order(effect, self.machine)
        super().perform(effect)

    def _check_order(self, effect: Child | StopChild, machine: SupervisorMachine) -> None:
        """Check that one operation starts children in start order and stops them in reverse."""
        alone = machine.spec.strategy is Strategy.ONE_FOR_ONE
        match machine._operation:
            case Operation.INIT | Operation.ADD | Operation.SHUTDOWN:
                pass
            case Operation.RESTART if not alone:
                pass
            case _:
                return
        if isinstance(effect, Child) and machine.spec.strategy is Strategy.ONE_FOR_ALL:
            waiting = [key for key, child in self.children.items() if child.waits]
            restart = machine._operation is Operation.RESTART
            assert not (restart and waiting), f"{waiting} wait, and still the group starts"
        keys = list(machine.children)
        child = effect if isinstance(effect, Child) else effect.child
        later = keys[keys.index(child.key) + 1 :]
        assert not [key for key in later if key in self.live], f"{effect} is out of order"

    def check_quiet(self) -> None:
        """Check the promises that hold whenever nothing is in progress."""
        machine = self.machine
        if self.news or not machine.settled or machine.phase is Phase.STOPPING:
            return
        assert set(self.replies) >= set(self.requests), "a request was not answered"
        assert self.owed <= set(self.told), "an end was not told"
        assert not self.unready | self.asked, "a start or a stop is not awaited"
        if machine.phase is not Phase.RUNNING:
            return
        status = {key: child.status.value for key, child in machine.children.items()}
        assert {k for k, s in status.items() if s == "running"} == set(self.live)
        assert {k for k, s in status.items() if s in _WAITING} == set(self.timers)
        if self.timers:
            return
        down = {
            key
            for key, child in machine.children.items()
            if status[key] == "undefined" and child.spec.restart is Restart.PERMANENT
        }
        assert down <= self.excused, f"{sorted(down - self.excused)} are down, nobody wanted it"


_GAVE_UP = (Fact.GAVE_UP, Fact.CHILD_GAVE_UP)
_WAITING = ("backing off", "restarting")
