"""`GenStateMachine`, as a user sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, Crashed, GenStateMachine, Shutdown, SupervisorSpec
from otpy.errors import BadReturn, CallFailed, InvalidSpec
from otpy.server import ServerRef
from otpy.statem import (
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
    StateResult,
    StateTimeout,
    Timeout,
)
from otpy.testing import MockClock

Result = StateResult[str, int]
Whatever = StateResult[Any, Any]


class Door(GenStateMachine[str, str, str, int]):
    """A door that locks itself again; a caller who comes while it is locked waits."""

    callback_mode = CallbackMode.STATE_FUNCTIONS
    state_enter = True

    def init(self, log: list[Any]) -> Next[str, int]:
        self.log = log
        return Next("locked", 0)

    async def locked(self, event: MachineEvent, data: int) -> Result:
        self.log.append(("locked", event.type, event.content, data))
        match event:
            case MachineEvent(EventType.CALL, "unlock"):
                return Next("opened", data + 1, [ReplyTo(event.caller, "welcome")])
            case MachineEvent(EventType.CALL):
                await asyncio.sleep(0)
                return Keep(actions=[Postpone()])
            case _:
                return Keep()

    def opened(self, event: MachineEvent, data: int) -> Result:
        self.log.append(("opened", event.type, event.content, data))
        match event.type:
            case EventType.ENTER:
                return Keep(actions=[StateTimeout(10, "lock")])
            case EventType.STATE_TIMEOUT:
                return Next("locked", data)
            case EventType.CALL:
                return Keep(actions=[ReplyTo(event.caller, "is open")])
            case _:
                return End(Shutdown("enough"))

    def terminate(self, reason: Any, state: str, data: int) -> None:
        self.log.append(("terminate", reason, state, data))


class Script(GenStateMachine[Any, Any, Any, Any]):
    """A machine whose requests are functions of the machine, the event, the state and the data."""

    def init(self, log: list[Any], *actions: Any) -> Next[Any, Any]:
        self.log = log
        return Next("a", 0, actions)

    def handle_event(self, event: MachineEvent, state: Any, data: Any) -> Whatever:
        self.log.append((event.type, event.content if not callable(event.content) else "do", state))
        if not callable(event.content):
            return Keep()
        do: Any = event.content
        result: Whatever = do(event, state, data)
        return result

    def terminate(self, reason: Any, state: Any, data: Any) -> None:
        self.log.append(("terminate", state, data))


@asynccontextmanager
async def running(
    machine: type[GenStateMachine[Any, Any, Any, Any]], *args: Any, **spec: Any
) -> AsyncGenerator[tuple[ServerRef[Any, Any, Any], otpy.Supervisor]]:
    """Run a tree with this machine."""
    tree = SupervisorSpec("app", [ChildSpec("it", machine, args, **spec)])
    async with otpy.start(tree, hooks=()) as root:
        yield machine.at("app/it", root), root


async def test_a_door_opens_for_who_waited_and_locks_itself() -> None:
    """State functions, enter calls, postponed calls and state timeouts work together."""
    log: list[Any] = []
    async with running(Door, log) as (door, _):
        waiting = asyncio.ensure_future(door.call("push"))
        await asyncio.sleep(1)
        assert not waiting.done()
        assert await door.call("unlock") == "welcome"
        assert await waiting == "is open"
        assert await door.get_state() == ("opened", 1)
        await asyncio.sleep(11)
        assert await door.get_state() == ("locked", 1)
    assert [entry[:3] for entry in log[:-1]] == [
        ("locked", EventType.ENTER, "locked"),
        ("locked", EventType.CALL, "push"),
        ("locked", EventType.CALL, "unlock"),
        ("opened", EventType.ENTER, "locked"),
        ("opened", EventType.CALL, "push"),
        ("opened", EventType.STATE_TIMEOUT, "lock"),
        ("locked", EventType.ENTER, "opened"),
    ]
    assert log[-1] == ("terminate", Shutdown(), "locked", 1)


async def test_a_reply_may_come_from_a_later_event(mock_clock: MockClock) -> None:
    """The caller is kept as data, and replied to when a timer with a name has fired."""
    log: list[Any] = []

    def ask(event: MachineEvent, _state: Any, _data: Any) -> Result:
        def reply(_event: MachineEvent, _state: Any, data: Any) -> Whatever:
            return Keep(None, [ReplyTo(data, "late")])

        return Keep(event.caller, [Timeout("later", 3, reply)])

    async with running(Script, log) as (machine, _):
        began = asyncio.get_running_loop().time()
        assert await machine.call(ask) == "late"
        assert asyncio.get_running_loop().time() - began == pytest.approx(3)
        assert await machine.get_state() == ("a", None)


async def test_actions_of_init_come_before_any_message() -> None:
    """A `NextEvent` and a timeout of 0 of the first result are handled first, in this order."""
    log: list[Any] = []
    actions = (EventTimeout(0, "lost"), NextEvent(content="first"), StateTimeout(0, "second"))
    async with running(Script, log, *actions) as (machine, _):
        machine.cast("third")
        assert await machine.get_state() == ("a", 0)
    assert log[:-1] == [
        (EventType.INTERNAL, "first", "a"),
        (EventType.STATE_TIMEOUT, "second", "a"),
        (EventType.CAST, "third", "a"),
    ]


async def test_stop_replies_and_terminates_with_new_data() -> None:
    """`End` gives its replies, other callers fail with the reason, `terminate` gets the data."""
    log: list[Any] = []

    def stop(event: MachineEvent, _state: Any, data: Any) -> Whatever:
        return End(Shutdown("over"), "new", [ReplyTo(event.caller, "bye")])

    async with running(Script, log, restart=otpy.Restart.TEMPORARY) as (machine, _):
        process = machine.whereis()
        other = asyncio.ensure_future(machine.call(postpone))
        assert await machine.call(stop) == "bye"
        with pytest.raises(CallFailed, match="over"):
            await other
        assert await process.wait() == Shutdown("over")
    assert log[-1] == ("terminate", "a", "new")


NO_ACTION: Any = 1
NO_REASON: Any = "why"
BAD: list[Any] = [
    None,
    "keep",
    Keep(actions=[NO_ACTION]),
    Keep(actions=[StateTimeout(-1)]),
    Keep(actions=[Timeout([1], 1)]),  # type: ignore[arg-type]
    Keep(actions=[ReplyTo(None, 1)]),  # type: ignore[arg-type]
    End(replies=[ReplyTo(None, 1)]),  # type: ignore[arg-type]
    Keep(actions=[NextEvent(EventType.ENTER)]),
    End(NO_REASON),
]


def postpone(_event: MachineEvent, _state: Any, _data: Any) -> Whatever:
    """Postpone the event until the state changes."""
    return Keep(actions=[Postpone()])


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_result_crashes_the_machine(bad: Any) -> None:
    """What a callback must not return is a `BadReturn`; the call fails with it."""
    log: list[Any] = []

    def answer(_event: MachineEvent, _state: Any, _data: Any) -> Whatever:
        result: Whatever = bad
        return result

    async with running(Script, log, restart=otpy.Restart.TEMPORARY) as (machine, _):
        process = machine.whereis()
        with pytest.raises(CallFailed):
            await machine.call(answer)
        reason = await process.wait()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, BadReturn)


@pytest.mark.parametrize("result", [Next, Keep, Repeat])
async def test_one_action_may_stand_alone(result: Any) -> None:
    """A list of one is not needed, as in OTP; nor for the replies of `End`."""

    def answer(event: MachineEvent, state: Any, data: Any) -> Whatever:
        reply = ReplyTo(event.caller, result.__name__)
        first: Whatever = Next(state, data, reply) if result is Next else result(data, reply)
        return first

    def end(event: MachineEvent, _state: Any, _data: Any) -> Whatever:
        return End(replies=ReplyTo(event.caller, "bye"))

    async with running(Script, [], restart=otpy.Restart.TEMPORARY) as (machine, _):
        assert await machine.call(answer) == result.__name__
        assert await machine.call(end) == "bye"


def test_actions_are_actions() -> None:
    """No value that holds none is one, and the error names it."""
    nothing: Any = None
    with pytest.raises(TypeError, match="actions is None, wanted one, or several"):
        Keep(actions=nothing)
    with pytest.raises(TypeError, match="replies is None, wanted one, or several"):
        End(replies=nothing)


def test_a_machine_says_how_it_handles_events_when_its_class_is_made() -> None:
    """A word stands for a mode; a function, as in OTP, is refused, not ignored."""
    spoken: Any = type("Spoken", (Script,), {"callback_mode": "state_functions"})
    assert spoken.callback_mode is CallbackMode.STATE_FUNCTIONS
    wrong: list[tuple[str, Any]] = [
        ("callback_mode", classmethod(lambda cls: CallbackMode.STATE_FUNCTIONS)),
        ("callback_mode", "state_function"),
        ("state_enter", len),
        ("state_enter", "no"),
    ]
    for name, value in wrong:
        with pytest.raises(InvalidSpec, match=f"Wrong: {name} is .*, wanted"):
            type("Wrong", (Script,), {name: value})


async def test_no_timer_outlives_its_machine() -> None:
    """The timers end with their life, so the next life gets none of them."""
    log: list[Any] = []

    def start(_event: MachineEvent, _state: Any, _data: Any) -> Whatever:
        return Keep(actions=[StateTimeout(5, "old"), Timeout("x", 6, "old")])

    def crash(_event: MachineEvent, _state: Any, _data: Any) -> Whatever:
        raise ZeroDivisionError

    async with running(Script, log) as (machine, root):
        machine.cast(start)
        machine.cast(crash)
        await root.wait_for_restart("it", after=1)
        await asyncio.sleep(20)
        assert await machine.get_state() == ("a", 0)
    assert not [entry for entry in log if entry[1] == "old"]


async def test_a_machine_that_never_rests_leaves_the_loop_to_others() -> None:
    """Events to itself and repeated enter calls do not keep other tasks from running."""

    class Restless(Script):
        state_enter = True

        def handle_event(self, event: MachineEvent, state: Any, data: Any) -> Whatever:
            return Repeat(data + 1)

    async with running(Restless, [], shutdown=otpy.BRUTAL_KILL):
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_replaced_state_is_that_of_the_next_event() -> None:
    """`replace_state` replaces the pair of state and data."""
    log: list[Any] = []
    async with running(Script, log) as (machine, _):
        assert await machine.replace_state(lambda _: ("b", 2)) == ("b", 2)
        machine.cast("x")
        assert await machine.get_state() == ("b", 2)
    assert log == [(EventType.CAST, "x", "b"), ("terminate", "b", 2)]


@pytest.mark.parametrize("max_step", [None, 5.0])
async def test_its_callbacks_are_steps(max_step: float | None) -> None:
    """With `max_step`, plain and awaited callbacks are called as they are without it."""
    log: list[Any] = []
    async with running(Door, log, max_step=max_step) as (door, _):
        assert await door.call("unlock") == "welcome"
        assert await door.call("push") == "is open"
