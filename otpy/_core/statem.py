"""The machine behind a `GenStateMachine`: the next event, and the effects of its result.

It decides and never acts: events go in, effects come out, and the server that runs it keeps the
time, calls the callbacks and sends the replies. All rules are those of OTP's `gen_statem`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    final,
)

from attrs import define, field, frozen

from otpy._core.checks import is_number
from otpy._core.reason import ExitReason, Normal

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Never

    from typing_extensions import TypeVar as TypeVarWithDefault

    DataT_co = TypeVarWithDefault("DataT_co", covariant=True, default=Never)  # of `Keep()`
else:  # a default is for type checkers, and known to Python since 3.13
    DataT_co = TypeVar("DataT_co", covariant=True)

StateT_co = TypeVar("StateT_co", covariant=True)
S = TypeVar("S")
D = TypeVar("D")


class CallbackMode(Enum):
    """How a `GenStateMachine` handles its events; OTP's `callback_mode`."""

    HANDLE_EVENT_FUNCTION = "handle_event_function"
    """One method, `handle_event`, for all states; a state is any value."""

    STATE_FUNCTIONS = "state_functions"
    """One method for each state, and the state is its name."""


class EventType(Enum):
    """What kind of event it is."""

    CALL = "call"
    """A request whose caller waits for a reply."""

    CAST = "cast"
    """A request that gets no reply."""

    INFO = "info"
    """Any other message."""

    INTERNAL = "internal"
    """An event from the machine itself, by `NextEvent`."""

    ENTER = "enter"
    """The state is entered; the content is the previous state. No other event has this type."""

    STATE_TIMEOUT = "state_timeout"
    """The state has lasted as long as its `StateTimeout` said."""

    EVENT_TIMEOUT = "timeout"
    """No event has come for as long as the `EventTimeout` said."""

    TIMEOUT = "named_timeout"
    """The time of a `Timeout` with a name is over."""


class CanReply(Protocol):
    """A caller that waits for a reply."""

    def reply(self, value: Any) -> None:
        """Give it."""


@final
@frozen
class MachineEvent:
    """An event for a callback of a `GenStateMachine`.

    Attributes:
        type: What kind it is.
        content: The request, message or payload.
        caller: The caller, to be answered by `ReplyTo` or by `caller.reply`; None if not a call.
        name: The name of the expired `Timeout`; else None.
    """

    type: EventType
    content: Any = None
    caller: Any = field(default=None, kw_only=True)
    name: Hashable = field(default=None, kw_only=True)


class Same(Enum):
    """The type of `SAME`."""

    SAME = "same"

    def __repr__(self) -> str:
        """Return the public name."""
        return self.name


SAME: Final = Same.SAME
"""In place of data: those that the machine has."""


# --- actions -------------------------------------------------------------------------------------


@final
@frozen
class ReplyTo:
    """An action: reply to `caller` at once; it may have called long ago."""

    caller: CanReply
    value: Any


@final
@frozen
class Postpone:
    """An action: handle the current event again after the next change of state, before new ones."""


@final
@frozen
class NextEvent:
    """An action: handle this before anything else; several in their order.

    Attributes:
        type: What kind the event is; not `ENTER`.
        content: Its content.
        caller: The caller to answer, if it is to be a call.
        name: The name of a `Timeout`, if it is to be one.
    """

    type: EventType = EventType.INTERNAL
    content: Any = None
    caller: Any = field(default=None, kw_only=True)
    name: Hashable = field(default=None, kw_only=True)


@final
@frozen
class StateTimeout:
    """An action: a `STATE_TIMEOUT` if this state lasts for `seconds`.

    It ends with the state. Another one takes its place; None seconds cancel it. With 0 no message
    can come before it.
    """

    seconds: float | None
    content: Any = None


@final
@frozen
class EventTimeout:
    """An action: an `EVENT_TIMEOUT` if no event comes for `seconds`.

    Any event cancels it. With 0 it comes unless another event is already there; with None never.
    """

    seconds: float | None
    content: Any = None


@final
@frozen
class Timeout:
    """An action: a `TIMEOUT` of this `name` in `seconds`, whatever happens meanwhile.

    Another one of the same name takes its place; None seconds cancel it.
    """

    name: Hashable
    seconds: float | None
    content: Any = None


Timer: TypeAlias = StateTimeout | EventTimeout | Timeout

Action: TypeAlias = ReplyTo | Postpone | NextEvent | StateTimeout | EventTimeout | Timeout
"""The actions that a callback may request."""


_ACTIONS: Final[Any] = (ReplyTo, Postpone, NextEvent, StateTimeout, EventTimeout, Timeout)


def _several(what: str, given: Any, one: Any) -> tuple[Any, ...]:
    """Return what is given, in its order; one may stand alone, as in OTP."""
    if isinstance(given, one):
        return (given,)
    if not isinstance(given, Iterable):
        raise TypeError(f"{what} is {given!r}, wanted one, or several in their order")
    return tuple(given)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _actions(given: Action | Iterable[Action]) -> Sequence[Action]:
    return _several("actions", given, _ACTIONS)


def _replies(given: ReplyTo | Iterable[ReplyTo]) -> Sequence[ReplyTo]:
    return _several("replies", given, ReplyTo)


# --- results -------------------------------------------------------------------------------------


@final
@frozen
class Next(Generic[StateT_co, DataT_co]):
    """Be in `state` from now on; OTP's `next_state`. Also from `init`, for the first state.

    Attributes:
        state: The state; if it equals the one before, this is a `Keep`.
        data: The data that go with it from callback to callback.
        actions: What else is to be done, in this order; one action may stand alone.
    """

    state: StateT_co
    data: DataT_co
    actions: Sequence[Action] = field(default=(), converter=_actions)


@final
@frozen
class Keep(Generic[DataT_co]):
    """Stay in the state, with new `data` or the same; OTP's `keep_state`, `keep_state_and_data`."""

    data: DataT_co | Same = SAME
    actions: Sequence[Action] = field(default=(), converter=_actions)


@final
@frozen
class Repeat(Generic[DataT_co]):
    """As `Keep`, and enter the state once more; OTP's `repeat_state`, `repeat_state_and_data`."""

    data: DataT_co | Same = SAME
    actions: Sequence[Action] = field(default=(), converter=_actions)


@final
@frozen
class End(Generic[DataT_co]):
    """Give the `replies`, call `terminate` and end; OTP's `stop` and `stop_and_reply`.

    Attributes:
        reason: The exit reason its supervisor will see.
        data: The data that `terminate` gets.
        replies: The replies to give before, or one; any other caller gets `CallFailed` with the
            reason.
    """

    reason: ExitReason = field(factory=Normal)
    data: DataT_co | Same = SAME
    replies: Sequence[ReplyTo] = field(default=(), converter=_replies)


_RESULTS: Final[Any] = (Next, Keep, Repeat, End)

StateResult: TypeAlias = Next[S, D] | Keep[D] | Repeat[D] | End[D]
"""The result of a callback, for a machine with states `S` and data `D`."""


# --- effects -------------------------------------------------------------------------------------

TimerKey: TypeAlias = tuple[EventType, "Hashable"]
"""Which timer: its type, and its name if it has one."""


@final
@frozen
class StartTimer:
    """Tell the machine by `fired(key, number)` when `seconds` have passed."""

    key: TimerKey
    number: int
    seconds: float


@final
@frozen
class DropTimer:
    """The timer of this number is of no use any more."""

    number: int


@final
@frozen
class Over:
    """Terminate with `reason`, or because of the `bad` thing that a callback returned."""

    reason: ExitReason | None
    standing: tuple[Any, Any]
    bad: object = None


Effect: TypeAlias = ReplyTo | StartTimer | DropTimer | Over


@define
class _Transition:
    """The collected results for the current event, until all of its callbacks have returned."""

    event: MachineEvent | None  # none for the first state
    standing: tuple[Any, Any]
    next_events: list[MachineEvent] = field(factory=list[MachineEvent])
    timeouts: list[Timer] = field(factory=list[Timer])
    postpone: bool = False
    enters: bool = False
    """Whether the callback that is at work, or is due, is that of an enter call."""


@final
class Machine:
    """One machine. Ask `next` for an event while it is `busy`, and let it `take` each result.

    Attributes:
        standing: Its state and its data, as of the last event that was done with.
        busy: Whether it has an event to hand out before any message.
    """

    __slots__ = (
        "_enter",
        "_number",
        "_postponed",
        "_queue",
        "_timers",
        "_transition",
        "_zeros",
        "standing",
    )

    def __init__(self, *, enter: bool) -> None:
        """Be in no state yet; with `enter`, each state is entered by a callback."""
        self._enter = enter
        self.standing: tuple[Any, Any] = (None, None)
        self._queue: deque[MachineEvent] = deque()
        self._postponed: list[MachineEvent] = []
        self._timers: dict[TimerKey, tuple[int, Any]] = {}  # number 0: it comes without time
        self._zeros: list[TimerKey] = []
        self._number = 0
        self._transition: _Transition | None = None

    @property
    def busy(self) -> bool:
        """Whether it has an event to hand out before any message."""
        return bool(self._transition or self._queue or self._zeros)

    @property
    def postponed(self) -> tuple[MachineEvent, ...]:
        """The events that wait for a change of state, oldest first."""
        return tuple(self._postponed)

    def begin(self, first: Next[Any, Any]) -> list[Effect]:
        """Be in the first state."""
        self.standing = (first.state, first.data)
        self._transition = _Transition(None, self.standing)
        return self._act(first.actions, enter=True)

    def receive(self, event: MachineEvent) -> None:
        """Have a message to handle."""
        self._queue.append(event)

    def fired(self, key: TimerKey, number: int) -> None:
        """Have an event if this timer was not cancelled meanwhile."""
        if self._timers.get(key, (0,))[0] == number:
            self.receive(self._timeout(key))

    def next(self) -> tuple[MachineEvent, Any, Any]:
        """Return the event to handle now, with the state and the data for its callback."""
        transition = self._transition
        if transition is not None:
            return (MachineEvent(EventType.ENTER, self.standing[0]), *transition.standing)
        if not self._queue:
            self._queue.append(self._timeout(self._zeros[0]))
        event = self._queue.popleft()
        self._transition = _Transition(event, self.standing)
        return (event, *self.standing)

    def take(self, result: Any) -> list[Effect]:
        """Continue with the callback's result for the last event handed out."""
        transition = self._transition
        assert transition is not None  # noqa: S101 - an event was handed out
        if not isinstance(result, _RESULTS):
            return [Over(None, transition.standing, result)]
        good: StateResult[Any, Any] = result
        if isinstance(good, End):
            return self._stop(good, transition)
        state, data = transition.standing
        enter = isinstance(good, Repeat)
        if isinstance(good, Next):
            enter = bool(good.state != state)
            if enter and transition.enters:
                return [Over(None, transition.standing, good)]
            state, data = good.state, good.data
        elif good.data is not SAME:
            data = good.data
        transition.standing = (state, data)
        return self._act(good.actions, enter=enter)

    def _stop(self, stop: End[Any], transition: _Transition) -> list[Effect]:
        state, data = transition.standing
        standing = (state, data if stop.data is SAME else stop.data)
        effects: list[Effect] = []
        for reply in stop.replies:
            if not _may_reply(reply):
                return [*effects, Over(None, standing, reply)]
            effects.append(reply)
        if not isinstance(stop.reason, ExitReason):  # pyright: ignore[reportUnnecessaryIsInstance]
            return [*effects, Over(None, standing, stop)]
        return [*effects, Over(stop.reason, standing)]

    def _act(self, actions: Sequence[Action], *, enter: bool) -> list[Effect]:
        """Perform a callback's actions; then enter the state, or finish the event."""
        transition = self._transition
        assert transition is not None  # noqa: S101 - the caller has it
        effects: list[Effect] = []
        for action in actions:
            if isinstance(action, ReplyTo) and _may_reply(action):
                effects.append(action)
            elif isinstance(action, Postpone) and not transition.enters:
                transition.postpone = transition.event is not None  # no event in the first state
            elif isinstance(action, NextEvent) and not transition.enters and _may_come(action):
                transition.next_events.append(_event_of(action))
            elif isinstance(action, (StateTimeout, EventTimeout, Timeout)) and _is_timer(action):
                transition.timeouts.append(action)
            else:
                return [*effects, Over(None, transition.standing, action)]
        if enter and self._enter:
            transition.enters = True
            return effects
        return [*effects, *self._finish(transition)]

    def _finish(self, transition: _Transition) -> list[Effect]:
        """Finish the event: apply `standing`, events and timers from its results."""
        effects: list[Effect] = []
        if transition.postpone and transition.event is not None:
            self._postponed.append(transition.event)
        if transition.standing[0] != self.standing[0]:
            self._queue.extendleft(reversed(self._postponed))
            self._postponed.clear()
            self._cancel((EventType.STATE_TIMEOUT, None), effects)
        self._cancel((EventType.EVENT_TIMEOUT, None), effects)
        self._set_timers(transition.timeouts, effects)
        self._queue.extendleft(reversed(transition.next_events))
        self.standing = transition.standing
        self._transition = None
        return effects

    def _set_timers(self, timeouts: Sequence[Timer], effects: list[Effect]) -> None:
        """Start and cancel timers; of several for one timer the last counts."""
        last: dict[TimerKey, Timer] = {}
        for one in reversed(timeouts):
            last.setdefault(_key_of(one), one)
        zeros: list[TimerKey] = []
        for key, one in last.items():  # the last first, as OTP starts them
            self._cancel(key, effects)
            if one.seconds is None:
                continue
            number = 0
            if one.seconds == 0:
                zeros.append(key)
            else:
                self._number += 1
                number = self._number
                effects.append(StartTimer(key, number, one.seconds))
            self._timers[key] = (number, one.content)
        self._zeros.extend(reversed(zeros))

    def _cancel(self, key: TimerKey, effects: list[Effect]) -> None:
        timer = self._timers.pop(key, None)
        if timer is None:
            return
        if timer[0] == 0:
            self._zeros.remove(key)
        else:
            effects.append(DropTimer(timer[0]))

    def _timeout(self, key: TimerKey) -> MachineEvent:
        """Return the event of a timer, which is none any more."""
        number, content = self._timers.pop(key)
        if number == 0:
            self._zeros.remove(key)
        return MachineEvent(key[0], content, name=key[1])


def _key_of(timeout: Timer) -> TimerKey:
    if isinstance(timeout, StateTimeout):
        return (EventType.STATE_TIMEOUT, None)
    if isinstance(timeout, EventTimeout):
        return (EventType.EVENT_TIMEOUT, None)
    return (EventType.TIMEOUT, timeout.name)


def _is_timer(timeout: Timer) -> bool:
    """Whether its time is one, and its name can be looked up."""
    try:
        hash(_key_of(timeout))
    except TypeError:
        return False
    return timeout.seconds is None or (is_number(timeout.seconds) and timeout.seconds >= 0)


def _event_of(action: NextEvent) -> MachineEvent:
    return MachineEvent(action.type, action.content, caller=action.caller, name=action.name)


def _may_reply(reply: object) -> bool:
    """Whether it is a reply to somebody: only a call has a caller."""
    return isinstance(reply, ReplyTo) and callable(getattr(reply.caller, "reply", None))


def _may_come(action: NextEvent) -> bool:
    return isinstance(action.type, EventType) and action.type is not EventType.ENTER  # pyright: ignore[reportUnnecessaryIsInstance]


def is_first(result: object) -> TypeGuard[Next[Any, Any]]:
    """Whether `result` is what `init` is to return."""
    return isinstance(result, Next)
