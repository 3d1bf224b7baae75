"""Children that are stopped, killed or timed out before they are ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    Abandoned,
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    Killed,
    Shutdown,
    Strategy,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._core.spec import AnySpec, ShutdownLimit
from otpy.errors import StartFailed, StartTimeout
from otpy.reports import ChildAbandoned, ChildStarted, ChildStartFailed, ChildStopped
from otpy.testing import MockClock, Recording, assert_reports
from tests.runtime.children import Boom, forever, stubborn


async def slow(seconds: float, *, task_status: TaskStatus[None]) -> None:
    await asyncio.sleep(seconds)
    task_status.started()
    await forever()


async def refusing(release: asyncio.Event, *, task_status: TaskStatus[None]) -> None:
    await stubborn(release)


async def slow_to_leave(seconds: float, *, task_status: TaskStatus[None]) -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(seconds)


async def test_ready_within_start_timeout_is_ready(clock: MockClock) -> None:
    """A child that is ready in time starts, and its limit no longer applies."""
    spec = ChildSpec("c", slow, (2,), start_timeout=3)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        assert clock.now == 2
        await asyncio.sleep(100)
        assert app.child("c").incarnation == 1


async def test_not_ready_within_start_timeout_is_a_start_failure(
    clock: MockClock, reports: Recording
) -> None:
    """The child is cancelled at the limit, and the error is a `StartTimeout` that names it."""
    spec = ChildSpec("c", slow, (10,), start_timeout=3)
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
            pass
    assert clock.now == 3
    assert isinstance(caught.value.__cause__, StartTimeout)
    assert caught.value.__cause__.path == "app/c"
    assert reports.one(ChildStartFailed).time == 3


async def test_without_a_start_timeout_a_start_takes_as_long_as_it_takes(
    clock: MockClock,
) -> None:
    """SUP-303: it may take a month; its supervisor waits, and starts nothing else."""
    month = 30 * 86_400
    tree = SupervisorSpec("app", [ChildSpec("c", slow, (month,)), ChildSpec("next", forever)])
    host = otpy.start(tree)
    entering = asyncio.create_task(host.__aenter__())
    await asyncio.sleep(month - 1)
    assert not entering.done()
    app = await entering
    assert clock.now == month
    assert app.child("next").alive
    await host.__aexit__(None, None, None)


async def test_start_child_raises_the_timeout(clock: MockClock) -> None:
    """The caller gets `StartTimeout`, which is a `TimeoutError` too."""
    async with otpy.start(SupervisorSpec("app")) as app:
        with pytest.raises(StartTimeout, match=r"app/c: .*start_timeout=3 s") as caught:
            await app.start_child(ChildSpec("c", slow, (10,), start_timeout=3))
        assert isinstance(caught.value, TimeoutError)
        assert await app.which_children() == []


async def test_a_start_that_refuses_to_end_is_abandoned(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """It times out, is cancelled twice, abandoned two seconds later, and reported once."""
    spec = ChildSpec("c", refusing, (release,), start_timeout=3)
    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        with pytest.raises(StartFailed, match="abandoned"):
            await app.start_child(spec)
        assert clock.now == 5
        await asyncio.sleep(100)
    assert reports.one(ChildAbandoned).path == "app/c"


async def test_ready_after_the_timeout_does_not_count(clock: MockClock, reports: Recording) -> None:
    """A child that swallows the timeout and reports ready is still ended."""

    async def late(*, task_status: TaskStatus[None]) -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            task_status.started()
        await forever()

    spec = ChildSpec("c", late, start_timeout=3, restart=otpy.Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        process = app.child("c")
        reason = await process.wait()
        assert isinstance(reason, otpy.Crashed)
        assert isinstance(reason.error, StartTimeout)
        assert clock.now == 4


async def again(
    seconds: float, release: asyncio.Event | None = None, *, task_status: TaskStatus[None]
) -> None:
    """Be ready at once in the first life, and crash; later be ready after `seconds`."""
    if otpy.current().incarnation == 1:
        task_status.started()
        raise Boom
    if release is None:
        await slow(seconds, task_status=task_status)
    else:
        await stubborn(release)


@pytest.mark.parametrize(
    ("limit", "seconds"), [(5.0, 5), (0, 0), (BRUTAL_KILL, 0), (INFINITY, 100)]
)
async def test_a_stop_hurries_the_start_in_progress(
    clock: MockClock, reports: Recording, limit: ShutdownLimit, seconds: float
) -> None:
    """AIO-10: a starting child has its shutdown limit to become ready, then it is killed."""
    children = [
        ChildSpec("a", forever),
        ChildSpec("b", again, (101,), shutdown=limit),
        ChildSpec("never", forever),
    ]
    tree = SupervisorSpec("app", children, strategy=Strategy.REST_FOR_ONE)
    async with otpy.start(tree, hooks=[reports]):
        await asyncio.sleep(1)
    assert clock.now == 1 + seconds
    assert len(reports.about("app/never")) == 2  # its first life, and its end
    assert_reports(
        list(reports)[-2:],
        """
        app/a #1 stopped: shutdown
        app stopped
    """,
    )


async def test_a_stop_waits_for_a_start_that_is_ready_in_time(
    clock: MockClock, reports: Recording
) -> None:
    """A child that is ready within its limit is stopped in its turn, like every other."""
    children = [ChildSpec("a", forever), ChildSpec("b", again, (3,)), ChildSpec("c", forever)]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
        await asyncio.sleep(1)
    assert clock.now == 3
    assert [(r.id, r.reason) for r in reports.of(ChildStopped)] == [
        ("c", Shutdown()),
        ("b", Shutdown()),
        ("a", Shutdown()),
    ]


async def test_a_hurried_start_that_refuses_is_abandoned(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """It has its limit, then two cancellations a second apart, then it is abandoned."""
    spec = ChildSpec("c", again, (0, release), shutdown=4, start_timeout=60)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
        await asyncio.sleep(1)
    assert clock.now == 7
    await asyncio.sleep(100)
    assert reports.one(ChildAbandoned).path == "app/c"


async def test_a_stop_during_a_nested_start_goes_down(clock: MockClock, reports: Recording) -> None:
    """The start of a nested supervisor is cut short below, in order."""
    inner = SupervisorSpec(
        "in", [ChildSpec("a", forever), ChildSpec("b", slow, (100,), shutdown=2)]
    )
    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        starting = asyncio.ensure_future(app.start_child(inner))
        await asyncio.sleep(1)
    assert clock.now == 3
    await asyncio.wait([starting])
    assert isinstance(starting.exception(), otpy.OtpyError)
    assert reports.one(ChildStopped, "app/in/a").reason == Shutdown()


# --- before the tree has been up for the first time -----------------------------------------------


@asynccontextmanager
async def opening(seconds: float) -> AsyncGenerator[None]:
    await asyncio.sleep(seconds)
    yield


async def listening(*, task_status: TaskStatus[None]) -> None:
    """Start for a minute, as a child that the supervisor should ask to stop."""
    asked = asyncio.ensure_future(otpy.current().stop_requested())
    try:
        await asyncio.sleep(60)
    finally:
        asked.cancel()


class Loading(GenServer[None, None, None]):
    async def init(self) -> None:
        await asyncio.sleep(60)


@pytest.mark.parametrize("limit", [5.0, 0, BRUTAL_KILL, INFINITY])
@pytest.mark.parametrize(
    "start",
    [partial(slow, 60), partial(opening, 60), listening, Loading],
    ids=["task_status", "context manager", "stop_requested", "GenServer"],
)
async def test_a_tree_that_starts_for_the_first_time_cancels_its_start_at_once(
    clock: MockClock, reports: Recording, start: Callable[..., Any], limit: ShutdownLimit
) -> None:
    """No kind of start is waited for, such as one for a dead database; no error is reported."""
    children: list[AnySpec] = [
        ChildSpec("a", forever),
        SupervisorSpec("in", [ChildSpec("b", start, shutdown=limit), ChildSpec("never", forever)]),
    ]

    async def host() -> None:
        async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
            pytest.fail("it is not up")

    task = asyncio.create_task(host())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert clock.now == 1
    assert_reports(
        list(reports),
        """
        app/a #1 started
        app/in/b #1 start failed: shutdown
        app/in stopped: shutdown
        app/in #1 start failed: shutdown
        app/a #1 stopped: shutdown
        app stopped: normal
    """,
    )
    failures = reports.of(ChildStartFailed)
    assert [report.context for report in failures] == [None, None]


async def test_a_start_that_is_cancelled_has_its_limit_for_its_clean_up(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """A child that refuses to end is abandoned, as usual."""

    async def host(child: ChildSpec) -> None:
        async with otpy.start(SupervisorSpec("app", [child]), hooks=[reports]):
            pytest.fail("it is not up")

    for number, child in enumerate(
        [
            ChildSpec("c", slow_to_leave, (3,), shutdown=4),
            ChildSpec("d", refusing, (release,), shutdown=4),
        ]
    ):
        task = asyncio.create_task(host(child))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert clock.now == [4, 4 + 1 + 4 + 1][number]
    assert reports.one(ChildAbandoned).path == "app/d"


@pytest.mark.parametrize("pool", [SupervisorSpec("pool"), DynamicSupervisor.spec("pool")], ids=repr)
async def test_starts_that_children_ask_for_meanwhile_are_cancelled_too(
    clock: MockClock, reports: Recording, pool: AnySpec
) -> None:
    """The pool is up, its tree is not; no error is reported."""

    async def asks() -> None:
        pool = otpy.current().root.child("pool").supervisor
        assert pool is not None
        await pool.start_child(ChildSpec("x", slow, (60,)))

    children: list[AnySpec] = [
        pool,
        ChildSpec("asks", asks, restart=otpy.Restart.TEMPORARY),
        ChildSpec("last", slow, (60,)),
    ]

    async def host() -> None:
        async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
            pytest.fail("it is not up")

    task = asyncio.create_task(host())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert clock.now == 1
    failure = reports.one(ChildStartFailed, "app/pool/x")
    assert (failure.reason, failure.context) == (Shutdown(), None)


async def test_an_end_of_one_child_cuts_no_start_meanwhile(
    clock: MockClock, reports: Recording
) -> None:
    """Only a stop of the whole tree does; otherwise a start has its limit, as usual."""

    async def asks() -> None:
        pool = otpy.current().root.child("pool").supervisor
        assert isinstance(pool, DynamicSupervisor)
        starting = asyncio.ensure_future(pool.start_child(ChildSpec("x", slow, (3,))))
        await asyncio.sleep(1)
        await pool.terminate_child("x")
        assert clock.now == 3
        await starting

    children: list[AnySpec] = [
        DynamicSupervisor.spec("pool"),
        ChildSpec("asks", asks, restart=otpy.Restart.TEMPORARY),
        ChildSpec("last", slow, (5,)),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
        assert clock.now == 5
    assert [report.path for report in reports.of(ChildStarted)][2] == "app/pool/x"
    assert reports.of(ChildStartFailed) == ()


@pytest.mark.parametrize(("shutdown", "end"), [(60.0, 10), (9.0, 10), (5.0, 6), (BRUTAL_KILL, 1)])
async def test_a_start_that_is_hurried_ends_at_the_earlier_of_its_two_limits(
    clock: MockClock,
    reports: Recording,
    release: asyncio.Event,
    shutdown: ShutdownLimit,
    end: float,
) -> None:
    """A child that then ignores the kill is abandoned two seconds later, and reported once."""
    spec = ChildSpec("c", refusing, (release,), start_timeout=10, shutdown=shutdown)
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=[reports]) as pool:
        starting = asyncio.create_task(pool.start_child(spec))
        await asyncio.sleep(1)
        stopping = asyncio.create_task(pool.terminate_child("c"))
        await asyncio.wait([starting, stopping])
        await asyncio.sleep(200)
    assert isinstance(starting.exception(), StartFailed)
    assert stopping.exception() is None
    assert reports.one(ChildAbandoned).time == end + 2
    assert isinstance(reports.one(ChildStartFailed).reason, Abandoned)


async def test_a_start_timeout_after_a_kill_changes_nothing(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """The process was killed while it started, so its timeout comes too late."""
    spec = ChildSpec("c", refusing, (release,), start_timeout=1.5)
    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        starting = asyncio.create_task(app.start_child(spec))
        await asyncio.sleep(1)
        app.child("c").kill()
        with pytest.raises(StartFailed):
            await starting
        assert clock.now == 3
        await asyncio.sleep(100)
    assert reports.one(ChildAbandoned).time == 3


async def test_a_kill_of_a_starting_tree_ends_it(clock: MockClock, reports: Recording) -> None:
    """A kill without grace does not wait for starts."""
    async with otpy.start(SupervisorSpec("app"), hooks=[reports]) as app:
        starting = asyncio.create_task(app.start_child(ChildSpec("c", slow, (100,))))
        await asyncio.sleep(1)
        app.kill(grace=0)
        with pytest.raises(StartFailed, match="killed"):
            await starting
        assert await app.wait() == Killed()
        await clock.advance(0)
        assert clock.now == 1
