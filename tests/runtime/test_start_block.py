"""`async with otpy.start(...)`: the promises of entering and leaving."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

import pytest
from anyio.abc import TaskStatus

import otpy
from otpy import (
    AutoShutdown,
    ChildSpec,
    Crashed,
    DynamicSupervisor,
    Normal,
    Restart,
    Shutdown,
    SupervisorFailed,
    SupervisorSpec,
)
from otpy._runtime.shells import shell_of
from otpy.errors import NotRunning, StartFailed, TreeStartFailed
from otpy.testing import MockClock, Recording
from tests.runtime.children import Boom, Journal, crash, forever, stubborn, turns


async def slow_start(journal: Journal, name: str, *, task_status: TaskStatus[None]) -> None:
    await asyncio.sleep(1)
    journal.lines.append(f"ready {name}")
    task_status.started()
    await journal.child(name)


async def failing_start(*, task_status: TaskStatus[None]) -> None:
    await asyncio.sleep(1)
    raise Boom("start")


async def test_entering_returns_when_every_child_is_ready(
    clock: MockClock, journal: Journal
) -> None:
    """Each child starts after the previous one is ready, and they stop in reverse."""
    children = [ChildSpec(n, slow_start, (journal, n)) for n in "abc"]
    async with otpy.start(SupervisorSpec("app", children)) as app:
        assert clock.now == 3
        assert app.running
        assert app.settled
        assert journal.lines[0] == "ready a"
        assert "ready c" in journal.lines
        await clock.advance(0)
        journal.lines.clear()
    assert journal.lines == ["-c", "-b", "-a"]
    assert app.ended
    assert not app.running


async def test_leaving_waits_for_every_clean_up(clock: MockClock, journal: Journal) -> None:
    """No task of the tree is left after the block."""
    before = asyncio.all_tasks()
    children = [journal.spec(n, 2) for n in "abc"]
    async with otpy.start(SupervisorSpec("app", children)):
        await clock.advance(0)
        assert len(asyncio.all_tasks()) == len(before) + 3
    assert clock.now == 6
    assert asyncio.all_tasks() == before
    assert journal.lines == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_an_error_of_the_body_stops_the_tree_and_goes_on(
    clock: MockClock, journal: Journal
) -> None:
    """The very exception is raised, after the children have stopped."""
    error = Boom("body")
    with pytest.raises(Boom) as caught:
        async with otpy.start(journal.tree("a", "b")):
            await clock.advance(0)
            raise error
    assert caught.value is error
    assert journal.lines == ["+a", "+b", "-b", "-a"]


async def test_a_tree_is_entered_once() -> None:
    """Entering the same block again is an error, not a second tree."""
    block = otpy.start(SupervisorSpec("app"))
    async with block:
        with pytest.raises(RuntimeError, match="enter it once"):
            await block.__aenter__()


@pytest.mark.usefixtures("clock")
async def test_a_failed_start_rolls_back_in_reverse(journal: Journal, reports: Recording) -> None:
    """Started children stop in reverse, and the error names the failed child and its crash."""
    children = [
        ChildSpec("a", slow_start, (journal, "a")),
        ChildSpec("b", slow_start, (journal, "b")),
        ChildSpec("bad", failing_start),
        ChildSpec("never", forever),
    ]
    with pytest.raises(TreeStartFailed) as caught:
        async with otpy.start(SupervisorSpec("app", children), hooks=[reports]):
            pytest.fail("the body must not run")
    assert [line for line in journal.lines if line.startswith("-")] == ["-b", "-a"]
    error = caught.value
    assert isinstance(error, SupervisorFailed)
    assert isinstance(error, StartFailed)
    assert error.path == "app/bad"
    assert isinstance(error.__cause__, Boom)
    assert error.reasons == (Crashed(error.__cause__),)
    assert error.history == ()
    assert "did not start" in str(error)
    assert reports.about("app/never") == ()


async def test_a_failed_nested_start_names_the_deepest_child(journal: Journal) -> None:
    """The path is that of the failed child, not of the supervisor above it."""
    inner = SupervisorSpec("in", [ChildSpec("bad", failing_start)])
    tree = SupervisorSpec("app", [journal.spec("a"), SupervisorSpec("mid", [inner])])
    with pytest.raises(TreeStartFailed) as caught:
        async with otpy.start(tree):
            pass
    assert caught.value.path == "app/mid/in/bad"
    assert isinstance(caught.value.__cause__, Boom)


async def test_a_failed_start_says_who_refused_to_stop(
    clock: MockClock, release: asyncio.Event
) -> None:
    """The error names a child that is abandoned in the roll-back."""
    children = [ChildSpec("a", stubborn, (release,), shutdown=1), ChildSpec("bad", failing_start)]
    with pytest.raises(TreeStartFailed) as caught:
        async with otpy.start(SupervisorSpec("app", children)):
            pass
    assert caught.value.abandoned == ("app/a",)
    assert "abandoned: app/a refused to stop" in str(caught.value)
    assert clock.now == 3


async def test_a_tree_that_ends_by_itself_lets_the_body_go_on(
    clock: MockClock, journal: Journal
) -> None:
    """`auto_shutdown` is an end in good order: nothing is raised, and `wait()` returns."""

    async def job() -> None:
        await asyncio.sleep(5)

    children = [
        journal.spec("a"),
        ChildSpec("job", job, restart=Restart.TRANSIENT, significant=True),
    ]
    spec = SupervisorSpec("app", children, auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    async with otpy.start(spec) as app:
        assert await app.wait() == Shutdown()
        assert await app.wait() == Shutdown()
        assert clock.now == 5
        assert journal.lines == ["+a", "-a"]
        await asyncio.sleep(5)
        with pytest.raises(NotRunning):
            await app.which_children()
        assert app.failure() is None
    assert clock.now == 10


async def test_the_end_of_all_work_is_before_the_block_is_entered() -> None:
    """A tree that ends while it starts is entered, ended, and left without an error."""

    async def start(*, task_status: TaskStatus[None]) -> None:
        shell_of(otpy.current().parent).shut_down(Shutdown("enough"))
        task_status.started()
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", start)])) as app:
        assert app.ended
        assert await app.wait() == Shutdown("enough")


async def test_two_trees_in_one_loop_never_meet(clock: MockClock) -> None:
    """With the same ids and loop, each is unaffected by crashes, reports and stops of the other."""
    first_reports, second_reports = Recording(), Recording()
    first, second = Journal(), Journal()
    async with otpy.start(first.tree("a", "b"), hooks=[first_reports]) as one:
        async with otpy.start(second.tree("a", "b"), hooks=[second_reports]) as two:
            await clock.advance(0)
            count = len(second_reports)
            one.child("a").kill()
            await one.wait_for_restart("a", after=1)
            assert two.child("a").incarnation == 1
            assert len(second_reports) == count
        assert one.running
        assert two.ended
    assert one.ended


async def test_a_tree_may_run_inside_a_child_of_another(clock: MockClock, journal: Journal) -> None:
    """An embedded tree ends with the child that runs it."""
    seen: list[str] = []

    async def host() -> None:
        async def inner() -> None:
            seen.append(otpy.current().path)
            await forever()

        async with otpy.start(SupervisorSpec("inner", [ChildSpec("c", inner)])):
            seen.append(otpy.current().path)
            await forever()

    async with otpy.start(SupervisorSpec("outer", [ChildSpec("host", host)])):
        await clock.advance(0)
    assert sorted(seen) == ["inner/c", "outer/host"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


CITY: ContextVar[str] = ContextVar("city", default="nowhere")


async def test_context_variables_of_the_host_reach_every_incarnation(clock: MockClock) -> None:
    """AIO-11: each life begins with the host's values, whatever an earlier life has set."""
    seen: list[str] = []

    async def child() -> None:
        seen.append(CITY.get())
        CITY.set("changed")
        await asyncio.sleep(1)
        raise Boom

    CITY.set("Rome")
    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])) as app:
        CITY.set("Oslo")
        await app.start_child(ChildSpec("d", child, restart=Restart.TEMPORARY))
        await asyncio.sleep(2.5)
        assert CITY.get() == "Oslo"
    assert seen == ["Rome"] * 4


async def test_nothing_of_a_tree_is_kept_after_the_block(clock: MockClock) -> None:
    """Supervisors and processes are freed after the block, unless the user keeps them."""

    async def run() -> list[weakref.ref[object]]:
        inner = SupervisorSpec("in", [ChildSpec("x", forever)])
        children = (ChildSpec("a", forever), inner, DynamicSupervisor.spec("pool"))
        async with otpy.start(SupervisorSpec("app", children), hooks=()) as app:
            pool = app.child("pool").supervisor
            assert isinstance(pool, DynamicSupervisor)
            await pool.start_child(ChildSpec("w", crash, restart=Restart.TEMPORARY))
            await turns(3)
            return [weakref.ref(p) for p in (app.child("a"), app.child("in"), app.child("pool"))]

    references = await run()
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


async def test_an_empty_tree_and_an_empty_pool_just_run(clock: MockClock) -> None:
    """A tree needs no child, and an idle tree sets no timer."""
    async with otpy.start(SupervisorSpec("app")) as app:
        async with otpy.start(DynamicSupervisor.spec("pool")) as pool:
            assert app.running
            assert pool.running
            assert (await pool.count_children()).specs == 0
    assert await pool.wait() == Normal()
    assert clock.now == 0


async def test_default_hooks_log_and_an_empty_list_is_silent(
    logs: list[MutableMapping[str, Any]],
) -> None:
    """Without `hooks` the tree logs to structlog; with `()` it does not log."""
    async with otpy.start(SupervisorSpec("quiet", [ChildSpec("c", forever)]), hooks=()):
        pass
    assert logs == []
    async with otpy.start(SupervisorSpec("loud", [ChildSpec("c", forever)])):
        pass
    events = [entry["event"] for entry in logs]
    assert events == ["child.started", "child.stopped", "supervisor.stopped"]
