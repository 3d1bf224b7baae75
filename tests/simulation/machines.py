"""State machines that account for every event, at the same desk as servers."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import otpy
from otpy import ExitReason, GenStateMachine, Shutdown
from otpy.signals import Down, ExitSignal
from otpy.statem import (
    Action,
    CallbackMode,
    End,
    EventTimeout,
    EventType,
    Keep,
    MachineEvent,
    Next,
    NextEvent,
    Postpone,
    Repeat,
    ReplyTo,
    StateTimeout,
    Timeout,
)
from tests.simulation.servers import Book, Desk, Order, crashed, heard, watch

Result: TypeAlias = "Next[str, Book] | Keep[Book] | Repeat[Book] | End[Book]"


class Gate(GenStateMachine[Order, int, str, Book]):
    """A machine that serves orders while it is open, and postpones them while it is shut."""

    state_enter = True
    before = "open"  # the last state before the present one

    def init(self, seed: int) -> Any:
        """Open with an empty book; some trap exits or have more to do."""
        if seed % 2 == 0:
            self.trap_exit()
        book = Book(must=seed % 5 == 0)
        return Next("open", book, [NextEvent(content="begin")] if book.must else [])

    def handle_event(self, event: MachineEvent, state: str, data: Book) -> Any:
        """Handle the event."""
        desk, content = Desk.current(), event.content
        match event.type:
            case EventType.ENTER:
                return self._enter(content, state)
            case EventType.INTERNAL:
                desk.expect(data.must and content in ("begin", "more"), "had {} next", content)
                data.must = False
                return Keep()
            case EventType.STATE_TIMEOUT:
                desk.expect(state == "shut", "a {} gate was to open", state)
                return Next("open", data)
            case EventType.EVENT_TIMEOUT:
                desk.expect(content == "idle", "{} came from nowhere", content)
                return Keep()
            case EventType.TIMEOUT:
                return Keep(actions=[ReplyTo(content, event.name)])
            case _ if isinstance(content, Down):
                heard(content, data)
                return Keep()
            case _ if isinstance(content, ExitSignal):
                return End(Shutdown("signal"))
            case _ if state == "shut":
                return Keep(actions=[Postpone()])
            case EventType.CALL:
                desk.take(content, data)
                return _answer(content, event.caller, data)
            case _:
                desk.take(content, data)
                watch(self, content, data)
                shuts = content.what == "busy" or content.number % 2
                return Next("shut", data) if shuts else Keep()

    def _enter(self, left: object, state: str) -> Keep[Book]:
        """Record the time until which the machine is shut, and so need not serve."""
        desk, me = Desk.current(), otpy.current()
        desk.expect(left == self.before, "{} left {}, not {}", me.path, left, self.before)
        self.before = state
        if state == "open":
            desk.shut.pop(me, None)
            return Keep()
        desk.shut[me] = asyncio.get_running_loop().time() + 0.5
        desk.held.add(me)
        return Keep(actions=[StateTimeout(0.5)])

    def terminate(self, reason: ExitReason, state: str, data: Book) -> Any:
        """Record the end."""
        desk, me = Desk.current(), otpy.current()
        desk.expect(me not in desk.ended, "{} was terminated twice ({})", me.path, reason)
        desk.ended[me] = reason


class Turnstile(Gate):
    """The same machine, with a method for each state."""

    callback_mode = CallbackMode.STATE_FUNCTIONS

    def open(self, event: MachineEvent, data: Book) -> Any:
        """Serve."""
        return self.handle_event(event, "open", data)

    def shut(self, event: MachineEvent, data: Book) -> Any:
        """Postpone."""
        return self.handle_event(event, "shut", data)


class Drawbridge(Gate):
    """The same machine, with slow callbacks."""

    async def init(self, seed: int) -> Any:
        """Open, slowly."""
        if seed % 3 == 0:
            await asyncio.sleep(0.2)
        return super().init(seed)

    async def handle_event(self, event: MachineEvent, state: str, data: Book) -> Any:
        """Handle the event; serve a slow order slowly."""
        result = super().handle_event(event, state, data)
        if event.type is EventType.CALL and event.content.what == "slow" and state == "open":
            await Desk.current().work(0.3)
        return result

    async def terminate(self, reason: ExitReason, state: str, data: Book) -> None:
        """Close, slowly."""
        await asyncio.sleep(0.1)
        super().terminate(reason, state, data)


MACHINES = (Gate, Turnstile, Drawbridge)


def _answer(request: Order, caller: Any, data: Book) -> Result:
    number = request.number
    reply: list[Action] = [ReplyTo(caller, number)]
    match request.what:
        case "later":
            return Keep(actions=[Timeout(number, 0.2, caller)])
        case "slow":
            return Keep(actions=[Timeout(number, 0, caller)])
        case "stop":
            return End(Shutdown("sold out"), data, [ReplyTo(caller, number)])
        case "crash":
            raise crashed(request)
        case "continue":
            data.must = True
            return Keep(data, [*reply, NextEvent(content="more")])
        case "idle":
            return Keep(data, [*reply, EventTimeout(0.4, "idle")])
        case _ if number % 4 == 0:
            return Repeat(data, reply)
        case _:
            return Keep(actions=reply)
