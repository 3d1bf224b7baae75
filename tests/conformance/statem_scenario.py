"""Scenarios of state machines, and their play on otpy; `statem_runner.erl` is the original.

A scenario is `(mode, enter, (state, actions), script, steps)` of tuples, lists, numbers and words,
so that it is an Erlang term too. In its n-th callback the machine follows the n-th line of the
script.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

from hypothesis import strategies as st

import otpy
from otpy import ChildSpec, Crashed, GenStateMachine, Normal, Restart, Shutdown, SupervisorSpec
from otpy.behaviours.server import Server
from otpy.errors import CallFailed
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
    StateTimeout,
    Timeout,
)

Scenario: TypeAlias = Any
NESTED: Any = (tuple, list)


def term(value: Scenario) -> str:
    """Return a scenario, or a part of one, as an Erlang term."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, NESTED):
        return str(value)
    inside = ",".join(term(part) for part in value)
    return f"[{inside}]" if isinstance(value, list) else f"{{{inside}}}"


# --- drawing -------------------------------------------------------------------------------------

STATES = st.sampled_from("abc")
TIMES: st.SearchStrategy[Any] = st.sampled_from([0, 0, 3, 5, 11, 17, "infinity"])
NAMES = st.sampled_from(["x", "y"])
CALLS = [f"q{n}" for n in range(1, 9)]
REPLIES: st.SearchStrategy[Any] = st.tuples(
    st.just("reply"), st.sampled_from(CALLS[:5]), st.integers(0, 9)
)
DATA: st.SearchStrategy[Any] = st.one_of(st.just("same"), st.integers(0, 9))


def _action(number: int) -> st.SearchStrategy[Any]:
    """An action, whose words differ from those of any other line."""
    word = f"w{number}"
    return st.one_of(
        st.just("postpone"),
        REPLIES,
        st.sampled_from([("next", word), ("next_cast", f"c{word}")]),
        st.tuples(st.just("state_timeout"), TIMES, st.just(f"s{word}")),
        st.tuples(st.just("event_timeout"), TIMES, st.just(f"e{word}")),
        st.tuples(st.just("timeout"), NAMES, TIMES, st.just(f"n{word}")),
    )


def _line(number: int) -> st.SearchStrategy[Any]:
    actions = st.lists(_action(number), max_size=4)
    usual = st.one_of(
        st.tuples(st.just("next"), STATES, st.integers(0, 9), actions),
        st.tuples(st.just("next"), STATES, st.integers(0, 9), actions),
        st.tuples(st.just("keep"), DATA, actions),
        st.tuples(st.just("repeat"), DATA, actions),
    )
    reason = st.sampled_from(["normal", ("shutdown", "s")])
    last = st.one_of(
        st.tuples(st.just("stop"), reason, DATA, st.lists(REPLIES, max_size=2)),
        st.sampled_from(["crash", "bad", ("keep", 7, ["bad"])]),
    )
    return st.integers(0, 19).flatmap(lambda chance: last if chance == 19 else usual)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """A scenario, in which every call asks something different."""
    calls = iter(CALLS)
    words = iter(f"m{n}" for n in range(30))

    def message() -> Any:
        kind = draw(st.sampled_from(["call", "cast", "info"]))
        asked = next(calls, None) if kind == "call" else None
        return (kind, asked) if asked else ("cast" if kind == "call" else kind, next(words))

    def step() -> Any:
        kind = draw(st.integers(0, 5))
        if kind == 0:
            return ("wait", draw(st.sampled_from([7, 13, 26])))
        if kind == 1:
            return ("burst", [message() for _ in range(draw(st.integers(2, 3)))])
        return message()

    first = (draw(STATES), draw(st.lists(_action(0), max_size=2)))
    script = [draw(_line(n)) for n in range(1, draw(st.integers(3, 14)))]
    steps = [step() for _ in range(draw(st.integers(2, 7)))]
    mode = draw(st.sampled_from(["state_functions", "handle_event_function"]))
    return (mode, draw(st.booleans()), first, script, [*steps, ("wait", 26)])


# --- acting out ----------------------------------------------------------------------------------


class _Actor(GenStateMachine[Any, Any, str, int]):
    """A machine that follows a script and records its events."""

    def init(self, note: Any, first: Any, script: list[Any]) -> Next[str, int]:
        self.note = note
        self.script = iter(script)
        self.callers: dict[str, Any] = {}
        state, actions = first
        return Next(state, 0, self.actions(actions))

    def handle_event(self, event: MachineEvent, state: str, data: int) -> Any:
        if event.type is EventType.CALL:
            self.callers[event.content] = event.caller
        kind: Any = event.type.value
        self.note(
            (
                ("timeout", event.name) if kind == "named_timeout" else kind,
                event.content,
                state,
                data,
            )
        )
        line: Any = next(self.script, None)
        match line:
            case None:
                return Keep()
            case ("next", new, value, actions):
                return Next(new, value, self.actions(actions))
            case ("keep", "same", actions):
                return Keep(actions=self.actions(actions))
            case ("keep", value, actions):
                return Keep(value, self.actions(actions))
            case ("repeat", "same", actions):
                return Repeat(actions=self.actions(actions))
            case ("repeat", value, actions):
                return Repeat(value, self.actions(actions))
            case ("stop", why, value, replies):
                reason = Normal() if why == "normal" else Shutdown(why[1])
                answers: Any = self.actions(replies)
                return (
                    End(reason, replies=answers) if value == "same" else End(reason, value, answers)
                )
            case "crash":
                raise ZeroDivisionError
            case bad:
                return bad

    def a(self, event: MachineEvent, data: int) -> Any:
        return self.handle_event(event, "a", data)

    def b(self, event: MachineEvent, data: int) -> Any:
        return self.handle_event(event, "b", data)

    def c(self, event: MachineEvent, data: int) -> Any:
        return self.handle_event(event, "c", data)

    def terminate(self, reason: Any, state: str, data: int) -> None:
        self.note(("terminate", reason_of(reason), state, data))

    def actions(self, lines: list[Any]) -> list[Any]:
        return [action for line in lines if (action := self.action(line)) is not None]

    def action(self, line: Any) -> Any:
        match line:
            case ("reply", asked, value):
                caller = self.callers.get(asked)
                return None if caller is None else ReplyTo(caller, value)
            case ("next", content):
                return NextEvent(EventType.INTERNAL, content)
            case ("next_cast", content):
                return NextEvent(EventType.CAST, content)
            case ("state_timeout", time, content):
                return StateTimeout(seconds(time), content)
            case ("event_timeout", time, content):
                return EventTimeout(seconds(time), content)
            case ("timeout", name, time, content):
                return Timeout(name, seconds(time), content)
            case "postpone":
                return Postpone()
            case bad:
                return bad


class _AsyncActor(_Actor):
    """The same machine, with callbacks that must be awaited."""

    async def handle_event(self, event: MachineEvent, state: str, data: int) -> Any:
        return super().handle_event(event, state, data)


def seconds(time: Any) -> float | None:
    """Return how long a timer runs here: a unit is a second."""
    return None if time == "infinity" else time


def reason_of(reason: Any) -> Any:
    """Return a reason as the original records it."""
    match reason:
        case Normal():
            return "normal"
        case Shutdown(said):
            return ("shutdown", said)
        case _:
            return "crashed" if isinstance(reason, Crashed) else str(reason)


async def act(scenario: Scenario, *, awaited: bool = False) -> tuple[list[str], bool]:
    """Play a scenario; return its trace, and whether two things were due at the same moment."""
    mode, enter, first, script, steps = scenario
    log: list[Any] = []
    over = False

    def note(entry: Any) -> None:
        if not over:
            log.append(entry)

    base: type[_Actor] = _AsyncActor if awaited else _Actor
    body = {"callback_mode": CallbackMode(mode), "state_enter": enter}
    made: Any = type("Actor", (base,), body)
    actor: type[_Actor] = made

    loop = asyncio.get_running_loop()
    due: list[float] = []
    acted: set[float] = set()
    start: Any = Server.start_timer
    server: Any = Server

    def start_timer(self: Server, after: float, message: Any) -> Any:
        due.append(loop.time() + after)
        return start(self, after, message)

    asking: list[asyncio.Task[None]] = []
    child = ChildSpec("it", actor, (note, first, script), restart=Restart.TEMPORARY)
    server.start_timer = start_timer
    try:
        async with otpy.start(SupervisorSpec("app", [child]), hooks=()) as root:
            process = root.whereis("app/it")
            machine = actor.at(process)
            await _rest()
            for step in steps:
                note("step")
                acted.add(round(loop.time(), 3))
                await _step(machine, step, note, asking)
                await _rest()
            if process.exit_reason is not None:
                note(("ended", reason_of(process.exit_reason)))
            over = True
    finally:
        server.start_timer = start
    await asyncio.gather(*asking)
    moments = [round(moment, 3) for moment in due]
    together = len(set(moments)) < len(moments) or not acted.isdisjoint(moments)
    return ([term(entry) for entry in log], together)


async def _rest() -> None:
    for _ in range(150):
        await asyncio.sleep(0)


async def _step(
    machine: ServerRef[Any, Any, Any], step: Any, note: Any, asking: list[asyncio.Task[None]]
) -> None:
    async def ask(what: str) -> None:
        try:
            note(("reply", what, await machine.call(what, timeout=None)))
        except CallFailed:
            note(("failed", what))

    match step:
        case ("call", what):
            asking.append(asyncio.ensure_future(ask(what)))
        case ("cast", what):
            machine.cast(what)
        case ("info", what):
            machine.send(what)
        case ("wait", units):
            await asyncio.sleep(units)
        case _:
            for one in step[1]:
                if one[0] == "call":
                    await _step(machine, one, note, asking)
                    await asyncio.sleep(0)
                else:
                    await _step(machine, one, note, asking)


def told(trace: list[str]) -> list[str]:
    """Return a trace with the answers of each step at its end, because their time is unknown."""
    ordered: list[str] = []
    answers: list[str] = []
    for entry in [*trace, "step"]:
        if entry.startswith(("{reply,", "{failed,")):
            answers.append(entry)
            continue
        if entry == "step" or entry.startswith("{ended,"):
            ordered += sorted(answers)
            answers = []
        ordered.append(entry)
    return ordered[:-1]
