"""The callbacks with which a `Server` runs a `GenStateMachine`: each message is an event of its.

There is no loop here: whatever is to be handled before the next message (what was postponed, an
enter call, a `NextEvent`, a timeout of 0) is what the server is to continue with.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, final

from attrs import frozen

from otpy._core.statem import (
    CallbackMode,
    DropTimer,
    EventType,
    Machine,
    MachineEvent,
    ReplyTo,
    StartTimer,
    TimerKey,
    is_first,
)
from otpy._core.text import shown
from otpy.behaviours.mailbox import Info
from otpy.behaviours.results import Init, NoReply, Stop
from otpy.behaviours.server import Server
from otpy.errors import BadReturn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy._core.reason import ExitReason
    from otpy._core.statem import Effect
    from otpy._runtime.process import LiveProcess
    from otpy.behaviours.results import Result
    from otpy.behaviours.server_timer import ServerTimer

_MORE = object()  # to continue with


class StateMachine(Protocol):
    """The user's code: a `GenStateMachine`."""

    callback_mode: ClassVar[CallbackMode]
    state_enter: ClassVar[bool]

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Return the first state and data."""
        ...

    def handle_event(self, event: MachineEvent, state: Any, data: Any, /) -> Any:
        """Handle an event."""
        ...

    def terminate(self, reason: ExitReason, state: Any, data: Any, /) -> object:
        """Clean up."""
        ...


@final
@frozen
class _Fired:
    """The message of a timer."""

    key: TimerKey
    number: int


@final
class StatemCallbacks:
    """Stands between the server of `process` and its machine, whose effects it carries out."""

    __slots__ = ("_last", "_machine", "_process", "_timers", "_user")

    def __init__(self, process: LiveProcess, make: Callable[[], StateMachine]) -> None:
        """Make the callbacks of the user."""
        self._process = process
        self._user = make()
        self._machine = Machine(enter=self._user.state_enter)
        self._timers: dict[int, ServerTimer] = {}
        self._last: tuple[Any, Any] | None = None  # what `terminate` gets, where it is not the old

    def init(self, *args: Any, **kwargs: Any) -> Any:
        """Call `init`."""
        result: Any = self._user.init(*args, **kwargs)
        return self._begun_later(result) if inspect.isawaitable(result) else self._begun(result)

    async def _begun_later(self, result: Awaitable[Any]) -> Init[Any]:
        return self._begun(await result)

    def _begun(self, result: Any) -> Init[Any]:
        if not is_first(result):
            raise BadReturn(self._process.path, f"{shown(result)} from init")
        self._perform(self._machine.begin(result), " from init")
        return Init(self._machine.standing, continue_with=_MORE)

    def handle_call(self, request: Any, caller: Any, state: Any) -> Any:
        """Handle a call."""
        return self._receive(MachineEvent(EventType.CALL, request, caller=caller), state)

    def handle_cast(self, request: Any, state: Any) -> Any:
        """Handle a cast."""
        return self._receive(MachineEvent(EventType.CAST, request), state)

    def handle_info(self, message: Any, state: Any) -> Any:
        """Handle any other message, or a timer's event."""
        if not isinstance(message, _Fired):
            return self._receive(MachineEvent(EventType.INFO, message), state)
        self._machine.standing = state
        self._timers.pop(message.number, None)
        self._machine.fired(message.key, message.number)
        return self._go_on()

    def handle_continue(self, value: Any, state: Any) -> Any:  # noqa: ARG002 - an interface
        """Handle events that come before any message."""
        return self._go_on()

    def terminate(self, reason: ExitReason, state: Any) -> Any:
        """Call `terminate`."""
        return self._user.terminate(reason, *(state if self._last is None else self._last))

    def _receive(self, event: MachineEvent, state: Any) -> Any:
        self._machine.standing = state  # somebody may have replaced it
        self._machine.receive(event)
        return self._go_on()

    def _go_on(self) -> Any:
        """Call the user for the next event, if there is one."""
        if not self._machine.busy:
            return NoReply(self._machine.standing)
        event, state, data = self._machine.next()
        if self._user.callback_mode is CallbackMode.STATE_FUNCTIONS:
            result: Any = getattr(self._user, state)(event, data)
        else:
            result = self._user.handle_event(event, state, data)
        return self._took_later(result) if inspect.isawaitable(result) else self._took(result)

    async def _took_later(self, result: Awaitable[Any]) -> Result[Any]:
        return self._took(await result)

    def _took(self, result: object) -> Result[Any]:
        stop = self._perform(self._machine.take(result))
        if stop is not None:
            return stop
        machine = self._machine
        return NoReply(machine.standing, continue_with=_MORE if machine.busy else None)

    def _perform(self, effects: list[Effect], where: str = "") -> Stop[Any, Any] | None:
        for effect in effects:
            match effect:
                case ReplyTo(caller, value):
                    caller.reply(value)
                case StartTimer(key, number, seconds):
                    server = self._process.behaviour
                    assert isinstance(server, Server)  # noqa: S101 - it is what calls this
                    self._timers[number] = server.start_timer(seconds, Info(_Fired(key, number)))
                case DropTimer(number):
                    timer = self._timers.pop(number, None)
                    if timer is not None:
                        timer.cancel()
                case _:
                    self._last = effect.standing
                    if effect.reason is None:
                        raise BadReturn(self._process.path, f"{shown(effect.bad)}{where}")
                    return Stop(effect.reason, effect.standing)
        return None
