"""Restarts, end to end: which child, when, how often, and what the new incarnation knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    AutoShutdown,
    Backoff,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Exit,
    Ignore,
    Intensity,
    Killed,
    Normal,
    Process,
    Restart,
    Shutdown,
    Strategy,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy.errors import NotFound, NotRunning
from otpy.reports import (
    ChildExited,
    ChildGaveUp,
    ChildRestarting,
    ChildStarted,
    ChildStartFailed,
    SupervisorGaveUp,
)
from otpy.specs import GIVE_UP
from otpy.testing import MockClock, Recording, assert_tree
from tests.runtime.children import Boom, Journal, crash, forever, turns


async def crash_once(seconds: float = 1) -> None:
    if otpy.current().incarnation > 1:
        await forever()
    await asyncio.sleep(seconds)
    raise Boom


@pytest.mark.parametrize(
    ("strategy", "lines"),
    [
        (Strategy.ONE_FOR_ONE, ["-b", "+b"]),
        (Strategy.ONE_FOR_ALL, ["-b", "-c", "-a", "+a", "+b", "+c"]),
        (Strategy.REST_FOR_ONE, ["-b", "-c", "+b", "+c"]),
    ],
)
async def test_the_strategy_says_who_is_restarted(
    clock: MockClock, journal: Journal, reports: Recording, strategy: Strategy, lines: list[str]
) -> None:
    """Those children stop in reverse and start in order, and the restart counts once."""
    spec = SupervisorSpec("app", [journal.spec(n) for n in "abc"], strategy=strategy, intensity=1)
    async with otpy.start(spec, hooks=[reports]) as app:
        await clock.advance(0)
        journal.lines.clear()
        journal.crash["b"].set()
        await app.wait_for_restart("b", after=1)
        await clock.advance(0)
        assert journal.lines == lines
        assert len(reports.of(ChildRestarting)) == 1
        assert app.settled


async def test_a_child_knows_that_and_why_it_was_restarted(clock: MockClock) -> None:
    """`otpy.current()` has the incarnation, the restarts, and the last exit reason."""
    seen: list[tuple[int, int, object]] = []
    errors = [Boom("first"), Boom("second")]

    async def child() -> None:
        me = otpy.current()
        assert (me.id, me.path, me.spec.id) == ("c", "app/c", "c")
        assert me.root is me.parent
        seen.append((me.incarnation, me.restarts, me.last_exit))
        await asyncio.sleep(1)
        raise errors[me.incarnation - 1]

    spec = SupervisorSpec("app", [ChildSpec("c", child)], intensity=2)
    async with otpy.start(spec):
        await asyncio.sleep(2.5)
    assert seen == [(1, 0, None), (2, 1, Crashed(errors[0])), (3, 2, Crashed(errors[1]))]


async def test_helpers_of_a_child_belong_to_it(clock: MockClock) -> None:
    """In tasks and threads of a child, the current process is that child."""
    seen: list[Process] = []

    async def note() -> None:
        seen.append(otpy.current())

    async def child() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(note())
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])) as app:
        await clock.advance(0)
        assert seen == [app.child("c")]


@pytest.mark.parametrize(
    ("restart", "reason", "again"),
    [
        (Restart.PERMANENT, Normal(), True),
        (Restart.PERMANENT, Shutdown(), True),
        (Restart.TRANSIENT, Normal(), False),
        (Restart.TRANSIENT, Shutdown("x"), False),
        (Restart.TRANSIENT, Killed(), True),
        (Restart.TEMPORARY, Killed(), False),
    ],
)
async def test_the_restart_type_says_whether(
    clock: MockClock, restart: Restart, reason: otpy.ExitReason, again: bool
) -> None:
    """Permanent: always; transient: after an abnormal end; temporary: never."""
    starts = 0

    async def child() -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise Exit(reason)
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child, restart=restart)])) as app:
        await asyncio.sleep(1)
        assert starts == 1 + again
        counts = await app.count_children()
        assert counts.active == again
        assert counts.specs == (restart is not Restart.TEMPORARY)


async def test_reports_count_restarts_truthfully(clock: MockClock, reports: Recording) -> None:
    """The end of the n-th life is reported with n - 1 restarts, with or without a delay."""

    async def child() -> None:
        await asyncio.sleep(10)
        raise Boom

    children = [
        ChildSpec("now", child),
        ChildSpec("later", child, backoff=Backoff.sequence(1)),
    ]
    async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
        await asyncio.sleep(35)
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=[reports]) as pool:
        for spec in children:
            await pool.start_child(spec)
        await asyncio.sleep(35)
    for kind in (ChildStarted, ChildExited, ChildRestarting):
        for path in ("app/now", "app/later", "pool/now", "pool/later"):
            numbers = [(r.incarnation, r.restarts) for r in reports.of(kind, path)]
            assert numbers[:3] == [(1, 0), (2, 1), (3, 2)], (kind, path)


async def test_a_delayed_restart_shows_when_it_is_due(clock: MockClock, reports: Recording) -> None:
    """The snapshot shows the remaining time; siblings and the supervisor go on."""
    spec = ChildSpec("c", crash_once, backoff=Backoff.sequence(5, 15))
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=[reports]) as app:
        await asyncio.sleep(3)
        assert_tree(
            app,
            """
            app running
            └─ c backing off for 3.0 s restarts=0 last exit: crashed: Boom
            """,
        )
        assert app.snapshot().children[0].incarnation == 1
        assert (await app.which_children())[0].process is otpy.snapshot.RESTARTING
        started = await app.start_child(ChildSpec("d", forever))
        assert started is not None
        assert clock.now == 3
        assert (await app.count_children()).active == 1
        process = await app.wait_for_restart("c", after=1)
        assert clock.now == 6
        assert process.restarts == 1
    assert reports.one(ChildRestarting).delay == 5


async def test_retry_now_cuts_the_delay_short(clock: MockClock) -> None:
    """The child starts at once, and the result says whether there was a delay."""
    spec = ChildSpec("c", crash_once, backoff=Backoff.sequence(50))
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        assert await app.retry_now("c") is False
        await asyncio.sleep(2)
        assert await app.retry_now("c") is True
        assert app.child("c").incarnation == 2
        assert clock.now == 2
        assert await app.retry_now("c") is False
        await asyncio.sleep(100)
        assert app.child("c").incarnation == 2
        with pytest.raises(NotFound):
            await app.retry_now("nobody")


@pytest.mark.parametrize("root", [SupervisorSpec("app"), DynamicSupervisor.spec("app")])
async def test_terminate_and_shutdown_cancel_a_delay(
    clock: MockClock, root: SupervisorSpec, reports: Recording
) -> None:
    """The restart no longer takes place, and no timer remains."""
    async with otpy.start(root, hooks=[reports]) as app:
        for name in "ab":
            await app.start_child(ChildSpec(name, crash_once, backoff=Backoff.sequence(50)))
        await asyncio.sleep(2)
        await app.terminate_child("a")
        assert clock.now == 2
    assert clock.now == 2
    await asyncio.sleep(100)
    assert reports.of(ChildStarted, "app/a")[-1].incarnation == 1
    assert reports.of(ChildStarted, "app/b")[-1].incarnation == 1


async def test_a_group_waits_for_its_longest_delay(clock: MockClock, journal: Journal) -> None:
    """With `ONE_FOR_ALL`, siblings stay down until the delayed child is due."""
    children = [journal.spec("a"), ChildSpec("c", crash_once, backoff=Backoff.sequence(5))]
    spec = SupervisorSpec("app", children, strategy=Strategy.ONE_FOR_ALL)
    async with otpy.start(spec) as app:
        await asyncio.sleep(2)
        assert journal.lines == ["+a", "-a"]
        await app.wait_for_restart("a", after=1)
        assert clock.now == 6


async def test_an_own_limit_that_gives_up_spares_the_siblings(
    clock: MockClock, reports: Recording
) -> None:
    """Only that child is removed, and the removal is reported."""

    async def child() -> None:
        await asyncio.sleep(1)
        raise Boom

    own = Intensity(2, 60, GIVE_UP)
    children = [ChildSpec("bad", child, intensity=own), ChildSpec("good", forever)]
    spec = SupervisorSpec("app", children, intensity=0)
    async with otpy.start(spec, hooks=[reports]) as app:
        with pytest.raises(NotFound):
            await app.wait_for_restart("bad", after=10)
        assert clock.now == 3
        assert app.running
        assert [info.id for info in await app.which_children()] == ["good"]
    gave_up = reports.one(ChildGaveUp)
    assert (gave_up.path, gave_up.incarnation, gave_up.restarts) == ("app/bad", 3, 2)
    assert isinstance(gave_up.reason, Crashed)
    assert reports.of(SupervisorGaveUp) == ()


async def test_a_restart_that_fails_is_tried_again_and_counted(
    clock: MockClock, reports: Recording
) -> None:
    """The next attempt comes at once, until one succeeds or the limit is reached."""
    starts = 0

    async def child(*, task_status: TaskStatus[None]) -> None:
        nonlocal starts
        starts += 1
        if starts in (2, 3):
            raise Boom("start")
        task_status.started()
        await asyncio.sleep(1)
        if starts == 1:
            raise Boom("run")
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)]), hooks=[reports]) as app:
        process = await app.wait_for_restart("c", after=1)
        assert (process.incarnation, clock.now) == (4, 1)
        assert isinstance(process.last_exit, Crashed)
        assert str(process.last_exit.error) == "start"
    assert len(reports.of(ChildStartFailed)) == 2


async def test_a_restart_that_never_starts_uses_up_the_limit(clock: MockClock) -> None:
    """There is no busy loop: after three attempts, the supervisor gives up."""
    starts = 0

    async def child(*, task_status: TaskStatus[None]) -> None:
        nonlocal starts
        starts += 1
        if starts > 1:
            raise Boom("start")
        task_status.started()
        await turns(1)
        raise Boom("run")

    with pytest.raises(SupervisorFailed):
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])):
            await forever()
    assert starts == 4


async def test_a_dynamic_child_may_decline_its_restart(clock: MockClock) -> None:
    """A child of a pool that declines is forgotten, and a caller that waits for it is told."""

    async def child(*, task_status: TaskStatus[None]) -> None:
        if otpy.current().incarnation > 1:
            raise Ignore
        task_status.started()
        await asyncio.sleep(1)
        raise Boom

    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        await pool.start_child(ChildSpec("c", child))
        with pytest.raises(NotFound):
            await asyncio.wait_for(pool.wait_for_restart("c", after=1), 10)
        assert (await pool.count_children()).specs == 0


@pytest.mark.parametrize("how", ["delete", "terminate"])
async def test_waiting_for_a_restart_that_is_called_off(clock: MockClock, how: str) -> None:
    """A forgotten child never returns, so the wait ends with `NotFound` at once."""
    if how == "delete":
        root: SupervisorSpec | otpy.specs.DynamicSpec = SupervisorSpec("app")
    else:
        root = DynamicSupervisor.spec("app")
    async with otpy.start(root) as app:
        await app.start_child(ChildSpec("c", crash_once, backoff=Backoff.sequence(50)))
        await asyncio.sleep(2)
        waiting = asyncio.create_task(app.wait_for_restart("c", after=1))
        await clock.advance(0)
        await app.terminate_child("c")
        if isinstance(app, otpy.Supervisor):
            await app.delete_child("c")
        done, _ = await asyncio.wait([waiting], timeout=10)
        assert done, "still waiting for a child that is gone"
        with pytest.raises(NotFound):
            await waiting
        assert clock.now == 2


async def test_waiting_for_a_restart_has_no_race(clock: MockClock) -> None:
    """An incarnation that already exists is returned at once; a cancelled wait does no harm."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", crash_once)])) as app:
        assert (await app.wait_for_restart("c", after=0)) is app.child("c")
        waits = [asyncio.create_task(app.wait_for_restart("c", after=1)) for _ in range(3)]
        await clock.advance(0)
        waits[0].cancel()
        assert (await waits[1]) is (await waits[2])
        assert (await app.wait_for_restart("c", after=1)).incarnation == 2
        with pytest.raises(NotFound):
            await app.wait_for_restart("nobody", after=0)
        waiting = asyncio.create_task(app.wait_for_restart("c", after=7))
        await clock.advance(0)
        await app.stop()
        with pytest.raises(NotRunning):
            await waiting
        with pytest.raises(NotRunning):
            await app.wait_for_restart("c", after=7)


async def test_a_permanent_supervisor_that_is_stopped_comes_back(reports: Recording) -> None:
    """`stop()` of a nested supervisor is an end like any other, and its restart type decides."""
    inner = SupervisorSpec("in", [ChildSpec("c", forever)])
    async with otpy.start(SupervisorSpec("app", [inner]), hooks=[reports]) as app:
        first = app.child("in").supervisor
        assert first is not None
        await first.stop(Shutdown("again"))
        process = await app.wait_for_restart("in", after=1)
        assert process.supervisor is not first
        assert process.last_exit == Shutdown("again")
        assert app.whereis("app/in/c").incarnation == 1


async def test_significant_children_end_their_supervisor(clock: MockClock) -> None:
    """`ALL_SIGNIFICANT` waits for the last of them; the parent sees a `Shutdown`."""

    async def job(seconds: float) -> None:
        await asyncio.sleep(seconds)

    jobs = [
        ChildSpec(str(n), job, (n,), restart=Restart.TEMPORARY, significant=True) for n in (1, 3)
    ]
    spec = SupervisorSpec(
        "app", [*jobs, ChildSpec("c", forever)], auto_shutdown=AutoShutdown.ALL_SIGNIFICANT
    )
    async with otpy.start(spec) as app:
        assert await app.wait() == Shutdown()
        assert clock.now == 3


async def test_delays_of_nested_supervisors_are_backoffs_too(clock: MockClock) -> None:
    """A supervisor's own backoff delays its restart as a child."""
    inner = SupervisorSpec(
        "in", [ChildSpec("c", crash_once)], intensity=0, backoff=Backoff.sequence(7)
    )
    async with otpy.start(SupervisorSpec("app", [inner])) as app:
        await asyncio.sleep(2)
        assert_tree(
            app,
            """
            app running
            └─ in backing off for 6.0 s
            """,
        )
        await app.wait_for_restart("in", after=1)
        assert clock.now == 8


async def test_a_crash_loop_leaves_the_loop_to_others(clock: MockClock) -> None:
    """Thousands of restarts in a row do not keep a sibling from its turn."""
    spec = SupervisorSpec("app", [ChildSpec("bad", crash)], intensity=1000)
    beats = 0
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(spec, hooks=()):
            while True:
                beats += 1
                await asyncio.sleep(0)
    assert beats > 1000
    assert len(caught.value.history) == 1001


@pytest.mark.parametrize("limit", [otpy.INFINITY, 10**30])
@pytest.mark.parametrize("own", [False, True])
async def test_a_child_may_crash_any_number_of_times(limit: Any, own: bool) -> None:
    """An infinite limit and an unreachable one behave the same, for a child or its supervisor."""
    rest = asyncio.Event()

    async def child() -> None:
        if otpy.current().incarnation == 50:
            rest.set()
            await forever()
        raise Boom

    intensity = Intensity(limit, 60) if own else None
    spec = ChildSpec("c", child, intensity=intensity)
    async with otpy.start(SupervisorSpec("app", [spec], intensity=0 if own else limit)):
        await rest.wait()
