"""A user's stack may end anywhere: the operation then does not begin, or the loop completes it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final

import pytest

import otpy
from otpy import Backoff, ChildSpec, Crashed, DynamicSupervisor, GenServer, SupervisorSpec
from otpy._runtime.child_task import run
from otpy._runtime.current import CURRENT
from otpy._runtime.deadlines import Deadlines
from otpy._runtime.life import Presence
from otpy._runtime.operations import ShellOperations
from otpy._runtime.process import LiveProcess, live_of
from otpy._runtime.shell import Shell
from otpy._runtime.shells import shell_of
from otpy._runtime.stop import StopSequence
from otpy._runtime.tree import Tree
from otpy.behaviours.mailbox import Mailbox
from otpy.behaviours.server import Server
from otpy.behaviours.server_task import ServerTask
from otpy.reports import SupervisorGaveUp
from otpy.server import NoReply, Reply
from otpy.testing import MockClock, Recording
from tests.runtime.children import forever

if TYPE_CHECKING:
    from types import CodeType, FrameType

ROOM = 60  # calls on the stack of a task, in place of Python's 1000


@final
class Plain(GenServer[int, int, int]):
    """A server that adds numbers in callbacks of the loop."""

    def init(self) -> int:
        return 0

    def handle_call(self, request: int, caller: object, state: int) -> Reply[int, int]:
        return Reply(state, state)

    def handle_cast(self, request: int, state: int) -> NoReply[int]:
        return NoReply(state + request)


@final
class InATask(GenServer[int, int, int]):
    """A server that adds numbers in a task."""

    async def init(self) -> int:
        return 0

    async def handle_call(self, request: int, caller: object, state: int) -> Reply[int, int]:
        return Reply(state, state)

    async def handle_cast(self, request: int, state: int) -> NoReply[int]:
        return NoReply(state + request)


Do: TypeAlias = "Callable[[otpy.Supervisor], Any]"


def pool(root: otpy.Supervisor) -> DynamicSupervisor:
    """Return the dynamic supervisor."""
    found = root.child("pool").supervisor
    assert isinstance(found, DynamicSupervisor)
    return found


OPERATIONS: dict[str, Do] = {
    "kill": lambda root: root.child("a").kill(),
    "exit": lambda root: root.child("a").exit(),
    "start": lambda root: root.start_child(ChildSpec("new", forever)),
    "start in the pool": lambda root: pool(root).start_child(ChildSpec("new", forever)),
    "terminate": lambda root: root.terminate_child("a"),
    "count": lambda root: root.count_children(),
    "cast": lambda root: Plain.at("app/plain", root).cast(1),
    "cast to a task": lambda root: InATask.at("app/task", root).cast(1),
    "call": lambda root: Plain.at("app/plain", root).call(1),
    "call a task": lambda root: InATask.at("app/task", root).call(1),
    "stop the pool": lambda root: pool(root).stop(),
}


@asynccontextmanager
async def a_tree(**options: Any) -> AsyncGenerator[otpy.Supervisor]:
    """Run the tree of these tests; check that it leaves nothing behind."""
    spec = SupervisorSpec(
        "app",
        [
            ChildSpec("a", forever),
            ChildSpec("plain", Plain),
            ChildSpec("task", InATask),
            DynamicSupervisor.spec("pool"),
        ],
        intensity=50,
    )
    async with otpy.start(spec, **options) as root:
        yield root
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def serves(root: otpy.Supervisor) -> None:
    """Check that everything in the tree works."""
    assert (await root.count_children()).active >= 3
    assert await pool(root).start_child(ChildSpec("probe", forever)) is not None
    for server, at in ((Plain, "app/plain"), (InATask, "app/task")):
        ref = server.at(at, root)
        before = await ref.call(0)
        ref.cast(1)
        assert await ref.call(0) == before + 1


async def at_depth(depth: int, do: Callable[[], Any]) -> Any:
    """Call `do` below so many calls, and await its result there."""
    if depth:
        return await at_depth(depth - 1, do)
    doing = do()
    return await doing if inspect.isawaitable(doing) else doing


def calls() -> int:
    """Return the depth of the stack here."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


@contextmanager
def little_stack() -> Generator[None]:
    """Leave `ROOM` calls for the test, and none for the garbage of other tests.

    A finalizer without room would fail, and so would pytest's hook that gets the failure.
    """
    limit, collects = sys.getrecursionlimit(), gc.isenabled()
    gc.disable()
    sys.setrecursionlimit(calls() - 2 + ROOM)  # without this function and `contextlib`'s
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if collects:
            gc.enable()


# An operation at the limit may leave a coroutine with no room to await or close it.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", OPERATIONS)
def test_whatever_is_left_of_the_stack_nothing_is_half_done(name: str) -> None:
    """At each depth up to the recursion limit it raises, or completes; the tree goes on."""
    raised = done = 0

    async def main(depth: int) -> None:
        nonlocal raised, done
        async with a_tree() as root:
            caller = asyncio.create_task(at_depth(depth, lambda: OPERATIONS[name](root)))
            with little_stack():
                await asyncio.wait([caller], timeout=30)
            assert caller.done()
            if isinstance(caller.exception(), RecursionError):
                raised += 1
            else:
                done += caller.exception() is None
            await asyncio.sleep(2)  # a killed child is back by then
            await serves(root)

    for depth in range(ROOM):
        MockClock().run(main(depth))
    assert raised > 0
    assert done > 0


def below(depth: int, do: Callable[[], object]) -> None:
    """Call `do` above so many calls."""
    if depth:
        below(depth - 1, do)
    else:
        do()


@pytest.mark.parametrize("what", ["link", "unlink", "monitor"])
async def test_both_sides_of_a_link_know_it_or_neither_does(what: str) -> None:
    """The same holds for a monitor and its owner, at any depth of a recursion."""
    done = set[bool]()
    async with a_tree(hooks=()) as root:
        for depth in range(ROOM):
            one = await pool(root).start_child(ChildSpec("one", forever))
            other = await pool(root).start_child(ChildSpec("other", forever))
            assert one is not None
            assert other is not None
            if what == "unlink":
                one.link(other)
            (
                live_of(other if what == "monitor" else one)
            ).ensure_watchers()  # the second side goes deeper
            CURRENT.set(Presence(live_of(one)))
            do = other.monitor if what == "monitor" else partial(getattr(one, what), other)
            try:
                with little_stack():
                    below(depth, do)
            except RecursionError:
                done.add(False)
            else:
                done.add(True)
            mine, theirs = live_of(one).ensure_watchers(), live_of(other).ensure_watchers()
            assert (other in mine.links) == (one in theirs.links)
            assert [*mine.watching] == [*theirs.monitors]
            del do
    assert done == {True, False}


# --- an error at each line ------------------------------------------------------------------------

WHERE: tuple[Any, ...] = (
    *(Tree.order, Tree._carry_out, Tree.enqueue, run),
    *(Shell.take, Shell.child_exited, Shell._perform, Shell._start, Shell._reply),
    *(Shell._finish, Shell._tell_end, ShellOperations._answered),
    *(LiveProcess.order_stop, LiveProcess.stop, LiveProcess.record_end, LiveProcess.end),
    *(
        StopSequence.begin,
        StopSequence.advance,
        StopSequence._take,
        StopSequence.over,
        StopSequence.overdue,
    ),
    *(Deadlines.set, Deadlines._time_has_come, Deadlines._tell),
    *(Mailbox.put, Server.wake, Server.stop, Server.cancel, ServerTask.wake),
)
CODES: frozenset[CodeType] = frozenset(function.__code__ for function in WHERE)


@final
class Strike:
    """A tracer that raises an error at the nth line reached in the functions of `WHERE`."""

    def __init__(self, nth: int, error: type[BaseException]) -> None:
        self.seen = 0
        self._nth = nth
        self._error = error

    def __enter__(self) -> Strike:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._entered if frame.f_code in CODES else None

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line  # an error at the first line is one of the call, in another function

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.seen += 1
            if self.seen == self._nth:
                raise self._error
        return self._line


def ignore(*_: object) -> None:
    """Be a hook or an exception handler that does nothing."""


async def _under_strikes(strike: Strike, operate: Do, *, quiet: bool) -> BaseException | None:
    """Operate a tree and leave it, with one error at a line; return the error of the block."""
    hooks: dict[str, Any] = {"hooks": ()} if quiet else {"hooks": [ignore]}
    asyncio.get_running_loop().set_exception_handler(ignore)
    try:
        async with a_tree(**hooks) as root:
            with strike:
                caller = asyncio.create_task(_calling(root, operate))
                await asyncio.wait([caller], timeout=40)
                assert caller.done(), "nobody answered"
                await asyncio.sleep(2)
    except (otpy.OtpyError, MemoryError) as error:
        return error
    return None


async def _calling(root: otpy.Supervisor, operate: Do) -> None:
    with suppress(MemoryError, otpy.OtpyError):
        doing = operate(root)
        if inspect.isawaitable(doing):
            await asyncio.wait_for(doing, 30)


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_at_any_line_leaves_no_tree_that_cannot_be_left(name: str, quiet: bool) -> None:
    """The lines are those that carry decisions out: callers get replies, and the block ends."""
    nth, reached = 1, True
    while reached:
        strike = Strike(nth, MemoryError)
        clock = MockClock()
        clock.run(_under_strikes(strike, OPERATIONS[name], quiet=quiet))
        assert clock.now < 60
        reached = strike.seen >= nth
        nth += 1
    assert nth > 5


class Broken(dict[str, Any]):
    """A child table whose look-ups fail."""

    def get(self, *_: object) -> Any:
        raise MemoryError


def test_a_decision_that_breaks_off_ends_its_supervisor_and_only_that() -> None:
    """The supervisor above sees a crash, and starts it again."""
    reports = Recording()

    async def main() -> None:
        # With a backoff, because a restart without one asks the machine for no decision.
        inner = SupervisorSpec("in", [ChildSpec("x", forever, backoff=Backoff.sequence(0))])
        tree = SupervisorSpec("app", [inner, ChildSpec("y", forever)])
        async with otpy.start(tree, hooks=[reports]) as root:
            below, x, y = root.child("in"), root.whereis("app/in/x"), root.child("y")
            assert below.supervisor is not None
            machine: Any = shell_of(below.supervisor)._machine
            machine.children = Broken(machine.children)
            x.kill()
            assert isinstance(await below.wait(), Crashed)
            await root.wait_for_restart("in", after=1)
            assert root.whereis("app/in/x").alive
            assert y.alive

    MockClock().run(main())
    assert isinstance(reports.one(SupervisorGaveUp).reason, Crashed)
