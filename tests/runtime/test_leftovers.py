"""Tasks that a child created and left behind: they end with their life."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from contextlib import suppress
from typing import Any

import pytest

import otpy
from otpy import (
    Abandoned,
    ChildSpec,
    DynamicSupervisor,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorFailed,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.testing import MockClock
from tests.runtime.children import Boom, forever, stubborn, turns
from tests.runtime.leaving import KINDS, Left, Plain, Slow, Turns, crashes, plain


async def test_a_task_ends_with_the_life_that_created_it(clock: MockClock, left: Left) -> None:
    """The task does not run beside those of the next life, which begins without delay."""
    begun: list[float] = []

    async def child() -> None:
        begun.append(clock.now)
        await crashes(left)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])) as app:
        await app.wait_for_restart("c", after=3)
        await clock.advance(0)
        assert left.states == "cccr"
        assert begun == [0, 1, 2, 3]
    assert left.states == "cccc"


async def test_after_the_block_no_task_of_a_child_runs(clock: MockClock, left: Left) -> None:
    """With the default log and a tree that has given up, they end without delay."""
    spec = SupervisorSpec("app", [ChildSpec("c", crashes, (left,))], intensity=2)
    with pytest.raises(SupervisorFailed) as caught:
        async with otpy.start(spec) as app:
            await app.wait()
    assert left.states == "ccc"
    assert caught.value.abandoned == ()
    assert clock.now == 3
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("start", KINDS)
@pytest.mark.parametrize("end", ["stop", "exit", "kill", "call"])
@pytest.mark.usefixtures("clock")
async def test_of_every_kind_of_child_and_however_it_ends(left: Left, start: Any, end: str) -> None:
    """The child is told to end, asked to, killed, or has served a call."""
    spec = ChildSpec("c", start, (left,), restart=Restart.TEMPORARY)
    async with otpy.start(DynamicSupervisor.spec("app"), hooks=()) as app:
        process = await app.start_child(spec)
        assert process is not None
        await turns(3)
        if end == "call" and live_of(process).behaviour is not None:
            await start.at(process).call("serve")
        elif end == "exit":
            process.exit(Shutdown("enough"))
        elif end == "kill":
            process.kill()
        if end in {"stop", "call"}:
            await app.terminate_child(process)
        await process.wait()
        await turns(3)
        assert left.tasks
        assert set(left.states) == {"c"}


@pytest.mark.parametrize("server", [Plain, Slow, Turns])
@pytest.mark.usefixtures("clock")
async def test_of_a_server_that_crashes(left: Left, server: Any) -> None:
    """The callbacks of the server made them, in a task or without one."""
    async with otpy.start(SupervisorSpec("app", [ChildSpec("s", server, (left,))])) as app:
        ref = server.at("app/s", app)
        with pytest.raises(otpy.errors.CallFailed):
            await ref.call("crash")
        first = len(left.tasks)
        await turns(4)
        assert len(left.tasks) > first
        assert set(left.states[:first]) == {"c"}
        assert set(left.states[first:]) == {"r"}


@pytest.mark.usefixtures("clock")
async def test_of_a_task_and_of_a_child_deep_down(left: Left) -> None:
    """The child runs under a `TaskSupervisor`, or two levels below the root."""

    async def work() -> str:
        left.behind()
        return "done"

    inner = SupervisorSpec("in", [ChildSpec("c", crashes, (left,))])
    spec = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), inner])
    async with otpy.start(spec, hooks=()) as app:
        task = await TaskSupervisor(app.child("tasks")).spawn(work)
        assert await task == "done"
        await turns(2)
        assert left.states == "rc"  # the first is the child's
        group = app.child("in").supervisor
        assert isinstance(group, Supervisor)
        await group.wait_for_restart("c", after=1)
        await turns(2)
        assert left.states == "ccr"


@pytest.mark.usefixtures("clock")
async def test_of_a_child_that_is_given_up(left: Left) -> None:
    """The child's own task cannot be ended, but the tasks that it created can."""
    release = asyncio.Event()

    async def child() -> None:
        left.behind()
        await stubborn(release)

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child, shutdown=1)])) as app:
        await asyncio.sleep(0)
    assert left.states == "c"
    (process,) = app.abandoned
    assert isinstance(process.exit_reason, Abandoned)
    assert shell_of(app).tree.abandoned == {process: "task"}
    release.set()
    await turns(2)
    assert not app.abandoned


async def test_what_a_task_left_behind_has_created_ends_too(clock: MockClock, left: Left) -> None:
    """The task created another before it was cancelled, and one in its clean-up."""

    async def breeds() -> None:
        left.behind()
        try:
            await forever()
        finally:
            left.behind()

    async def child() -> None:
        left.behind(breeds())
        await asyncio.sleep(1)
        raise Boom

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])):
        await asyncio.sleep(2)
        assert left.states == "ccc"
    assert clock.now == 2


async def test_tasks_made_by_a_timer_or_a_thread_of_a_child_end_too(
    clock: MockClock, left: Left
) -> None:
    """A task that appears long after the child ends with the block."""
    loop = asyncio.get_running_loop()

    async def child() -> None:
        loop.call_later(5, left.behind)
        await asyncio.to_thread(lambda: loop.call_soon_threadsafe(left.behind))
        await asyncio.sleep(1)

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])):
        await asyncio.sleep(2)
        assert left.states == "c"
        await asyncio.sleep(4)
        assert left.states == "cr"
    assert left.states == "cc"
    assert clock.now == 6


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
@pytest.mark.usefixtures("clock")
async def test_eager_tasks_end_too(left: Left) -> None:
    """An eager task begins before the tree knows it."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    try:
        async with otpy.start(SupervisorSpec("app", [ChildSpec("c", crashes, (left,))])) as app:
            await app.wait_for_restart("c", after=1)
            await turns(2)
            assert left.states == "cr"
    finally:
        loop.set_task_factory(None)


@pytest.mark.usefixtures("clock")
async def test_a_task_is_known_by_its_own_context(left: Left) -> None:
    """The context of one of its callbacks does not count."""
    elsewhere = contextvars.copy_context()

    async def child() -> None:
        mine = contextvars.copy_context()
        left.behind()
        left.tasks[-1].add_done_callback(lambda _: None, context=elsewhere)
        left.behind(context=elsewhere)
        left.tasks[-1].add_done_callback(lambda _: None, context=mine)
        await asyncio.sleep(1)
        raise Boom

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])) as app:
        await app.wait_for_restart("c", after=1)
        await turns(2)
        assert left.states == "crrr"
    assert left.states == "crcr"
    for task in left.tasks:
        task.cancel()


# --- whose are left alone ------------------------------------------------------------------------


@pytest.mark.usefixtures("clock")
async def test_what_runs_in_a_context_of_its_own_is_left_alone(left: Left) -> None:
    """For a task that serves the whole program, a child uses an empty context."""

    async def opens() -> None:
        left.behind()

    async def child() -> None:
        left.behind(context=contextvars.Context())
        await asyncio.create_task(opens(), context=contextvars.Context())
        contextvars.Context().run(left.behind)
        await asyncio.sleep(1)
        raise Boom

    spec = ChildSpec("c", child, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec])) as app:
        await asyncio.sleep(2)
        assert not app.abandoned
    assert left.states == "rrr"
    for task in left.tasks:
        task.cancel()


@pytest.mark.usefixtures("clock")
async def test_tasks_of_others_are_left_alone(left: Left) -> None:
    """The others are siblings, called servers, started children, and the host."""
    seen: list[str] = []

    async def work() -> str:
        await asyncio.sleep(5)
        seen.append("worked")
        return "worked"

    async def child() -> None:
        root = otpy.current().root
        await Plain.at("app/server", root).call("serve")
        await TaskSupervisor(root.whereis("app/tasks")).start_child(work)
        await asyncio.sleep(1)
        raise Boom

    left.behind()
    spec = SupervisorSpec(
        "app",
        [
            ChildSpec("plain", plain, (left,)),
            ChildSpec("server", Plain, (left,)),
            TaskSupervisor.spec("tasks"),
            ChildSpec("c", child, restart=Restart.TEMPORARY),
        ],
    )
    async with otpy.start(spec):
        await asyncio.sleep(6)
        assert seen == ["worked"]
        assert left.states == "rrrr"
    assert left.states == "rccc"
    left.tasks[0].cancel()


@pytest.mark.usefixtures("clock")
async def test_a_tree_inside_a_child_ends_its_own(left: Left) -> None:
    """The tree ends no task of the child around it, which goes on after the inner tree."""

    async def outer() -> None:
        left.behind()
        async with otpy.start(SupervisorSpec("inner", [ChildSpec("c", plain, (left,))])):
            await asyncio.sleep(1)
        assert left.states == "rc"
        await forever()

    async with otpy.start(SupervisorSpec("app", [ChildSpec("outer", outer)])) as app:
        await asyncio.sleep(2)
        assert app.child("outer").incarnation == 1
        assert left.states == "rc"
    assert left.states == "cc"


@pytest.mark.usefixtures("clock")
async def test_a_task_that_the_child_waits_for_is_not_disturbed(left: Left) -> None:
    """A task group and a slow clean-up end as they would without a tree."""
    ended: list[str] = []

    async def slowly(name: str) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def child() -> None:
        left.behind(slowly("own"))
        (own,) = left.tasks
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(slowly("group"))
                await forever()
        finally:
            own.cancel()
            with suppress(asyncio.CancelledError):
                await own

    async with otpy.start(SupervisorSpec("app", [ChildSpec("c", child)])):
        await asyncio.sleep(1)
    assert ended == ["group", "own"]
