from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    ChildSpec,
    Crashed,
    Exit,
    InvalidSpec,
    Killed,
    Normal,
    Process,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime.process import live_of
from otpy.errors import MaxChildren, NotFound, NotOwner, NotRunning, TaskTimeout
from otpy.tasks import Exited, Ok, Task, TaskFailed
from otpy.testing import MockClock
from tests.behaviours.actor import actor
from tests.runtime.children import Boom, crash, forever, own_exit, stubborn


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """Start a tree with a task supervisor and nothing else."""
    async with otpy.start(SupervisorSpec("app", [TaskSupervisor.spec("tasks")])) as root:
        yield root


@pytest.fixture
async def tasks(root: Supervisor) -> TaskSupervisor:
    """Return the task supervisor of the tree."""
    return TaskSupervisor(root.child("tasks"))


async def double(number: int, seconds: float = 0.0) -> int:
    await asyncio.sleep(seconds)
    return number * 2


async def gracious(seconds: float = 0.0) -> str:
    """Return when cancelled."""
    try:
        await forever()
    except asyncio.CancelledError:
        await asyncio.sleep(seconds)
    return "bye"


async def slow_to_end(seconds: float) -> None:
    try:
        await forever()
    finally:
        await asyncio.sleep(seconds)


async def leave() -> None:
    raise Exit(Normal())


# --- results --------------------------------------------------------------------------------------


async def test_a_task_returns_its_result(tasks: TaskSupervisor, clock: MockClock) -> None:
    """The owner awaits the value, and the supervisor forgets the task afterwards (TSK-06)."""
    task = await tasks.spawn_linked(double, 21, 3.0)
    assert task.process.path == "app/tasks/double"
    assert await tasks.children() == [task.process]
    assert await task == 42
    assert clock.now == 3
    assert await task.process.wait() == Normal()
    assert await tasks.children() == []
    assert await task.result() == 42


async def test_tasks_are_temporary_children_of_a_dynamic_supervisor(tasks: TaskSupervisor) -> None:
    """By default a task is temporary and has 5 seconds to end (TSK-01)."""
    spec = (await tasks.spawn_linked(forever)).process.spec
    assert (spec.restart, spec.shutdown) == (Restart.TEMPORARY, 5.0)
    custom = await tasks.spawn(forever, shutdown=BRUTAL_KILL)
    assert custom.process.spec.shutdown is BRUTAL_KILL
    assert custom.process.id == "forever#2"
    await tasks.terminate_child(custom.process)
    assert await custom.poll() == Exited(Killed())
    with pytest.raises(NotFound):
        await tasks.terminate_child(custom.process)
    assert "forever#2" in repr(custom)


async def test_a_task_supervisor_may_be_the_root() -> None:
    """A supervisor can stand for its process; any other process or supervisor is refused."""
    async with otpy.start(TaskSupervisor.spec("tasks")) as root:
        task = await TaskSupervisor(root).spawn_linked(double, 4)
        assert await task == 8
    with pytest.raises(NotRunning):
        _ = await TaskSupervisor(root).spawn_linked(double, 4)
    async with otpy.start(SupervisorSpec("app", [ChildSpec("x", forever)])) as other:
        with pytest.raises(TypeError, match=r"TaskSupervisor\.spec"):
            TaskSupervisor(other)
        with pytest.raises(TypeError, match=r"TaskSupervisor\.spec"):
            TaskSupervisor(other.child("x"))


async def test_awaiting_a_failed_task_fails(tasks: TaskSupervisor) -> None:
    """Outside of processes it raises an error with the cause and the path (TSK-07, TSK-09)."""
    task = await tasks.spawn_linked(crash)
    with pytest.raises(TaskFailed, match=r"app/tasks/crash: .*crashed: Boom") as caught:
        await task
    assert isinstance(caught.value.__cause__, Boom)
    assert caught.value.path == "app/tasks/crash"
    left = await tasks.spawn_linked(leave)
    with pytest.raises(TaskFailed) as caught:
        await left
    assert caught.value.reason == Normal()
    assert await left.poll() == Exited(Normal())


async def test_an_uncaught_failure_ends_the_caller_with_the_same_reason(
    root: Supervisor, tasks: TaskSupervisor
) -> None:
    """A process that awaits an unlinked task still ends when that task fails (TSK-07)."""

    async def waits() -> None:
        await (await tasks.spawn(crash))

    process = await root.start_child(ChildSpec("waits", waits, restart=Restart.TEMPORARY))
    assert process is not None
    reason = await process.wait()
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, Boom)


async def test_a_timeout_does_not_stop_the_task(tasks: TaskSupervisor, clock: MockClock) -> None:
    """The caller waits for 5 seconds by default, and may wait again (TSK-07)."""
    task = await tasks.spawn(double, 1, 20.0)
    with pytest.raises(TaskTimeout, match=r"timeout=5\.0 s"):
        await task
    assert clock.now == 5
    assert await task.poll(1) is None
    assert await task.poll(0) is None
    assert clock.now == 6
    assert await task.result(None) == 2
    assert clock.now == 20


async def test_a_result_is_preferred_to_a_timeout_in_the_same_turn(
    clock: MockClock, tasks: TaskSupervisor
) -> None:
    """The task ends, then the timer fires, both before the waiter runs: the result counts."""
    task = await tasks.spawn(forever)
    life = live_of(task.process).task
    assert life is not None
    waiting = asyncio.create_task(task.poll(5.0))
    loop = asyncio.get_running_loop()
    loop.call_later(5.0, lambda: live_of(task.process).end(Killed()))  # in the turn of the timer
    assert await waiting == Exited(Killed())
    life.cancel()
    await clock.advance(0)


async def test_a_cancelled_wait_leaves_the_task_alone(
    clock: MockClock, tasks: TaskSupervisor
) -> None:
    """The cancellation of a waiter does not reach the task."""
    task = await tasks.spawn_linked(double, 1, 3.0)
    waiting = asyncio.create_task(task.result())
    await clock.advance(0)
    waiting.cancel()
    await clock.advance(0)
    assert waiting.cancelled()
    assert await task == 2


# --- owners ---------------------------------------------------------------------------------------


async def test_only_the_owner_may_await(root: Supervisor, tasks: TaskSupervisor) -> None:
    """Any other process is refused, and so is code outside of processes (TSK-07)."""
    ann, bob = await actor(root, "ann"), await actor(root, "bob")
    task: Task[int] = await ann.ask(lambda: tasks.spawn_linked(double, 3))
    assert task.owner is ann.process
    for attempt in (task.result, task.poll, task.shutdown):
        with pytest.raises(NotOwner, match="app/ann"):
            await attempt()
        with pytest.raises(NotOwner, match="app/bob"):
            await bob.ask(attempt)
    assert await ann.ask(task.result) == 6
    mine = await tasks.spawn_linked(double, 3)
    with pytest.raises(NotOwner):
        await bob.ask(mine.result)


async def test_a_crash_ends_the_owner_too(root: Supervisor, tasks: TaskSupervisor) -> None:
    """The owner ends with the same reason, even while it does not await the task (TSK-03)."""
    ann = await actor(root)
    _ = await ann.ask(lambda: tasks.spawn_linked(crash))
    reason = await ann.process.wait()
    assert isinstance(reason, Crashed)
    assert isinstance(reason.error, Boom)


async def test_the_owner_is_ended_while_it_waits(root: Supervisor, tasks: TaskSupervisor) -> None:
    """A crash of a linked task ends the wait, and the owner cannot catch it with `except`."""
    ann = await actor(root)

    async def both() -> None:
        task = await tasks.spawn_linked(crash)
        with pytest.raises(Exception):  # noqa: B017
            await task

    await ann.tell(both)
    assert isinstance(await ann.process.wait(), Crashed)


@pytest.mark.parametrize(
    ("reason", "ends"), [(Killed(), True), (Shutdown("x"), True), (Normal(), False)]
)
@pytest.mark.usefixtures("clock")
async def test_the_owners_end_ends_a_linked_task(
    root: Supervisor, tasks: TaskSupervisor, reason: otpy.ExitReason, ends: bool
) -> None:
    """A linked task ends with the owner's reason, unless the owner ended normally (TSK-03)."""
    ann = await actor(root)
    task = await ann.ask(lambda: tasks.spawn_linked(double, 3, 9.0))
    own_exit(ann.process, reason)
    assert await ann.process.wait() == reason
    assert await task.process.wait() == (reason if ends else Normal())


@pytest.mark.usefixtures("clock")
async def test_an_unlinked_task_and_its_owner_die_apart(
    root: Supervisor, tasks: TaskSupervisor
) -> None:
    """The task survives the end of its owner, and the owner a crash of the task (TSK-04)."""
    ann = await actor(root)
    task = await ann.ask(lambda: tasks.spawn(double, 3, 9.0))
    failed = await ann.ask(lambda: tasks.spawn(crash))
    result = await ann.ask(failed.poll)
    assert isinstance(result, Exited)
    assert isinstance(result.reason, Crashed)
    ann.process.kill()
    assert await ann.process.wait() == Killed()
    assert await task.process.wait() == Normal()


async def test_a_task_that_was_given_up_counts_as_killed(
    clock: MockClock, root: Supervisor, tasks: TaskSupervisor, release: asyncio.Event
) -> None:
    """A process that ends because of an abandoned task is not itself abandoned."""
    ann = await actor(root)
    task = await ann.ask(lambda: tasks.spawn_linked(stubborn, release))
    await clock.advance(0)
    task.process.kill()
    assert await ann.process.wait() == Killed()
    assert isinstance(await task.process.wait(), otpy.Abandoned)


async def test_a_dead_owner_passes_on_its_end_at_once(
    clock: MockClock, root: Supervisor, tasks: TaskSupervisor, release: asyncio.Event
) -> None:
    """An abandoned process can still start a linked task, which ends at once."""
    started: list[Task[None]] = []

    async def outlives() -> None:
        await stubborn(release)
        started.append(await tasks.spawn_linked(forever))

    process = await root.start_child(ChildSpec("o", outlives, restart=Restart.TEMPORARY))
    assert process is not None
    await clock.advance(0)
    process.kill()
    assert isinstance(await process.wait(), otpy.Abandoned)
    release.set()
    await clock.advance(0)
    assert await started[0].process.wait() == Killed()


async def test_a_task_knows_who_asked_for_it(root: Supervisor, tasks: TaskSupervisor) -> None:
    """The callers are listed newest first, through tasks of tasks (TSK-12)."""

    async def inner() -> tuple[Process, ...]:
        return otpy.tasks.callers()

    async def outer() -> tuple[Process, tuple[Process, ...]]:
        return otpy.current(), await (await tasks.spawn_linked(inner))

    ann = await actor(root)
    task = await ann.ask(lambda: tasks.spawn_linked(outer))
    me, seen = await ann.ask(task.result)
    assert seen == (me, ann.process)
    assert otpy.tasks.callers() == ()
    assert await (await tasks.spawn_linked(inner)) == ()


async def test_tasks_that_start_their_successors_share_their_callers(tasks: TaskSupervisor) -> None:
    """In a chain of tasks, the memory for each task does not grow with the length (TSK-12)."""
    last: asyncio.Future[int]

    async def step(left: int) -> None:
        if left:
            await tasks.start_child(step, left - 1)
        else:
            last.set_result(tracemalloc.get_traced_memory()[0])

    async def bytes_each(length: int) -> float:
        nonlocal last
        last = asyncio.get_running_loop().create_future()
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            await tasks.start_child(step, length)
            return (await last - before) / length
        finally:
            tracemalloc.stop()

    few, many = await bytes_each(100), await bytes_each(1000)
    assert many < few * 1.5


# --- shutdown -------------------------------------------------------------------------------------


async def test_shutdown_ends_a_task_and_spares_the_caller(
    clock: MockClock, root: Supervisor, tasks: TaskSupervisor
) -> None:
    """The task is unlinked first, and None says that the shutdown ended it (TSK-07)."""
    ann = await actor(root)
    for timeout in (5.0, INFINITY, BRUTAL_KILL):
        task = await ann.ask(lambda: tasks.spawn_linked(forever))
        await clock.advance(0)
        assert await ann.ask(lambda task=task, t=timeout: task.shutdown(t)) is None  # type: ignore[misc]
        assert not task.process.alive
    assert ann.process.alive


async def test_shutdown_returns_a_result_that_arrived(
    clock: MockClock, tasks: TaskSupervisor
) -> None:
    """A result counts, from before the shutdown or because of it; so does a failure (TSK-07)."""
    done = await tasks.spawn_linked(double, 2)
    await done.process.wait()
    assert await done.shutdown() == Ok(4)
    polite = await tasks.spawn_linked(gracious)
    await clock.advance(0)
    assert await polite.shutdown() == Ok("bye")
    failed = await tasks.spawn_linked(crash)
    await failed.process.wait()
    assert isinstance(await failed.shutdown(), Exited)


async def test_shutdown_kills_who_takes_too_long(tasks: TaskSupervisor, clock: MockClock) -> None:
    """The task is killed when its time is over, and the caller gets `Exited` (TSK-07)."""
    task = await tasks.spawn_linked(slow_to_end, 4.0)
    await clock.advance(0)
    assert await task.shutdown(2.0) == Exited(Killed())
    assert clock.now == 2
    quick = await tasks.spawn_linked(slow_to_end, 1.0, shutdown=3.0)
    await clock.advance(0)
    assert await quick.shutdown() is None
    slow = await tasks.spawn_linked(slow_to_end, 9.0, shutdown=3.0)
    await clock.advance(0)
    assert await slow.shutdown(INFINITY) == Exited(Killed())
    assert clock.now == 6


# --- start_child and limits -----------------------------------------------------------------------


@pytest.mark.usefixtures("clock")
async def test_start_child_is_linked_to_the_supervisor_only(
    root: Supervisor, tasks: TaskSupervisor
) -> None:
    """Its crash does not end its caller, and its caller's end does not end it (TSK-02)."""
    ann = await actor(root)
    failed = await ann.ask(lambda: tasks.start_child(crash))
    process = await ann.ask(lambda: tasks.start_child(double, 2, 9.0))
    assert isinstance(await failed.wait(), Crashed)
    ann.process.kill()
    await ann.process.wait()
    assert await process.wait() == Normal()


async def test_a_permanent_task_runs_again_after_each_end(clock: MockClock) -> None:
    """It runs again even after a return, until the intensity is exceeded (TSK-02)."""
    runs: list[int] = []

    async def run() -> None:
        runs.append(otpy.current().incarnation)

    spec = TaskSupervisor.spec("tasks", intensity=2, restart=Restart.TEMPORARY)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as root:
        supervisor = root.child("tasks")
        await TaskSupervisor(supervisor).start_child(run, restart=Restart.PERMANENT)
        assert await supervisor.wait() == Shutdown()
    assert runs == [1, 2, 3]


async def test_a_full_supervisor_refuses_in_the_caller() -> None:
    """All ways to start a task raise MaxChildren in the caller (TSK-08, DYN-07)."""
    async with otpy.start(TaskSupervisor.spec("tasks", max_children=1)) as root:
        tasks = TaskSupervisor(root)
        _ = await tasks.spawn_linked(forever)
        for attempt in (tasks.spawn_linked, tasks.spawn, tasks.start_child):
            with pytest.raises(MaxChildren):
                await attempt(forever)
        with pytest.raises(MaxChildren):
            async for _ in tasks.stream(double, [1]):
                raise AssertionError


async def test_a_task_is_named_like_any_child(tasks: TaskSupervisor) -> None:
    """A function whose name cannot stand in a path is refused, even at run time."""

    async def work() -> None: ...

    for name in ("a/b", "a\nb", "\x1b[0m"):
        work.__name__ = name
        with pytest.raises(InvalidSpec, match="ChildSpec: id is "):
            await tasks.start_child(work)


async def test_a_coroutine_instead_of_its_function_is_refused(tasks: TaskSupervisor) -> None:
    """A task takes a function, because it may start again; the error names the supervisor."""
    made: Any = double(1)
    for attempt in (tasks.spawn_linked, tasks.spawn, tasks.start_child):
        with pytest.raises(InvalidSpec, match=r"TaskSupervisor 'app/tasks': fn is <coroutine .*"):
            await attempt(made)
    with pytest.raises(InvalidSpec, match="wanted a coroutine function, not its result"):
        async for _ in tasks.stream(made, [1]):
            raise AssertionError
    made.close()
    assert not await tasks.children()


async def test_children_lists_only_those_that_run(clock: MockClock) -> None:
    """A task that waits for its restart is not listed (TSK-10)."""
    async with otpy.start(TaskSupervisor.spec("tasks"), hooks=()) as root:
        tasks = TaskSupervisor(root)
        await root.start_child(
            ChildSpec("again", crash, backoff=otpy.Backoff.sequence(60), restart=Restart.PERMANENT)
        )
        task = await tasks.spawn_linked(forever)
        await clock.advance(0)
        assert (await root.count_children()).specs == 2
        assert await tasks.children() == [task.process]
