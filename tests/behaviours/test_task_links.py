"""Exit signals of tasks: a process that traps exits gets each once, as from any partner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

import otpy
from otpy import (
    BRUTAL_KILL,
    ChildSpec,
    Crashed,
    Exit,
    Normal,
    Process,
    Registry,
    Restart,
    Shutdown,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime.process import live_of
from otpy.errors import TaskTimeout
from otpy.signals import ExitSignal
from otpy.tasks import Exited, Ok
from otpy.testing import MockClock
from tests.behaviours.actor import Actor, actor
from tests.runtime.children import Boom, crash, forever, own_exit


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """Start a tree with a task supervisor and a registry."""
    tree = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), Registry.spec("names")])
    async with otpy.start(tree, hooks=()) as root:
        yield root


@pytest.fixture
async def tasks(root: Supervisor) -> TaskSupervisor:
    """Return the task supervisor of the tree."""
    return TaskSupervisor(root.child("tasks"))


@pytest.fixture
async def trapper(root: Supervisor) -> Actor:
    """Start a process that traps exits."""
    ann = await actor(root)
    await ann.call(otpy.signals.trap_exit)
    return ann


async def heard_by(trapper: Actor) -> list[ExitSignal]:
    """Return the exit signals that the process has got so far."""

    async def read() -> list[ExitSignal]:
        signals, heard = otpy.signals.trap_exit(), list[ExitSignal]()
        try:
            async with asyncio.timeout(1):
                async for signal in signals:
                    heard.append(signal)
        except TimeoutError:
            pass
        return heard

    return await trapper.ask(read)


async def one() -> int:
    return 1


async def test_the_ends_of_linked_tasks_are_values(tasks: TaskSupervisor, trapper: Actor) -> None:
    """TSK-03, SIG-01: a crash and a normal end each arrive as a signal from the task."""
    failed = await trapper.ask(lambda: tasks.spawn_linked(crash))
    done = await trapper.ask(lambda: tasks.spawn_linked(one))
    assert await trapper.ask(done.result) == 1
    reason = await failed.process.wait()
    assert isinstance(reason, Crashed)
    assert await heard_by(trapper) == [
        ExitSignal(failed.process, reason),
        ExitSignal(done.process, Normal()),
    ]
    assert trapper.process.alive


async def test_nothing_is_kept_of_the_links_to_tasks_that_have_ended(
    tasks: TaskSupervisor, trapper: Actor
) -> None:
    """SIG-01: the process does not grow with the number of tasks that it starts."""
    for _ in range(3):
        task = await trapper.ask(lambda: tasks.spawn_linked(one))
        await task.process.wait()
    watchers = live_of(trapper.process).watchers
    assert watchers is not None
    assert watchers.links == {}


async def test_a_request_to_end_is_kept_when_its_sender_is_unlinked(
    tasks: TaskSupervisor, trapper: Actor
) -> None:
    """SIG-07: `unlink` drops the signal of the end, not the request with the same reason."""

    async def asks_and_follows() -> None:
        trapper.process.exit(Shutdown("over"))
        raise Exit(Shutdown("over"))

    task = await trapper.ask(lambda: tasks.spawn_linked(asks_and_follows))
    await task.process.wait()
    await trapper.call(task.process.unlink)
    assert await heard_by(trapper) == [ExitSignal(task.process, Shutdown("over"))]


@pytest.mark.parametrize("timeout", [5.0, BRUTAL_KILL])
async def test_a_task_that_is_shut_down_is_no_partner_any_more(
    clock: MockClock, tasks: TaskSupervisor, trapper: Actor, timeout: Any
) -> None:
    """TSK-07: its end sends no signal, and a signal that has already arrived is dropped."""
    running = await trapper.ask(lambda: tasks.spawn_linked(forever))
    failed = await trapper.ask(lambda: tasks.spawn_linked(crash))
    await clock.advance(0)
    assert await trapper.ask(lambda: running.shutdown(timeout)) is None
    assert isinstance(await trapper.ask(lambda: failed.shutdown(timeout)), Exited)
    assert await heard_by(trapper) == []


async def test_the_trapping_owner_of_a_task_that_it_unlinked_hears_nothing(
    tasks: TaskSupervisor, trapper: Actor
) -> None:
    """SIG-07: a task is linked as by `Process.link`, so `unlink` works for it too."""
    task = await trapper.ask(lambda: tasks.spawn_linked(crash))
    await trapper.call(task.process.unlink)
    assert isinstance(await trapper.ask(task.poll), Exited)
    assert await heard_by(trapper) == []


async def negative_fails(number: int) -> int:
    await asyncio.sleep(abs(number))
    if number < 0:
        raise Boom
    return number


@pytest.mark.usefixtures("clock")
async def test_a_crash_is_a_result_for_a_reader_that_traps_exits(
    tasks: TaskSupervisor, trapper: Actor
) -> None:
    """TSK-11: a linked stream goes on, and no signal remains, as in Elixir."""

    async def read() -> list[object]:
        stream = tasks.stream(negative_fails, [1, -2, 3], max_concurrency=3)
        return [result async for result in stream]

    first, second, third = await trapper.ask(read)
    assert (first, third) == (Ok(1), Ok(3))
    assert isinstance(second, Exited)
    assert isinstance(second.reason, Crashed)
    assert await heard_by(trapper) == []


async def test_who_closes_a_linked_stream_lives_on(
    clock: MockClock, root: Supervisor, tasks: TaskSupervisor
) -> None:
    """TSK-11: a task that is shut down has not failed; the reader keeps nothing of the stream."""
    ann = await actor(root, "reader")

    async def read_one() -> object:
        stream = tasks.stream(negative_fails, [1, 60, 70], max_concurrency=3, timeout=None)
        async with aclosing(stream):
            return await anext(stream)

    assert await ann.ask(read_one) == Ok(1)
    assert await tasks.children() == []
    await clock.advance(0)
    assert ann.process.alive
    assert not live_of(ann.process)._ensure_cold().on_exit


@pytest.mark.usefixtures("clock")
async def test_tasks_that_trap_exits_end_with_their_stream(tasks: TaskSupervisor) -> None:
    """TSK-11: the stream stops its tasks without a signal, and so ends within their limit."""

    async def traps(_: int) -> None:
        otpy.signals.trap_exit()
        await forever()

    stream = tasks.stream(traps, [1, 2], max_concurrency=2, timeout=3)
    with pytest.raises(TaskTimeout):
        await anext(stream)
    assert await tasks.children() == []


@pytest.mark.parametrize("reason", [Normal(), Shutdown("x")])
async def test_a_registrant_that_traps_exits_hears_of_its_registry(
    root: Supervisor, trapper: Actor, reason: otpy.ExitReason
) -> None:
    """REG-13: the registry is the sender, whichever process ended it."""
    process = root.child("names")
    await trapper.call(lambda: Registry.of(process).register("key"))

    async def end_it() -> None:
        if reason == Normal():  # only the registry itself can end with this reason
            own_exit(process, reason)
        else:
            process.exit(reason)

    other = await actor(root, "other")
    await other.ask(end_it)
    await process.wait()
    assert await heard_by(trapper) == [ExitSignal(process, reason)]


async def test_a_process_that_hears_of_the_same_end_as_callback_and_as_signal(
    root: Supervisor, tasks: TaskSupervisor
) -> None:
    """SIG-05: a task started in the last turn of its owner ends with the owner."""
    left: list[Process] = []

    async def starts_and_crashes() -> None:
        left.append((await tasks.spawn_linked(forever)).process)
        raise Boom

    spec = ChildSpec("o", starts_and_crashes, restart=Restart.TEMPORARY)
    owner = await root.start_child(spec)
    assert owner is not None
    reason = await owner.wait()
    assert await left[0].wait() == reason
    assert await tasks.children() == []
