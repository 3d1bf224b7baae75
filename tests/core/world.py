"""A world in memory: it performs what a machine decides, and records it.

The trace is in the notation of the golden traces: `s x` x started, `f x` its start failed, `i x` it
declined to start, `die x` it ended by itself, `q x` it was asked to end, `k x` it was killed, `z x`
it has ended, `h x` it was told that time runs short. The world fails the test if the machine starts
what runs, stops what does not run, answers a request twice, or does anything after its last effect.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otpy._core.child import Child
from otpy._core.dynamic import DynamicMachine
from otpy._core.effects import EVERYBODY, Audience
from otpy._core.machine import SupervisorMachine
from otpy._core.protocol import (
    AddChild,
    Begin,
    CancelTimer,
    ChildIgnored,
    ChildReady,
    Context,
    Effect,
    Event,
    ExitNoticed,
    Fact,
    Finish,
    GoOn,
    HasteAsked,
    Hasten,
    Hurry,
    KillAsked,
    KillChild,
    Later,
    Pause,
    Ready,
    Refusal,
    Remember,
    RequestReply,
    SetTimer,
    ShutdownAsked,
    StartFailure,
    StopChild,
    Tell,
    TimerDue,
)
from otpy._core.reason import Crashed, Killed, Shutdown
from otpy._core.spec import ChildSpec, DynamicSpec, SupervisorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otpy._core.protocol import Request
    from otpy._core.reason import ExitReason
    from otpy._core.spec import AnySpec

Machine: TypeAlias = SupervisorMachine | DynamicMachine
News: TypeAlias = ChildReady | StartFailure | ChildIgnored | ExitNoticed

BOOM: Final = Crashed(RuntimeError("boom"))
NOPE: Final = Crashed(RuntimeError("nope"))
HELD: Final = "held"


async def work(*, task_status: object) -> None:
    """Stand in for a child that reports when it is ready; no machine ever runs it."""


async def swift() -> None:
    """Stand in for a child that is ready at once."""


def child(id: str, **fields: Any) -> ChildSpec:
    """Return the spec of a child."""
    return ChildSpec(id, work, **fields)


def tree(*children: AnySpec | str, **fields: Any) -> SupervisorSpec:
    """Return a supervisor over `children`; a name stands for a permanent child."""
    specs = [child(c) if isinstance(c, str) else c for c in children]
    return SupervisorSpec("top", specs, **fields)


class World:
    """A test double that performs the effects of one machine.

    Attributes:
        trace: What happened, in order.
        live: The living children, starting and stopping ones included, with their incarnation.
        unready: Those of them whose start has not succeeded yet.
        asked: Those of them that were told to end.
        hurried: Those of them whose start was to be hurried.
        reasons: The reasons with which children were asked to end, if any.
        remembered: The specs with which the machine wants to be started again, latest last.
        later: The events that the machine gets later, and after how many seconds.
        news: The events of children that the machine has not got yet.
        timers: When the restart of a child is due, and the token of its timer.
        starts: The results of a child's next starts, one letter each: `s`, `f`, `i`, or `h` if
            the test decides later. A child without a plan starts.
        ends: The reason of a child that is told to end, or `HELD` if the test decides later.
    """

    def __init__(
        self,
        spec: SupervisorSpec | DynamicSpec,
        *,
        starts: Mapping[str, str] | None = None,
        ends: Mapping[str, ExitReason | str] | None = None,
        manual: bool = False,
        now: float = 0.0,
        audience: Audience = EVERYBODY,
    ) -> None:
        self.machine: Machine = (
            DynamicMachine(spec, lambda: 0.5, audience)
            if isinstance(spec, DynamicSpec)
            else SupervisorMachine(spec, lambda: 0.5, audience)
        )
        self.now = now
        self.manual = manual
        self.starts = {key: deque(plan) for key, plan in (starts or {}).items()}
        self.ends = dict(ends or {})
        self.trace: list[str] = []
        self.live: dict[str, int] = {}
        self.unready: set[str] = set()
        self.asked: set[str] = set()
        self.killed: set[str] = set()
        self.hurried: list[str] = []
        self.reasons: dict[str, ExitReason] = {}
        self.later: list[tuple[float, GoOn | HasteAsked | KillAsked]] = []
        self.news: deque[News | TimerDue] = deque()
        self.timers: dict[str, tuple[float, int]] = {}
        self.delays: list[float] = []
        self.tells: list[Tell] = []
        self.replies: dict[object, RequestReply] = {}
        self.remembered: list[SupervisorSpec] = []
        self.ready = False
        self.finish: Finish | None = None

    # --- what tests do ---------------------------------------------------------------------------

    def begin(self) -> World:
        """Start everything, forget the trace, and return the world."""
        self.send(Begin())
        self.forget()
        return self

    def forget(self) -> None:
        """Clear the trace, the facts and the delays."""
        self.trace.clear()
        self.tells.clear()
        self.delays.clear()

    def send(self, *events: Event | ExitNoticed) -> None:
        """Hand `events` to the machine, then all events that follow."""
        for event in events:
            self.take(event)
        self.drain()

    def drain(self) -> None:
        """Hand all waiting events to the machine, oldest first, until none is left."""
        while self.news:
            self.take(self.news.popleft())

    def die(self, *keys: str, reason: ExitReason = BOOM) -> None:
        """Let children end by themselves, all before the machine learns of the first."""
        for key in keys:
            self.end(key, reason, word="die")
        self.drain()

    def settle(self, key: str, how: str) -> None:
        """Let the held start of `key` go as the letter `how` says, and go on."""
        self.answer(key, how)
        self.drain()

    def gone(self, key: str, reason: ExitReason | None = None) -> None:
        """Let the held stop of `key` be over, and go on."""
        self.end(key, reason)
        self.drain()

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire the timers that become due."""
        until = self.now + seconds
        while self.timers:
            key, (due, token) = min(self.timers.items(), key=lambda item: item[1])
            if due > until:
                break
            self.now = max(self.now, due)
            del self.timers[key]
            self.send(TimerDue(key, token))
        self.now = until

    def ask(self, request: Request) -> RequestReply:
        """Send a request and return its reply, which must have come."""
        self.send(request)
        return self.replies[request.ref]

    def add(self, spec: AnySpec | str) -> RequestReply:
        """Add a child and return the reply."""
        return self.ask(AddChild(object(), child(spec) if isinstance(spec, str) else spec))

    def stop(self, reason: ExitReason | None = None) -> None:
        """Ask the machine to end in order."""
        self.send(ShutdownAsked(reason or Shutdown()))

    def kill(self, grace: float = 0.0) -> None:
        """Ask the machine to end as killed, at once or after `grace` seconds."""
        self.send(KillAsked(grace))

    def elapse(self) -> None:
        """Hand the earliest later event to the machine, when its time is over."""
        self.later.sort(key=lambda entry: entry[0])
        delay, event = self.later.pop(0)
        self.now += delay
        self.later = [(rest - delay, other) for rest, other in self.later]
        self.send(event)

    # --- what tests look at ----------------------------------------------------------------------

    @property
    def children(self) -> Mapping[str, Child]:
        """The machine's table."""
        return self.machine.children

    def status(self, key: str) -> str:
        """Return the status of `key`, in words."""
        return self.children[key].status.value

    @property
    def up(self) -> list[str]:
        """The running children, in start order."""
        return [key for key, c in self.children.items() if c.status.value == "running"]

    def contexts(self) -> list[tuple[str, Context]]:
        """Return the error reports so far: the child, and the context."""
        return [(t.child.key, t.context) for t in self.tells if t.child and t.context]

    def facts(self, *wanted: Fact) -> list[tuple[str, Fact]]:
        """Return the facts reported so far, or the wanted ones only."""
        return [
            (t.child.key if t.child else "", t.fact)
            for t in self.tells
            if not wanted or t.fact in wanted
        ]

    def restarts_counted(self) -> int:
        """Return how many restarts the machine has counted, over all windows."""
        limits = self.machine._out._limits
        states = [c.restart_state for c in self.children.values() if c.restart_state is not None]
        own = [state.window for state in states if state.window is not None]
        return len(limits._window) + sum(len(window) for window in own)

    # --- what happens ----------------------------------------------------------------------------

    def take(self, event: Event | ExitNoticed) -> Sequence[Effect]:
        """Hand one event to the machine and perform its effects."""
        if isinstance(event, ExitNoticed):
            whose = self.children.get(event.key) or Child(child(event.key), event.key)
            effects = [*self.machine.exited(whose, event.incarnation, event.reason, self.now)]
        else:
            effects = [*self.machine.handle(event, self.now)]
        for effect in effects:
            self.perform(effect)
        return effects

    def perform(self, effect: Effect) -> None:
        """Perform the effect, or fail the test."""
        assert self.finish is None or isinstance(effect, RequestReply), f"{effect} after the end"
        match effect:
            case Child():
                self._start(effect)
            case StopChild() | KillChild():
                self._stop(effect)
            case Hasten() | Later():
                self._hasten(effect)
            case SetTimer():
                key = effect.child.key
                assert key not in self.timers, f"two timers for {key}"
                self.delays.append(effect.delay)
                if effect.delay > 0 or self.manual:
                    self.timers[key] = (self.now + effect.delay, effect.token)
                else:
                    self.news.append(TimerDue(key, effect.token))
            case CancelTimer():
                key = effect.child.key
                self.timers.pop(key, None)
                for news in [n for n in self.news if isinstance(n, TimerDue) and n.key == key]:
                    self.news.remove(news)
            case Hurry():
                assert effect.child.key in self.unready or self._dying(effect.child)
                self.hurried.append(effect.child.key)
            case Tell():
                self.tells.append(effect)
            case RequestReply():
                assert effect.ref not in self.replies, f"{effect.ref} was answered twice"
                self.replies[effect.ref] = effect
            case Remember():
                self.remembered.append(effect.spec)
            case Pause():
                self.later.append((0.0, GoOn()))
            case Ready():
                assert not self.ready, "ready twice"
                self.ready = True
            case Finish():
                assert not self.live, f"ended while {sorted(self.live)} live"
                assert not self.timers, f"ended while {sorted(self.timers)} wait"
                self.finish = effect

    def _start(self, child: Child) -> None:
        key = child.key
        assert key not in self.live, f"{key} was started while it runs"
        assert key not in self.timers, f"{key} was started and its timer is set"
        self.live[key] = child.incarnation
        if child.spec.ready_at_once:
            self.trace.append(f"s {key}")
            return
        self.unready.add(key)
        plan = self.starts.get(key)
        how = plan.popleft() if plan else "h" if self.manual else "s"
        if how != "h":
            self.answer(key, how)

    def _hasten(self, effect: Hasten | Later) -> None:
        if isinstance(effect, Later):
            self.later.append((effect.delay, effect.event))
            return
        key = effect.child.key
        assert self._dying(effect.child) or key in self.asked or key in self.hurried
        self.trace.append(f"h {key}")

    def _stop(self, effect: StopChild | KillChild) -> None:
        key = effect.child.key
        if key not in self.live:
            assert self._dying(effect.child), f"{key} was stopped and does not run"
            return
        kill = isinstance(effect, KillChild) or effect.kill
        if isinstance(effect, StopChild) and effect.reason is not None:
            self.reasons[key] = effect.reason
        assert kill or key not in self.asked, f"{key} was asked twice"
        self.asked.add(key)
        if kill:
            self.killed.add(key)
        self.trace.append(f"{'k' if kill else 'q'} {key}")
        end = HELD if self.manual else self.ends.get(key)
        if end is None:
            self.end(key)
        elif not isinstance(end, str):
            self.end(key, end)

    def _dying(self, child: Child) -> bool:
        """Whether an event of the present incarnation is on the way."""
        news = [n for n in self.news if not isinstance(n, TimerDue)]
        return any((n.key, n.incarnation) == (child.key, child.incarnation) for n in news)

    def answer(self, key: str, how: str) -> None:
        """Let a start succeed (`s`), fail (`f`) or be declined (`i`); the machine is not told."""
        incarnation = self.live[key]
        self.unready.remove(key)
        self.trace.append(f"{how} {key}")
        match how:
            case "s":
                self.news.append(ChildReady(key, incarnation))
            case "f":
                self._bury(key)
                self.news.append(StartFailure(key, incarnation, NOPE))
            case "i":
                self._bury(key)
                self.news.append(ChildIgnored(key, incarnation))
            case _:
                raise AssertionError(how)

    def end(self, key: str, reason: ExitReason | None = None, word: str = "z") -> None:
        """Let a child end; the machine is not told."""
        if reason is None:
            reason = Killed() if key in self.killed else Shutdown()
        incarnation = self.live[key]
        news = StartFailure if key in self.unready else ExitNoticed
        self._bury(key)
        self.trace.append(f"{word} {key}")
        self.news.append(news(key, incarnation, reason))

    def _bury(self, key: str) -> None:
        del self.live[key]
        self.unready.discard(key)
        self.asked.discard(key)
        self.killed.discard(key)


def refusals(world: World) -> Counter[Refusal | None]:
    """Return how many requests were refused, by kind; None counts the granted ones."""
    return Counter(reply.refusal for reply in world.replies.values())
