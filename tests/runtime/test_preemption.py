"""A child that blocks the event loop is interrupted, and no other code is."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import Any, cast

import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    GenServer,
    Normal,
    Restart,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._runtime.shells import shell_of
from otpy.errors import CallFailed, CannotInterrupt, StartFailed, StepOverran, TreeStartFailed
from otpy.server import CallResult, NoReply, Reply
from otpy.testing import Recording
from tests.runtime.children import forever, turns
from tests.runtime.overruns import overruns

pytestmark = pytest.mark.real_time
LIMIT = 0.03


def spin() -> None:
    """Block the loop for ever."""
    n = 0
    while True:
        n += 1


async def end_of(start: Callable[..., Any], **options: Any) -> otpy.ExitReason:
    """Return the exit reason of a child that runs `start` once."""
    spec = ChildSpec("c", start, max_step=LIMIT, restart=Restart.TEMPORARY, **options)
    async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
        process = await app.start_child(spec)
        assert process is not None
        return await process.wait()


def overran(reason: otpy.ExitReason) -> StepOverran:
    """Return the error of a child that was interrupted."""
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, StepOverran)
    return reason.error


async def test_a_loop_ends_by_its_limit_and_its_siblings_go_on(reports: Recording) -> None:
    """AIO-01: it restarts until its intensity is used up, while a sibling works all the time."""
    beats: list[float] = []

    async def looping() -> None:
        spin()

    async def sibling() -> None:
        while True:
            beats.append(time.perf_counter())
            await asyncio.sleep(0.005)

    spec = SupervisorSpec(
        "app", [ChildSpec("sibling", sibling), ChildSpec("looping", looping, max_step=LIMIT)]
    )
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(spec, hooks=[reports]) as app:
            await app.wait()
    assert isinstance(caught.value.__cause__, StepOverran)
    assert [overran(cast("Crashed", reason)).path for reason in caught.value.reasons] == [
        "app/looping"
    ] * 4
    assert len(beats) >= 3
    # Two steps may follow each other; the rest allows for a machine busy with other work.
    assert max(b - a for a, b in itertools.pairwise(beats)) < 2 * LIMIT + 2


async def test_the_error_says_who_and_how_long() -> None:
    """The error has the path, the seconds and the limit."""

    async def looping() -> None:
        spin()

    error = overran(await end_of(looping))
    assert (error.path, error.limit) == ("app/c", LIMIT)
    assert LIMIT <= error.seconds < 5
    assert "max_step=0.03 s" in str(error)
    assert not isinstance(error, Exception)


async def later() -> None:
    await asyncio.sleep(0)
    spin()


async def deeper() -> None:
    await later()


async def in_group() -> None:
    async with asyncio.TaskGroup():
        spin()


async def sleeping() -> None:
    time.sleep(30)  # noqa: ASYNC251 - the point


async def locked() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


async def waiting() -> None:
    threading.Event().wait()


async def cleaning() -> None:
    try:
        pass
    finally:
        spin()


async def announcing(*, task_status: Any) -> None:
    task_status.started()
    spin()


async def retrying() -> None:
    while True:
        with suppress(Exception):
            spin()


@pytest.mark.parametrize(
    "child",
    [later, deeper, in_group, sleeping, locked, waiting, cleaning, announcing, retrying],
    ids=lambda child: child.__name__,
)
async def test_it_is_interrupted_wherever_it_keeps_the_loop(
    child: Callable[..., Awaitable[None]],
) -> None:
    """This includes clean-ups, sleeps and locks without end, and code that catches errors."""
    overran(await end_of(child))


async def test_a_context_manager_is_interrupted_while_it_is_entered() -> None:
    """The start of the child fails."""

    @asynccontextmanager
    async def service() -> AsyncGenerator[None]:
        spin()
        yield

    with pytest.raises(StartFailed) as caught:
        await end_of(service)
    assert isinstance(caught.value.__cause__, StepOverran)


async def test_a_factory_is_interrupted_too() -> None:
    """The code of `start` itself is a step of the child."""

    def factory() -> Awaitable[None]:
        spin()
        return forever()

    with pytest.raises(StartFailed) as caught:
        await end_of(factory)
    assert isinstance(caught.value.__cause__, StepOverran)


async def test_who_catches_it_is_hit_again_and_may_end_well() -> None:
    """After each interruption the child has the same time again, for its clean-up."""
    hits = 0

    async def tough() -> None:
        nonlocal hits
        while hits < 3:
            try:
                spin()
            except StepOverran:
                hits += 1

    assert await end_of(tough) == Normal()
    assert hits == 3


async def test_steps_within_the_limit_are_left_alone() -> None:
    """This holds however many there are, and however long the child waits between them."""

    async def decent() -> None:
        for _ in range(20):
            time.sleep(0.001)  # noqa: ASYNC251 - a short step
            await asyncio.sleep(0.002)
        await asyncio.sleep(2 * LIMIT)

    spec = ChildSpec("c", decent, max_step=0.5, restart=Restart.TEMPORARY)
    async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
        process = await app.start_child(spec)
        assert process is not None
        assert await process.wait() == Normal()


async def test_a_child_without_a_limit_is_never_interrupted() -> None:
    """This holds although the thread watches another child."""
    done = False

    async def slow() -> None:
        nonlocal done
        await asyncio.sleep(0)
        time.sleep(4 * LIMIT)  # noqa: ASYNC251 - the point
        done = True

    async def brief() -> None:
        while not done:
            await turns(1)
        await forever()

    specs = [
        ChildSpec("brief", brief, max_step=LIMIT),
        ChildSpec("slow", slow, restart=Restart.TEMPORARY),
    ]
    async with otpy.start(SupervisorSpec("app", specs), hooks=()) as app:
        process = await app.child("slow").wait()
        assert process == Normal()
        assert done


class Spinning(GenServer[str, str, list[Any]]):
    """A server that loops on request, in a plain callback or in an awaitable."""

    def init(self, log: list[Any]) -> list[Any]:
        return log

    def handle_call(
        self, request: str, caller: otpy.server.Caller[str], state: list[Any]
    ) -> CallResult[str, list[Any]] | Awaitable[CallResult[str, list[Any]]]:
        if request == "later":
            return self._later(state)
        if request == "now":
            spin()
        return Reply(request, state)

    async def _later(self, state: list[Any]) -> CallResult[str, list[Any]]:
        await asyncio.sleep(0)
        spin()
        return NoReply(state)

    def terminate(self, reason: otpy.ExitReason, state: list[Any]) -> None:
        state.append(reason)


@pytest.mark.parametrize("how", ["now", "later"])
async def test_a_server_is_interrupted_in_a_callback(how: str) -> None:
    """GEN-21: it terminates, its caller gets the reason, and the next life replies."""
    log: list[Any] = []
    spec = SupervisorSpec("app", [ChildSpec("s", Spinning, (log,), max_step=LIMIT)])
    async with otpy.start(spec, hooks=()) as app:
        ref = Spinning.at("app/s", root=app)
        assert await ref.call("hello") == "hello"
        first = app.child("s")
        with pytest.raises(CallFailed) as caught:
            await ref.call(how)
        assert isinstance(caught.value.__cause__, StepOverran)
        overran(log[0])
        await app.wait_for_restart("s", after=first.incarnation)
        assert await ref.call("hello again") == "hello again"


async def test_a_server_is_interrupted_in_its_init() -> None:
    """The start of the server fails."""

    class Stuck(GenServer[str, str, None]):
        def init(self) -> None:
            spin()

    with pytest.raises(StartFailed) as caught:
        await end_of(Stuck)
    assert isinstance(caught.value.__cause__, StepOverran)


async def test_nothing_is_left_when_the_tree_has_ended() -> None:
    """Neither the thread nor the handler remains; two trees share both."""
    before = signal.getsignal(signal.SIGURG)
    one, two = (SupervisorSpec(n, [ChildSpec("c", forever, max_step=1)]) for n in ("a", "b"))
    async with otpy.start(one, hooks=()):
        await turns(2)
        handler = signal.getsignal(signal.SIGURG)
        async with otpy.start(two, hooks=()):
            await turns(2)
            assert signal.getsignal(signal.SIGURG) == handler != before
            assert sum(t.name == "otpy preemption" for t in threading.enumerate()) == 1
        assert signal.getsignal(signal.SIGURG) == handler
    assert signal.getsignal(signal.SIGURG) == before
    assert all(t.name != "otpy preemption" for t in threading.enumerate())


async def test_a_tree_without_such_children_has_no_thread() -> None:
    """The limit costs nothing where no child has one."""
    before = threading.active_count()
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", forever)]), hooks=()):
        await turns(2)
        assert threading.active_count() == before


async def test_the_thread_sleeps_while_nothing_is_stepped() -> None:
    """It looks once more after the last step, and then waits until it is woken."""
    async with otpy.start(
        SupervisorSpec("app", [ChildSpec("c", forever, max_step=0.01)]), hooks=()
    ) as app:
        await asyncio.sleep(0.1)
        preemptor = shell_of(app).tree.preemptor
        assert preemptor is not None
        assert preemptor.quiet
        assert preemptor._asleep


async def test_a_signal_that_somebody_else_sends_does_no_harm() -> None:
    """The handler checks the facts and ignores the sender."""

    async def child() -> None:
        for _ in range(50):
            signal.raise_signal(signal.SIGURG)
            await asyncio.sleep(0)

    spec = ChildSpec("c", child, max_step=10, restart=Restart.TEMPORARY)
    async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
        process = await app.start_child(spec)
        assert process is not None
        assert await process.wait() == Normal()


async def test_where_signals_cannot_be_had_it_does_not_start() -> None:
    """A loop in another thread or a SIGURG in use is refused by name, before the child runs."""
    spec = SupervisorSpec("app", [ChildSpec("c", forever, max_step=1)])
    causes: list[BaseException | None] = []

    def taken(_number: int, _frame: FrameType | None) -> None: ...

    async def main() -> None:
        with pytest.raises(TreeStartFailed) as caught:
            async with otpy.start(spec, hooks=()):
                pass
        causes.append(caught.value.__cause__)

    await asyncio.to_thread(asyncio.run, main())
    before = signal.signal(signal.SIGURG, taken)
    try:
        await main()
    finally:
        signal.signal(signal.SIGURG, before)
    assert [type(cause) for cause in causes] == [CannotInterrupt] * 2
    assert "not in the main thread" in str(causes[0])
    assert "SIGURG is handled by <function" in str(causes[1])


@pytest.mark.slow
async def test_it_is_never_raised_outside_of_the_child() -> None:
    """Each of many steps that end near their limit is interrupted inside, or not at all."""
    tally = await overruns(1.0, seed=1)
    assert tally.overruns > 0
    assert tally.longest_step < 2  # a signal is not handled inside of another
    assert tally.answers > 0
    assert (tally.other_ends, tally.outside, tally.noises) == ([], [], [])
