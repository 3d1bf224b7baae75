"""Random histories of one server: each call is answered exactly once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

import pytest
from attrs import define, evolve, frozen
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Do
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]
)

import otpy
from otpy import (
    ChildSpec,
    ExitReason,
    GenServer,
    Killed,
    Normal,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._runtime.process import live_of
from otpy.behaviours.server import Server
from otpy.errors import CallFailed, CallTimeout
from otpy.server import Caller, CallResult, NoReply, Reply, ServerRef, Stop
from otpy.testing import MockClock
from tests.examples import examples
from tests.runtime.children import Boom, turns

T = TypeVar("T")
WAYS: Final = ["reply", "sleep", "defer", "crash", "stop", "stop and reply", "both"]


@frozen
class Ask:
    """A numbered request, and how the server handles it."""

    number: int
    way: str
    seconds: float | None


@define
class Told:
    """One call, and every answer that it got."""

    ask: Ask
    life: int
    timeout: float | None
    began: float
    answers: list[tuple[str, float]]


class Board:
    """What outlives the server: the requests its lives served, and the callers they owe."""

    def __init__(self) -> None:
        self.served: list[tuple[int, int]] = []
        self.owed: list[tuple[Caller[int], int]] = []
        self.terminated: list[int] = []


class Subject(GenServer[Ask, int, Board]):
    """A server that does what a request says; its state is the board."""

    def init(self, board: Board) -> Board:
        return board

    async def handle_call(
        self, request: Ask, caller: Caller[int], state: Board
    ) -> CallResult[int, Board]:
        state.served.append((otpy.current().incarnation, request.number))
        match request.way:
            case "sleep" if request.seconds is not None:
                await asyncio.sleep(request.seconds)
            case "defer":
                state.owed.append((caller, request.number))
                return NoReply(state)
            case "crash":
                raise Boom(str(request.number))
            case "stop":
                return Stop(Shutdown(request.number), state)
            case "stop and reply":
                return Stop(Normal(), state, request.number)
            case "both":
                caller.reply(request.number)
                return Reply(-1, state)
            case _:
                pass
        return Reply(request.number, state)

    async def handle_cast(self, request: Ask, state: Board) -> NoReply[Board]:
        state.served.append((otpy.current().incarnation, request.number))
        if request.way == "crash":
            raise Boom(str(request.number))
        if request.seconds is not None:
            await asyncio.sleep(request.seconds)
        return NoReply(state)

    def terminate(self, reason: ExitReason, state: Board) -> None:
        state.terminated.append(otpy.current().incarnation)


class PlainSubject(GenServer[Ask, int, Board]):
    """The same server without a task; where `Subject` sleeps, this one replies at once."""

    def init(self, board: Board) -> Board:
        return board

    def handle_call(
        self, request: Ask, caller: Caller[int], state: Board
    ) -> CallResult[int, Board]:
        return at_once(Subject().handle_call(evolve(request, seconds=None), caller, state))

    def handle_cast(self, request: Ask, state: Board) -> NoReply[Board]:
        return at_once(Subject().handle_cast(evolve(request, seconds=None), state))

    def terminate(self, reason: ExitReason, state: Board) -> None:
        Subject().terminate(reason, state)


def at_once(life: Coroutine[Any, Any, T]) -> T:
    """Return the result of `life`, which waits for nothing."""
    try:
        life.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


Block: TypeAlias = AbstractAsyncContextManager[Supervisor]


class Histories(RuleBasedStateMachine):
    """What can happen to a server and its callers, in any order."""

    subject: ClassVar[type[GenServer[Ask, int, Board]]] = Subject

    def __init__(self) -> None:
        super().__init__()
        self.clock = MockClock()
        self.loop = self.clock.loop_factory()
        self.board = Board()
        self.told: list[Told] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.sent: list[tuple[int, int]] = []
        self.numbers = 0

    def run(self, life: Coroutine[Any, Any, Any]) -> Any:
        """Run `life`, and then everything that is ready."""

        async def and_settle() -> Any:
            result = await life
            await turns(12)
            return result

        return self.loop.run_until_complete(and_settle())

    @initialize()
    def begin(self) -> None:
        """Start the tree."""
        spec = ChildSpec("s", self.subject, (self.board,), shutdown=3)
        self.block: Block = otpy.start(SupervisorSpec("app", [spec], intensity=1000), hooks=())
        self.app: Supervisor = self.run(self.block.__aenter__())
        self.ref: ServerRef[Ask, int] = Subject.at("app/s", self.app)

    async def _call(self, told: Told) -> None:
        try:
            got = await self.ref.call(told.ask, told.timeout)
            assert got == told.ask.number
            how = "reply"
        except CallTimeout:
            how = "timeout"
        except CallFailed:
            how = "failure"
        except asyncio.CancelledError:
            how = "cancelled"
        told.answers.append((how, self.loop.time()))

    def _ask(self, way: str, seconds: float) -> Ask:
        self.numbers += 1
        return Ask(self.numbers, way, seconds)

    def _life(self) -> int:
        return self.app.child("s").incarnation

    @rule(
        asks=st.lists(
            st.tuples(
                st.sampled_from(WAYS),
                st.sampled_from([0.0, 0.5, 2.0]),
                st.sampled_from([5.0, 0.7, 0.0, None]),
            ),
            min_size=1,
            max_size=4,
        )
    )
    def somebody_calls(self, asks: list[tuple[str, float, float | None]]) -> None:
        """Several callers call at once, each with its own timeout."""

        async def begin() -> None:
            for way, seconds, timeout in asks:
                ask = self._ask(way, seconds)
                told = Told(ask, self._life(), timeout, self.loop.time(), [])
                self.told.append(told)
                self.sent.append((told.life, ask.number))
                self.tasks.append(asyncio.ensure_future(self._call(told)))

        self.run(begin())

    @rule(way=st.sampled_from(["note", "crash"]), seconds=st.sampled_from([0.0, 1.0]))
    def somebody_casts(self, way: str, seconds: float) -> None:
        """A cast keeps the server busy, or crashes it."""

        async def begin() -> None:
            ask = self._ask(way, seconds)
            self.sent.append((self._life(), ask.number))
            self.ref.cast(ask)

        self.run(begin())

    @precondition(lambda self: any(not task.done() for task in self.tasks))
    @rule(data=st.data())
    def a_caller_is_cancelled(self, data: st.DataObject) -> None:
        """A caller is cancelled; the server still serves its request."""
        waiting = [n for n, task in enumerate(self.tasks) if not task.done()]
        task = self.tasks[data.draw(st.sampled_from(waiting))]

        async def cancel() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.run(cancel())

    @precondition(lambda self: self.board.owed)
    @rule(twice=st.booleans())
    def a_late_reply_comes(self, twice: bool) -> None:
        """A reply comes from outside, perhaps twice, perhaps after caller or server has ended."""
        caller, number = self.board.owed.pop(0)

        async def reply() -> None:
            caller.reply(number)
            if twice:
                caller.reply(-2)

        self.run(reply())

    @rule(how=st.sampled_from(["kill", "exit", "stop", "suspend", "resume", "replace"]))
    def something_happens_to_it(self, how: str) -> None:
        """The server is killed, ended, suspended or inspected."""

        async def happen() -> None:
            process = self.app.child("s")
            match how:
                case "kill":
                    process.kill()
                case "exit":
                    process.exit(Killed())
                case "stop":
                    await self._quietly(self.ref.stop(timeout=0))
                case "suspend":
                    await self._quietly(self.ref.suspend(0.1))
                case "resume":
                    await self._quietly(self.ref.resume(0.1))
                case _:
                    await self._quietly(self.ref.replace_state(lambda state: state, 0.1))

        self.run(happen())

    @staticmethod
    async def _quietly(question: Coroutine[Any, Any, object]) -> None:
        with suppress(CallFailed, CallTimeout):
            await question

    @rule(seconds=st.sampled_from([0.3, 1.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        """Everything that is due in this time happens."""
        self.run(self.clock.advance(seconds))

    @invariant()
    def nobody_is_answered_twice_or_too_late(self) -> None:
        """Each call has at most one answer, within its time."""
        for told in self.told:
            assert len(told.answers) <= 1
            for how, when in told.answers:
                if how == "timeout":
                    assert told.timeout is not None
                    assert when >= told.began + told.timeout

    @invariant()
    def requests_are_served_once_and_in_order(self) -> None:
        """GEN-08: each life serves the requests that it gets once, and in order of arrival."""
        for life in {life for life, _ in self.board.served}:
            served = [n for of, n in self.board.served if of == life]
            came = [n for of, n in self.sent if of == life and n in served]
            assert served == came
        assert len(set(self.board.served)) == len(self.board.served)
        assert len(set(self.board.terminated)) == len(self.board.terminated)

    @invariant()
    def nothing_is_kept_for_those_who_were_answered(self) -> None:
        """The table of callers holds waiting callers only."""
        if not hasattr(self, "app") or not self.app.running:
            return
        with suppress(otpy.OtpyError):
            server = live_of(self.app.child("s")).behaviour
            assert isinstance(server, Server)
            waiting = sum(not told.answers for told in self.told)
            assert len(server.owed or ()) <= waiting

    def teardown(self) -> None:
        """Stop the tree; every caller then has exactly one answer."""
        if hasattr(self, "app"):
            self.run(self.block.__aexit__(None, None, None))
            assert [told for told in self.told if len(told.answers) != 1] == []
            assert all(task.done() and not task.cancelled() for task in self.tasks)
            assert all(task.exception() is None for task in self.tasks)
        self.loop.close()


SOME = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    derandomize=True,
    database=None,
    phases=[Do.generate, Do.shrink],
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


class PlainHistories(Histories):
    """The same histories, for a server without a task."""

    subject = PlainSubject


@pytest.mark.hypothesis
def test_whatever_happens_each_call_is_answered_exactly_once() -> None:
    """GEN-08 to GEN-17, AIO-22: the answer is a reply, a timeout, a failure or a cancellation."""
    run_state_machine_as_test(Histories, settings=SOME)


@pytest.mark.hypothesis
def test_whatever_happens_without_a_task_each_call_is_answered_exactly_once() -> None:
    """GEN-08 to GEN-17, AIO-22: the answer is a reply, a timeout, a failure or a cancellation."""
    run_state_machine_as_test(PlainHistories, settings=SOME)
