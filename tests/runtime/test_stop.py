"""A stop always ends: children comply, are cut off or are abandoned, at exact times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    Abandoned,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    ExitReason,
    Killed,
    Normal,
    Process,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._core.spec import ShutdownLimit
from otpy._runtime.shells import shell_of
from otpy.reports import ChildAbandoned, ChildStopped, SupervisorStopped
from otpy.testing import MockClock, Recording, Simulation, simulate
from tests.runtime.children import Boom, crash, forever, stubborn


async def ask_and_comply() -> None:
    await otpy.current().stop_requested()
    await asyncio.sleep(2)


async def ask_and_dawdle(release: asyncio.Event) -> None:
    await otpy.current().stop_requested()
    await release.wait()


async def swallow_once() -> None:
    try:
        await forever()
    except asyncio.CancelledError:
        await forever()


async def swallow_and_return() -> None:
    try:
        await forever()
    except asyncio.CancelledError:
        return


async def clean_up(seconds: float) -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(seconds)


async def crash_in_clean_up() -> None:
    try:
        await forever()
    finally:
        raise Boom("clean-up")


async def stopped_at(clock: MockClock, spec: ChildSpec, reports: Recording) -> tuple[float, object]:
    """Run `spec` for one second; return how long its stop took, and the reported reason."""
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]):
        await asyncio.sleep(1)
    return clock.now - 1, reports.one(ChildStopped).reason


@pytest.mark.parametrize(
    ("start", "limit", "seconds", "reason"),
    [
        (forever, 5.0, 0, Shutdown()),
        (forever, 0, 0, Shutdown()),
        (forever, INFINITY, 0, Shutdown()),
        (forever, BRUTAL_KILL, 0, Killed()),
        (ask_and_comply, 5.0, 2, Shutdown()),
        (ask_and_comply, INFINITY, 2, Shutdown()),
        (ask_and_comply, 1.5, 1.5, Killed()),
        (ask_and_comply, BRUTAL_KILL, 0, Killed()),
        (swallow_once, 5.0, 5, Killed()),
        (swallow_once, 0, 0, Killed()),
        (swallow_once, BRUTAL_KILL, 1, Killed()),
        (swallow_and_return, 5.0, 0, Normal()),
        (lambda: clean_up(3), 5.0, 3, Shutdown()),
        (lambda: clean_up(300), INFINITY, 300, Shutdown()),
        (lambda: clean_up(300), 5.0, 5, Killed()),
    ],
)
async def test_each_child_ends_when_its_limit_says(
    clock: MockClock,
    reports: Recording,
    start: Callable[[], Awaitable[object]],
    limit: ShutdownLimit,
    seconds: float,
    reason: ExitReason,
) -> None:
    """AIO-07: a child that can be ended ends by its deadline, and the report says how."""
    spec = ChildSpec("c", start, shutdown=limit)
    assert await stopped_at(clock, spec, reports) == (seconds, reason)
    assert reports.of(ChildAbandoned) == ()


@pytest.mark.parametrize(
    ("limit", "seconds"), [(5.0, 6.0), (0.25, 1.25), (0, 1.0), (BRUTAL_KILL, 2.0)]
)
async def test_a_child_that_swallows_cancellation_is_abandoned(
    clock: MockClock,
    reports: Recording,
    release: asyncio.Event,
    limit: float,
    seconds: float,
) -> None:
    """AIO-02, AIO-04: it is cancelled twice, then abandoned, by name and with its stack."""
    spec = ChildSpec("c", stubborn, (release,), shutdown=limit)
    took, reason = await stopped_at(clock, spec, reports)
    assert took == seconds
    assert isinstance(reason, Abandoned)
    report = reports.one(ChildAbandoned)
    assert (report.path, report.what, report.time) == ("app/c", "task", 1 + seconds)
    assert report.stack == reason.stack
    assert any("stubborn" in line and __name__.split(".")[0] in line for line in report.stack)
    assert "wait" in report.stack[-1]


async def test_an_asked_child_that_does_not_comply_gets_two_more_seconds(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """Ask, cancel, cancel again, abandon: each has its deadline."""

    async def child() -> None:
        await otpy.current().stop_requested()
        await stubborn(release)

    took, reason = await stopped_at(clock, ChildSpec("c", child, shutdown=5), reports)
    assert took == 7
    assert isinstance(reason, Abandoned)


async def test_an_asked_child_is_cut_off_at_its_limit(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """A child that goes on working is cancelled at its limit: `Killed`."""
    spec = ChildSpec("c", ask_and_dawdle, (release,), shutdown=5)
    assert await stopped_at(clock, spec, reports) == (5, Killed())


async def test_a_child_that_crashes_in_its_clean_up_is_reported_so(
    clock: MockClock, reports: Recording
) -> None:
    """The crash does not disturb the stop, and is reported as an error."""
    took, reason = await stopped_at(clock, ChildSpec("c", crash_in_clean_up), reports)
    assert took == 0
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, Boom)
    context = reports.one(ChildStopped).context
    assert context is not None
    assert context.value == "shutdown_error"


async def test_clean_up_of_a_context_manager_that_refuses_is_named(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """The stack goes down to the generator's own line, not just to contextlib."""

    @asynccontextmanager
    async def service() -> AsyncGenerator[None]:
        yield
        await stubborn(release)

    took, reason = await stopped_at(clock, ChildSpec("c", service, shutdown=3), reports)
    assert took == 5
    assert isinstance(reason, Abandoned)
    assert any("service" in line for line in reason.stack), reason.stack
    assert any("stubborn" in line for line in reason.stack), reason.stack


async def test_siblings_are_stopped_in_reverse_around_a_refusal(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """A refusing child delays the others by its limit only, and the order stays."""
    children = [
        ChildSpec("a", forever),
        ChildSpec("b", stubborn, (release,), shutdown=3),
        ChildSpec("c", forever),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
        await clock.advance(0)
    stops = [(r.id, r.time) for r in reports.of(ChildStopped)]
    assert stops == [("c", 0), ("b", 4), ("a", 4)]
    assert list(reports)[-1] == SupervisorStopped(path="app", time=4, reason=Normal())


async def test_a_finite_shutdown_of_a_nested_supervisor_bounds_it(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """At its limit the branch has a second, then it is killed; a refusing child is abandoned."""
    children = [
        ChildSpec("a", forever),
        ChildSpec("b", stubborn, (release,), shutdown=60),
        ChildSpec("c", stubborn, (release,), shutdown=60),
    ]
    inner = SupervisorSpec("in", children, shutdown=3)
    async with otpy.start(SupervisorSpec("app", [inner]), hooks=[reports]):
        await clock.advance(0)
    assert clock.now == 6
    stops = {r.path: r.reason for r in reports.of(ChildStopped)}
    assert stops["app/in/a"] == Killed()
    assert isinstance(stops["app/in/b"], Abandoned)
    assert isinstance(stops["app/in/c"], Abandoned)
    assert stops["app/in"] == Killed()


async def test_a_dynamic_supervisor_stops_its_children_together(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """Ten slow clean-ups take as long as one, and a refusal does not delay the others."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=[reports]) as pool:
        for _ in range(10):
            await pool.start_child(ChildSpec("w", clean_up, (2,)))
        await pool.start_child(ChildSpec("bad", stubborn, (release,), shutdown=3))
        await clock.advance(0)
    assert clock.now == 4
    assert [r.time for r in reports.of(ChildStopped)] == [2.0] * 10 + [4.0]


async def test_a_killed_dynamic_supervisor_cuts_its_stop_short(
    clock: MockClock, release: asyncio.Event
) -> None:
    """A kill overtakes the stop of every child in progress."""
    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        await pool.start_child(ChildSpec("a", clean_up, (300,), shutdown=INFINITY))
        await pool.start_child(ChildSpec("b", stubborn, (release,), shutdown=INFINITY))
        await clock.advance(0)
        shell_of(pool).shut_down(Shutdown())
        await asyncio.sleep(10)
        assert not pool.ended
        pool.kill()
        assert await pool.wait() == Killed()
        assert clock.now == 13


async def test_abandoned_children_are_listed_until_they_end(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """AIO-04: an abandoned child leaves the list when it ends, without effect on the next life."""

    async def child() -> None:
        if otpy.current().incarnation == 1:
            await stubborn(release)
        else:
            await forever()

    spec = ChildSpec("c", child, shutdown=1)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        first = app.child("c")
        await clock.advance(0)
        first.exit()
        reason = await first.wait()
        assert isinstance(reason, Abandoned)
        assert not first.alive
        assert clock.now == 2
        second = await app.wait_for_restart("c", after=1)
        assert list(app.abandoned) == [first]
        release.set()
        await clock.advance(0)
        assert not app.abandoned
        assert second.alive
        assert await first.wait() == reason
        assert len(reports.of(ChildAbandoned)) == 1


async def test_a_nested_kill_does_not_wait_for_anything(
    clock: MockClock, release: asyncio.Event
) -> None:
    """`kill()` of a supervisor's process kills the branch, in parallel, after a second."""
    children = [ChildSpec(n, stubborn, (release,), shutdown=INFINITY) for n in "abc"]
    tree = SupervisorSpec("app", [SupervisorSpec("in", children)])
    async with otpy.start(tree) as app:
        await clock.advance(0)
        process = app.child("in")
        process.kill()
        assert await process.wait() == Killed()
        assert clock.now == 3
        release.set()


@pytest.mark.parametrize("limit", [INFINITY, 60.0])
async def test_a_kill_overtakes_a_stop(clock: MockClock, reports: Recording, limit: float) -> None:
    """A child in a slow stop is still killed, and its supervisor sees `Killed`."""
    spec = ChildSpec("c", clean_up, (300,), shutdown=limit)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        process = app.child("c")
        await clock.advance(0)
        process.exit()
        await asyncio.sleep(7)
        process.kill()
        assert await process.wait() == Killed()
        assert clock.now == 7


async def test_a_second_stop_changes_nothing(clock: MockClock, reports: Recording) -> None:
    """A second stop neither restarts the first nor changes the reason."""
    spec = ChildSpec("c", clean_up, (10,), restart=otpy.Restart.TEMPORARY, shutdown=4)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        process = app.child("c")
        await clock.advance(0)
        process.exit(Shutdown("first"))
        await asyncio.sleep(3)
        process.exit(Shutdown("second"))
        stopping = asyncio.create_task(app.terminate_child("c"))
        assert await process.wait() == Killed()
        assert clock.now == 4
        await stopping


async def test_a_second_kill_does_not_put_off_the_end(
    clock: MockClock, release: asyncio.Event
) -> None:
    """A child is abandoned two seconds after the first kill, however many follow."""
    spec = ChildSpec("c", stubborn, (release,), restart=otpy.Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        process = app.child("c")
        await clock.advance(0)
        for _ in range(10):
            process.kill()
            await asyncio.sleep(0.5)
        assert not process.alive
        assert isinstance(await process.wait(), Abandoned)


async def test_stopping_a_supervisor_twice_is_stopping_it_once(
    clock: MockClock, reports: Recording
) -> None:
    """Both callers get the end of the same stop, with the first reason."""
    spec = ChildSpec("c", clean_up, (3,))
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        await clock.advance(0)
        first = asyncio.create_task(app.stop(Shutdown("first")))
        await asyncio.sleep(1)
        await app.stop(Shutdown("second"))
        await first
        assert clock.now == 3
        assert await app.wait() == Shutdown("first")
        await app.stop()
        app.kill()
        assert await app.wait() == Shutdown("first")


async def test_stop_requested_resolves_at_once_while_stopping(clock: MockClock) -> None:
    """A child that asks for the first time in its clean-up gets the answer at once."""
    seen: list[float] = []

    async def child() -> None:
        try:
            await forever()
        finally:
            await otpy.current().stop_requested()
            seen.append(clock.now)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])):
        await asyncio.sleep(1)
    assert seen == [1]


async def test_a_cancelled_wait_for_the_request_disturbs_nobody(clock: MockClock) -> None:
    """A helper may wait for the request with a timeout; the request still comes."""

    async def child() -> None:
        process = otpy.current()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.stop_requested(), 1)
        await process.stop_requested()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])) as app:
        await asyncio.sleep(2)
        process = app.child("c")
    assert await process.wait() == Shutdown()
    assert clock.now == 2


async def test_a_failing_group_restart_gives_up_members_that_refuse(
    clock: MockClock, reports: Recording, release: asyncio.Event
) -> None:
    """A sibling that refuses to stop does not prevent the restart of the group."""
    bang = asyncio.Event()

    async def fragile() -> None:
        if not bang.is_set():
            await bang.wait()
            await crash()
        await forever()

    children = [ChildSpec("a", stubborn, (release,), shutdown=2), ChildSpec("b", fragile)]
    spec = SupervisorSpec("app", children, strategy=otpy.Strategy.ONE_FOR_ALL)
    async with otpy.start(spec, hooks=[reports]) as app:
        await clock.advance(0)
        bang.set()
        again: Process = await app.wait_for_restart("b", after=1)
        assert (clock.now, again.incarnation, app.child("a").incarnation) == (3, 2, 2)
        assert isinstance(app.child("a").last_exit, Abandoned)
        release.set()
        assert isinstance(app, Supervisor)


@pytest.mark.parametrize("seed", range(5))
def test_who_obeys_each_cancellation_is_never_given_up(seed: int) -> None:
    """A child takes two cancellations before its next step as one; a third follows (AIO-04)."""

    def nobody_is_given_up(simulation: Simulation) -> None:
        assert not [r for r in simulation.reports if isinstance(r, ChildAbandoned)]

    tidy = ChildSpec("c", clean_up, (1.5,), shutdown=0)
    simulate(SupervisorSpec("app", [tidy]), seed=seed, until=1, check=nobody_is_given_up)
