"""Requests to a running supervisor, and every way in which it refuses."""

from __future__ import annotations

import asyncio

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    Backoff,
    ChildSpec,
    ChildType,
    DynamicSupervisor,
    InvalidSpec,
    Process,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)
from otpy._runtime.shells import shell_of
from otpy.errors import (
    AlreadyPresent,
    AlreadyStarted,
    CallingSelf,
    ChildError,
    ChildRunning,
    NotFound,
    NotRunning,
    RestartPending,
    StartFailed,
)
from otpy.snapshot import RESTARTING, ChildInfo, Counts
from otpy.testing import MockClock, Recording, assert_tree
from tests.runtime.children import Boom, Journal, crash, forever


async def slow(seconds: float, *, task_status: TaskStatus[None]) -> None:
    await asyncio.sleep(seconds)
    task_status.started()
    await forever()


async def broken(*, task_status: TaskStatus[None]) -> None:
    raise Boom


async def test_the_life_of_a_child_by_hand(clock: MockClock, journal: Journal) -> None:
    """Start, terminate, restart, delete: each works as in OTP."""
    async with otpy.start(journal.tree("a")) as app:
        process = app.child("b") if await app.start_child(journal.spec("b")) else None
        assert process is not None
        await clock.advance(0)
        await app.terminate_child("b")
        assert journal.lines == ["+a", "+b", "-b"]
        assert await process.wait() == Shutdown()
        await app.terminate_child("b")
        assert await app.which_children() == [
            ChildInfo("b", None, ChildType.WORKER),
            ChildInfo("a", app.child("a"), ChildType.WORKER),
        ]
        again = await app.restart_child("b")
        assert again is not None
        assert (again.incarnation, again.last_exit) == (2, Shutdown())
        await app.terminate_child("b")
        await app.delete_child("b")
        with pytest.raises(NotFound):
            app.child("b")
        assert await app.count_children() == Counts(1, 1, 0, 1)


async def test_a_temporary_child_is_forgotten_when_terminated() -> None:
    """The supervisor keeps nothing of it."""
    async with otpy.start(SupervisorSpec("app")) as app:
        await app.start_child(ChildSpec("c", forever, restart=Restart.TEMPORARY))
        await app.terminate_child("c")
        with pytest.raises(NotFound):
            await app.terminate_child("c")
        assert await app.which_children() == []


async def test_counts_and_order(clock: MockClock) -> None:
    """The newest comes first; counts tell supervisors, workers, known and active (SUP-208)."""
    pool = DynamicSupervisor.spec("pool")
    inner = SupervisorSpec("in")
    resting = ChildSpec("resting", crash, backoff=Backoff.sequence(50))
    async with otpy.start(
        SupervisorSpec("app", [ChildSpec("w", forever), inner, pool, resting])
    ) as app:
        await app.start_child(ChildSpec("x", forever))
        await clock.advance(0)
        infos = await app.which_children()
        assert [info.id for info in infos] == ["x", "resting", "pool", "in", "w"]
        assert infos[1].process is RESTARTING
        assert repr(RESTARTING) == "RESTARTING"
        assert await app.count_children() == Counts(5, 4, 2, 3)
        await app.terminate_child("in")
        assert await app.count_children() == Counts(5, 3, 2, 3)


async def test_get_childspec_answers_in_any_state() -> None:
    """Whether the child runs or not, the spec is the one that started it."""
    spec = ChildSpec("c", forever)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        assert await app.get_childspec("c") is spec
        await app.terminate_child("c")
        assert await app.get_childspec("c") is spec
        with pytest.raises(NotFound, match="app/nobody"):
            await app.get_childspec("nobody")


async def test_arguments_of_temporary_children_are_kept() -> None:
    """SUP-217 differs: OTP drops the arguments of a child added by hand, to save memory."""
    spec = ChildSpec("t", asyncio.sleep, (100,), restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app")) as app:
        await app.start_child(spec)
        kept = await app.get_childspec("t")
        assert isinstance(kept, ChildSpec)
        assert kept.args == (100,)


async def test_refusals_name_the_child_and_the_way_out(clock: MockClock) -> None:
    """Each refusal is a class of its own and the nearest builtin, and names the path."""
    resting = ChildSpec("resting", crash, backoff=Backoff.sequence(50))
    async with otpy.start(SupervisorSpec("app", [ChildSpec("up", forever), resting])) as app:
        await app.start_child(ChildSpec("down", forever))
        await app.terminate_child("down")
        await asyncio.sleep(1)
        with pytest.raises(AlreadyStarted, match="app/up: already started") as started:
            await app.start_child(ChildSpec("up", forever))
        assert started.value.process is app.child("up")
        assert isinstance(started.value, ValueError)
        for name in ("down", "resting"):
            with pytest.raises(AlreadyPresent, match=f"app/{name}"):
                await app.start_child(ChildSpec(name, forever))
        for call in (app.restart_child, app.delete_child):
            with pytest.raises(NotFound) as missing:
                await call("nobody")
            assert isinstance(missing.value, LookupError)
            with pytest.raises(ChildRunning):
                await call("up")
            with pytest.raises(RestartPending):
                await call("resting")
        with pytest.raises(NotFound):
            await app.terminate_child("nobody")
        with pytest.raises(NotRunning, match="app/down"):
            app.child("down")
        with pytest.raises(NotFound):
            app.child("nobody")


async def test_what_cannot_stand_here_is_refused_before_anything_happens() -> None:
    """A bad spec raises at once, in the caller."""
    bad = ChildSpec("c", forever, restart=Restart.TRANSIENT, significant=True)
    async with otpy.start(SupervisorSpec("app", [DynamicSupervisor.spec("pool")])) as app:
        pool = app.child("pool").supervisor
        assert isinstance(pool, DynamicSupervisor)
        for parent in (app, pool):
            with pytest.raises(InvalidSpec):
                await parent.start_child(bad)
            with pytest.raises(InvalidSpec):
                await parent.start_child("junk")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(InvalidSpec):
        DynamicSupervisor.spec("pool", max_children=-1)


async def test_a_start_by_hand_that_fails_disturbs_nobody(
    clock: MockClock, journal: Journal, reports: Recording
) -> None:
    """It counts nothing and keeps nothing; after a failed `restart_child` the child stays down."""
    starts = 0

    async def flaky(*, task_status: TaskStatus[None]) -> None:
        nonlocal starts
        starts += 1
        if starts > 1:
            raise Boom(str(starts))
        task_status.started()
        await forever()

    spec = SupervisorSpec("app", [journal.spec("a")], intensity=0)
    async with otpy.start(spec, hooks=[reports]) as app:
        for _ in range(3):
            with pytest.raises(StartFailed) as caught:
                await app.start_child(ChildSpec("b", broken))
            assert isinstance(caught.value.__cause__, Boom)
        await app.start_child(ChildSpec("c", flaky))
        await app.terminate_child("c")
        with pytest.raises(StartFailed):
            await app.restart_child("c")
        assert (await app.which_children())[0] == ChildInfo("c", None, ChildType.WORKER)
        assert app.running
        assert journal.lines == ["+a"]


async def test_operations_wait_their_turn(clock: MockClock) -> None:
    """AIO-15: one at a time, in the order of the calls; a slow start delays the next."""
    async with otpy.start(SupervisorSpec("app")) as app:
        first = asyncio.create_task(app.start_child(ChildSpec("a", slow, (5,))))
        await clock.advance(0)
        assert not app.settled
        second = asyncio.create_task(app.start_child(ChildSpec("b", forever)))
        await clock.advance(0)
        assert_tree(
            app,
            """
            app running
            └─ a starting
            """,
        )
        assert len(await app.which_children()) == 2
        assert clock.now == 5
        assert await first is app.child("a")
        assert await second is app.child("b")


async def test_cancelling_a_caller_does_not_take_the_request_back(clock: MockClock) -> None:
    """The child is still started, or ended."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("old", forever)])) as app:
        starting = asyncio.create_task(app.start_child(ChildSpec("new", slow, (5,))))
        await clock.advance(0)
        stopping = asyncio.create_task(app.terminate_child("old"))
        await clock.advance(0)
        starting.cancel()
        stopping.cancel()
        await asyncio.wait([starting, stopping])
        assert starting.cancelled()
        assert stopping.cancelled()
        assert [info.id for info in await app.which_children()] == ["new", "old"]
        assert clock.now == 5
        assert app.child("new").alive
        with pytest.raises(NotRunning):
            app.child("old")


async def test_a_child_that_starts_cannot_call_who_waits_for_it() -> None:
    """SUP-318, AIO-17: it would wait for itself, even from below or from a helper task."""
    errors: list[ChildError] = []

    async def child(*, task_status: TaskStatus[None]) -> None:
        above = otpy.current().parent
        while above is not None:
            assert isinstance(above, Supervisor)
            try:
                await above.start_child(ChildSpec("x", forever))
            except CallingSelf as error:
                errors.append(error)
            above = above.process.parent if above.process is not None else None  # type: ignore[assignment]
        task_status.started()
        await forever()

    tree = SupervisorSpec("app", [SupervisorSpec("in", [ChildSpec("c", child)])])
    async with otpy.start(tree):
        assert [error.path for error in errors] == ["app/in", "app"]
    assert "call it after task_status.started()" in str(errors[0])


async def test_a_running_child_may_call_its_supervisor(clock: MockClock) -> None:
    """This holds once it is ready; a child of a pool may even do so while it starts."""
    started: list[Process | None] = []

    async def child(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        app = otpy.current().parent
        assert isinstance(app, Supervisor)
        started.append(await app.start_child(ChildSpec("x", forever)))
        await forever()

    async def dynamic_child(*, task_status: TaskStatus[None]) -> None:
        pool = otpy.current().parent
        assert isinstance(pool, DynamicSupervisor)
        started.append(await pool.start_child(ChildSpec("x", forever)))
        task_status.started()
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])):
        await clock.advance(0)
    async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
        await pool.start_child(ChildSpec("c", dynamic_child))
    assert [process.path for process in started if process] == ["app/x", "pool/x"]


async def test_a_child_may_end_itself_and_its_tree_by_request(clock: MockClock) -> None:
    """SUP-721 differs: the caller is ended in its turn, without a deadlock."""

    async def suicidal() -> None:
        app = otpy.current().parent
        assert isinstance(app, Supervisor)
        await app.terminate_child("c")

    async def stops_the_tree() -> None:
        app = otpy.current().parent
        assert isinstance(app, Supervisor)
        await app.stop()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", suicidal)])) as app:
        await clock.advance(0)
        with pytest.raises(NotRunning):
            app.child("c")
        await app.start_child(ChildSpec("d", stops_the_tree))
        await app.wait()
    assert clock.now == 0


async def test_whoever_ends_refuses_everything(clock: MockClock, journal: Journal) -> None:
    """While it ends and afterwards, waiting and later requests get `NotRunning` with its path."""
    async with otpy.start(SupervisorSpec("app", [journal.spec("a", 3)])) as app:
        await clock.advance(0)
        first = asyncio.create_task(app.start_child(ChildSpec("x", slow, (1,))))
        behind = asyncio.create_task(app.terminate_child("a"))
        await clock.advance(0)
        shell_of(app).shut_down(Shutdown())
        with pytest.raises(NotRunning, match=r"^app: "):
            await behind
        assert clock.now == 0
        await first
        for ended in (False, True):
            if ended:
                await app.wait()
            assert app.ended is ended
            for call in (
                app.start_child(ChildSpec("y", forever)),
                app.restart_child("a"),
                app.terminate_child("a"),
                app.delete_child("a"),
                app.get_childspec("a"),
                app.retry_now("a"),
                app.which_children(),
                app.count_children(),
            ):
                with pytest.raises(NotRunning, match=r"^app: "):
                    await call


async def test_whereis_finds_by_path(journal: Journal) -> None:
    """The search starts at any supervisor; a path that leads nowhere is `NotFound`."""
    inner = SupervisorSpec("in", [journal.spec("x")])
    async with otpy.start(SupervisorSpec("app", [inner, journal.spec("w")])) as app:
        below = app.child("in").supervisor
        assert below is not None
        assert app.whereis("app/in/x") is below.whereis("app/in/x") is below.child("x")
        assert app.whereis("app/in").supervisor is below
        for path in ("app", "other/in", "app/nobody", "app/w/x", "app/in/nobody", "ap", ""):
            with pytest.raises(NotFound):
                app.whereis(path)
        await app.terminate_child("w")
        with pytest.raises(NotRunning):
            app.whereis("app/w")


async def test_a_snapshot_answers_during_a_restart(clock: MockClock, journal: Journal) -> None:
    """The snapshot does not wait, and shows the states of that moment."""
    children = (
        ChildSpec("a", slow, (5,)),
        journal.spec("b", 3),
        SupervisorSpec("in", [ChildSpec("x", forever)]),
    )
    spec = SupervisorSpec("app", children, strategy=otpy.Strategy.ONE_FOR_ALL)
    async with otpy.start(spec) as app:
        await clock.advance(0)
        app.child("a").kill()
        await asyncio.sleep(1)
        assert_tree(
            app,
            """
            app
            ├─ a undefined
            ├─ b stopping
            └─ in undefined
            """,
        )
        await asyncio.sleep(3)
        assert_tree(
            app,
            """
            app
            ├─ a starting
            ├─ b undefined
            └─ in undefined
            """,
        )
        await app.wait_for_restart("in", after=1)
        snapshot = app.snapshot()
        assert [node.restarts for node in snapshot.children] == [1, 1, 1]
        assert snapshot.children[2].children[0].path == "app/in/x"
        assert snapshot.render().splitlines() == [
            "app  running",
            "├─ a  running restarts=1 last exit: killed",
            "├─ b  running restarts=1 last exit: shutdown",
            "└─ in  running restarts=1 last exit: shutdown",
            "   └─ x  running",
        ]
        assert isinstance(hash(snapshot), int)
    assert app.snapshot().state == "ended"


async def test_a_crash_that_waits_its_turn_is_not_shown_as_running(clock: MockClock) -> None:
    """A child that ended while its supervisor is busy is neither running nor active."""

    async def short() -> None:
        await asyncio.sleep(1)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", short)])) as app:
        starting = asyncio.create_task(app.start_child(ChildSpec("d", slow, (5,))))
        await asyncio.sleep(2)
        node = app.snapshot().children[0]
        assert (node.state, node.last_exit) == ("undefined", otpy.Normal())
        with pytest.raises(NotRunning):
            app.child("c")
        await starting
        await app.wait_for_restart("c", after=1)
