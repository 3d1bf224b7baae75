"""The machine of a `GenStateMachine` under random results: no event is lost or doubled."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from otpy._core.reason import Normal
from otpy._core.statem import (
    DropTimer,
    End,
    EventTimeout,
    EventType,
    Keep,
    Machine,
    MachineEvent,
    Next,
    NextEvent,
    Over,
    Postpone,
    Repeat,
    StartTimer,
    StateTimeout,
    Timeout,
)

TIMEOUTS = st.one_of(
    st.builds(StateTimeout, st.sampled_from([None, 0, 1.5]), st.integers()),
    st.builds(EventTimeout, st.sampled_from([None, 0, 1.5]), st.integers()),
    st.builds(Timeout, st.sampled_from("xy"), st.sampled_from([None, 0, 1.5]), st.integers()),
)


class Histories(RuleBasedStateMachine):
    """Events come and timers fire in any order, and callbacks return any result."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(enter=True)
        self.sent = 0
        self.consumed: list[int] = []
        self.running: dict[int, Any] = {}
        self.in_hand: MachineEvent | None = None
        self.perform(self.machine.begin(Next("a", 0)))

    def perform(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, StartTimer):
                assert effect.number not in self.running
                assert effect.key not in self.running.values()
                self.running[effect.number] = effect.key
            elif isinstance(effect, DropTimer):
                del self.running[effect.number]

    @precondition(lambda self: not self.machine.busy)
    @rule()
    def send(self) -> None:
        """A message comes while the machine is at rest."""
        self.sent += 1
        self.machine.receive(MachineEvent(EventType.CAST, self.sent))

    @precondition(lambda self: self.running and not self.machine.busy)
    @rule(data=st.data())
    def fire(self, data: st.DataObject) -> None:
        """A running timer fires, with exactly one event."""
        number = data.draw(st.sampled_from(sorted(self.running)))
        key = self.running.pop(number)
        self.machine.fired(key, number)
        assert self.machine.busy
        self.handle(Keep())
        assert self.in_hand is not None
        assert (self.in_hand.type, self.in_hand.name) == key
        self.machine.fired(key, number)
        assert not self.machine.busy

    @precondition(lambda self: self.machine.busy)
    @rule(
        state=st.sampled_from("abc"),
        kind=st.sampled_from(["next", "keep", "repeat"]),
        postpone=st.booleans(),
        again=st.booleans(),
        timeouts=st.lists(TIMEOUTS, max_size=3),
    )
    def go_on(self, state: str, kind: str, postpone: bool, again: bool, timeouts: Any) -> None:
        """The machine handles the next event."""
        event, old, _ = self.machine.next()
        self.in_hand = event
        actions = list(timeouts)
        enters = event.type is EventType.ENTER
        if postpone and not enters:
            actions.append(Postpone())
        if again and not enters and event.type is EventType.CAST:
            actions.append(NextEvent(EventType.INTERNAL, event.content))
        if event.type is EventType.CAST and not postpone:
            self.consumed.append(event.content)
        if kind == "next" and not enters:
            result: Any = Next(state, 0, actions)
        elif kind == "repeat" and not enters:
            result = Repeat(0, actions)
        else:
            result = Keep(0, actions)
        effects = self.machine.take(result)
        assert not [effect for effect in effects if isinstance(effect, Over)]
        self.perform(effects)
        if kind == "next" and not enters and state != old:
            assert self.machine.busy  # it is about to enter

    def handle(self, result: Any) -> None:
        self.in_hand, _, _ = self.machine.next()
        self.perform(self.machine.take(result))

    @precondition(lambda self: self.machine.busy)
    @rule()
    def enter_elsewhere(self) -> None:
        """An enter call that wants another state ends the machine, and changes nothing."""
        event, state, data = self.machine.next()
        self.in_hand = event
        if event.type is EventType.ENTER:
            (over,) = self.machine.take(Next("elsewhere", 1))
            assert isinstance(over, Over)
            assert (over.reason, over.standing) == (None, (state, data))
        else:
            (over,) = self.machine.take(End())
            assert isinstance(over, Over)
            assert over.reason == Normal()
        self.perform(self.machine.take(Keep()))
        if event.type is EventType.CAST:
            self.consumed.append(event.content)

    @invariant()
    def every_message_is_somewhere_once(self) -> None:
        """In a machine at rest, each message was handled or is postponed, and none twice."""
        if not self.machine.busy:
            waiting = [e.content for e in self.machine.postponed if e.type is EventType.CAST]
            assert sorted([*self.consumed, *waiting]) == list(range(1, self.sent + 1))

    @invariant()
    def what_is_postponed_keeps_its_order(self) -> None:
        """Postponed messages wait for a change of state in order of arrival."""
        waiting = [e.content for e in self.machine.postponed if e.type is EventType.CAST]
        assert waiting == sorted(waiting)


TestHistories = Histories.TestCase
