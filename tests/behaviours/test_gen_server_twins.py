"""A server behaves the same with plain callbacks and with `async` ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias, cast

from hypothesis import given, settings
from hypothesis import strategies as st

import otpy
from otpy import ChildSpec, Crashed, Exit, GenServer, Normal, Restart, Shutdown, SupervisorSpec
from otpy.errors import CallFailed, CallTimeout
from otpy.server import TIMEOUT, Caller, Init, NoReply, Reply, Stop
from otpy.signals import Monitor
from otpy.testing import MockClock
from tests.examples import examples
from tests.runtime.children import Boom, turns

Log: TypeAlias = list[Any]
Message: TypeAlias = tuple[str, int]
State: TypeAlias = tuple[int, ...]
"""The numbers that were served."""

WAYS: Final = [
    "go on",
    "idle",
    "continue",
    "defer",
    "answer all",
    "crash",
    "exit",
    "stop",
    "junk",
    "post to itself",
    "reply and stop",
]  # fmt: skip
ACTS: Final = ["call", "cast", "send", "suspend", "resume", "replace", "stop", "end", "kill"]


class Plain(GenServer[Any, Any, State]):
    """A server that does what each message, a way and a number, says, and logs everything."""

    def init(self, log: Log, idle: float | None) -> Any:
        self.log, self.owed = log, list[Caller[Any]]()
        return Init((), timeout=idle, continue_with=("go on", 0))

    def handle_call(self, request: Message, caller: Caller[Any], state: State) -> Any:
        way, number = request
        self.log.append(("call", request, state))
        if way == "defer":
            self.owed.append(caller)
            return NoReply((*state, number))
        if way == "reply and stop":
            return Stop(Normal(), (*state, number), number)
        result: NoReply[State] | Stop[Any, State] = self._do(way, number, state)
        if isinstance(result, NoReply):
            return Reply(
                number, result.state, continue_with=result.continue_with, timeout=result.timeout
            )
        return result

    def handle_cast(self, request: Message, state: State) -> Any:
        self.log.append(("cast", request, state))
        return self._do(*request, state)

    def handle_info(self, message: object, state: State) -> Any:
        self.log.append(("info", message, state))
        if message is TIMEOUT:
            return NoReply(state)
        way, number = cast("Message", message)
        return self._do(way, number, state)

    def handle_continue(self, value: Message, state: State) -> Any:
        self.log.append(("continue", value, state))
        return self._do(*value, state)

    def terminate(self, reason: Any, state: State) -> Any:
        self.log.append(("terminate", str(reason), state))

    def _do(self, way: str, number: int, state: State) -> Any:
        after = (*state, number)
        match way:
            case "idle":
                return NoReply(after, timeout=1.0)
            case "continue":
                return NoReply(after, continue_with=("go on", -number))
            case "answer all":
                for caller in self.owed:
                    caller.reply(number)
            case "crash":
                raise Boom(str(number))
            case "exit":
                raise Exit(Shutdown(number))
            case "stop":
                return Stop[Any, State](Shutdown(number), after)
            case "junk":
                return number
            case "post to itself":
                Plain.at(otpy.current()).cast(("go on", -number))
            case _:
                pass
        return NoReply(after)


class Slow(Plain):
    """The same server, in a task from start to end."""

    async def init(self, log: Log, idle: float | None) -> Any:
        return super().init(log, idle)

    async def handle_call(self, request: Message, caller: Caller[Any], state: State) -> Any:
        return super().handle_call(request, caller, state)

    async def handle_cast(self, request: Message, state: State) -> Any:
        return super().handle_cast(request, state)

    async def handle_info(self, message: object, state: State) -> Any:
        return super().handle_info(message, state)

    async def handle_continue(self, value: Message, state: State) -> Any:
        return super().handle_continue(value, state)

    async def terminate(self, reason: Any, state: State) -> Any:
        return super().terminate(reason, state)


class Mixed(Plain):
    """The same server, in a task from its first cast on."""

    async def handle_cast(self, request: Message, state: State) -> Any:
        return super().handle_cast(request, state)


class AtLast(Plain):
    """The same server, in a task for its clean-up only."""

    async def terminate(self, reason: Any, state: State) -> Any:
        return super().terminate(reason, state)


Step: TypeAlias = tuple[list[tuple[str, str]], float]
STEPS: Final = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from(WAYS)), max_size=4),
        st.sampled_from([0.0, 0.4, 1.0, 3.0]),
    ),
    max_size=8,
)
"""What is done in one turn, and how long is waited then, in seconds."""


async def done(log: Log, number: int, act: Callable[[], Any]) -> None:
    """Do the act, and log its result and the time."""
    try:
        got = act()
        if isawaitable(got):
            got = await got
    except CallTimeout:
        got = "late"
    except CallFailed:  # at once or out of the queue: that depends on the turns of the loop
        got = "failed"
    log.append((number, got, asyncio.get_running_loop().time()))


def longer(number: int, state: State) -> State:
    """Return another state than `state`."""
    return (*state, 1000 + number)


class Story:
    """One server, everything that is done to it, and the results."""

    def __init__(self, server: type[Plain], idle: float | None) -> None:
        self.clock = MockClock()
        self.served: Log = []
        self.answers: Log = []
        self.spec = ChildSpec("s", server, (self.served, idle), restart=Restart.TEMPORARY)

    async def run(self, steps: list[Step]) -> list[Any]:
        """Do all of `steps`; return everything that can be observed."""
        tasks: list[asyncio.Task[None]] = []
        async with otpy.start(SupervisorSpec("app", [self.spec]), hooks=()) as app:
            process = app.child("s")
            ref = Plain.at(process)
            watch: Monitor = process.monitor()
            await turns(8)
            for number, (acts, seconds) in enumerate(steps):
                for nth, (act, way) in enumerate(acts):
                    n = 10 * number + nth + 1
                    if act == "kill":  # which message the kill interrupts also depends on the turns
                        await turns(12)
                    do = partial(self._act, ref, act, way, n)
                    tasks.append(asyncio.ensure_future(done(self.answers, n, do)))
                await turns(12)
                await self.clock.advance(seconds)
                await turns(12)
            ending = process.exit_reason
            process.kill()
            down = await watch
            await asyncio.gather(*tasks)
        crash = down.reason.error if isinstance(down.reason, Crashed) else None
        return [
            self.served,
            sorted(self.answers, key=str),
            str(ending),
            str(down.reason),
            str(crash),
        ]

    @staticmethod
    def _act(ref: Any, act: str, way: str, number: int) -> Any:
        message = (way, number)
        match act:
            case "call":
                return ref.call(message, 2.5)
            case "cast":
                return ref.cast(message)
            case "send":
                return ref.send(message)
            case "suspend":
                return ref.suspend(0.3)
            case "resume":
                return ref.resume(0.3)
            case "replace":
                return ref.replace_state(partial(longer, number), 0.3)
            case "stop":
                return ref.stop(Shutdown("asked"), 0.3)
            case "end":
                return ref.target.exit(Shutdown("ended"))
            case _:
                return ref.target.kill()


def outcome(server: type[Plain], steps: list[Step], idle: float | None) -> list[Any]:
    """Return everything that can be observed of one server."""
    story = Story(server, idle)
    loop = story.clock.loop_factory()
    try:
        return loop.run_until_complete(story.run(steps))
    finally:
        loop.close()


@settings(max_examples=examples(150), derandomize=True, database=None)
@given(steps=STEPS, idle=st.sampled_from([None, 0.5]))
def test_the_same_history_has_the_same_outcome(steps: list[Step], idle: float | None) -> None:
    """GEN-08, GEN-09, GEN-13, GEN-18, GEN-19: with and without a task."""
    plain = outcome(Plain, steps, idle)
    assert outcome(Slow, steps, idle) == plain
    assert outcome(Mixed, steps, idle) == plain
    assert outcome(AtLast, steps, idle) == plain
