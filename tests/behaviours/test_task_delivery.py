"""Tasks that deliver their results and ends to their server as messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    Crashed,
    GenServer,
    GenStateMachine,
    Killed,
    Normal,
    Process,
    Shutdown,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import NotSupervised
from otpy.server import NoReply, Reply, Result
from otpy.signals import Down, ExitSignal
from otpy.statem import Keep, Next
from otpy.tasks import Ok, Task
from otpy.testing import MockClock, settled
from tests.behaviours.actor import actor
from tests.runtime.children import Boom, forever

HEARD: list[Any] = []


async def after(seconds: float, value: str = "done") -> str:
    await asyncio.sleep(seconds)
    if value == "boom":
        raise Boom(value)
    return value


class Boss(GenServer[Any, Any, None]):
    """A server that starts tasks, and records each message with its own life."""

    def init(self, *, traps: bool = False) -> None:
        if traps:
            self.trap_exit()

    async def handle_call(self, request: Any, caller: Any, state: None) -> Reply[Any, None]:
        how, *args = request
        tasks = TaskSupervisor.at("app/tasks")
        spawn = tasks.spawn_linked if how == "linked" else tasks.spawn
        return Reply(await spawn(after, *args, deliver=True), state)

    def handle_info(self, message: object, state: None) -> Result[None]:
        HEARD.append((otpy.current().incarnation, message))
        return NoReply(state)


@asynccontextmanager
async def boss(**options: Any) -> AsyncGenerator[tuple[Supervisor, Any]]:
    """Run a boss and its tasks; yield the root and a handle."""
    HEARD.clear()
    spec = ChildSpec("boss", Boss, kwargs=options)
    tree = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), spec])
    async with otpy.start(tree, hooks=()) as root:
        yield root, Boss.at("app/boss", root)


def messages() -> list[Any]:
    return [message for _, message in HEARD]


async def test_a_result_and_then_the_end_are_messages(clock: MockClock) -> None:
    """TSK-06: the server is free to serve meanwhile."""
    async with boss() as (_, ref):
        slow = await ref.call(("spawn", 2, "slow"))
        quick = await ref.call(("spawn", 1, "quick"))
        assert isinstance(slow, Task)
        assert messages() == []
        await clock.advance(3)
        assert messages() == [
            *((quick, Ok("quick")), Down(quick.process, Normal())),
            *((slow, Ok("slow")), Down(slow.process, Normal())),
        ]


async def test_of_a_task_without_a_result_only_the_end_comes(clock: MockClock) -> None:
    """TSK-04: the message has the reason, and the server itself goes on."""
    async with boss() as (root, ref):
        crashed = await ref.call(("spawn", 1, "boom"))
        killed = await ref.call(("spawn", 9))
        await clock.advance(2)
        killed.process.kill()
        await settled(root)
        await clock.advance(0)
        first, second = messages()
        assert first.process is crashed.process
        assert isinstance(first.reason, Crashed)
        assert isinstance(first.reason.error, Boom)
        assert second == Down(killed.process, Killed())
        assert root.child("boss").incarnation == 1


async def test_a_task_that_has_nothing_to_wait_for_is_heard_of_too(clock: MockClock) -> None:
    """The task may have ended before the server has the handle."""

    class Hasty(Boss):
        async def handle_call(self, request: Any, caller: Any, state: None) -> Reply[Any, None]:
            reply = await super().handle_call(request, caller, state)
            await reply.value.process.wait()
            return reply

    HEARD.clear()
    tree = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), ChildSpec("boss", Hasty)])
    async with otpy.start(tree, hooks=()) as root:
        task = await Hasty.at("app/boss", root).call(("spawn", 0))
        await clock.advance(0)
        assert messages() == [(task, Ok("done")), Down(task.process, Normal())]


async def test_the_next_life_hears_nothing_of_the_tasks_of_the_last(clock: MockClock) -> None:
    """It gets no messages of tasks that an earlier life started."""
    async with boss() as (root, ref):
        await ref.call(("spawn", 1))
        await ref.call(("spawn", 1, "boom"))
        root.child("boss").kill()
        await root.wait_for_restart("boss", after=1)
        mine = await ref.call(("spawn", 2))
        await clock.advance(3)
        assert [(2, (mine, Ok("done"))), (2, Down(mine.process, Normal()))] == HEARD


async def test_a_linked_task_that_crashes_ends_the_server_all_the_same(clock: MockClock) -> None:
    """TSK-03: messages replace awaiting the task, but not the link."""
    async with boss() as (root, ref):
        first = root.child("boss")
        await ref.call(("linked", 1, "fine"))
        await ref.call(("linked", 2, "boom"))
        await clock.advance(3)
        assert isinstance(first.exit_reason, Crashed)
        assert root.child("boss").incarnation == 2


async def test_who_traps_exits_gets_the_signal_of_a_linked_task_besides(clock: MockClock) -> None:
    """SIG-05: the server gets the result, the notice of the end, and then the signal."""
    async with boss(traps=True) as (_, ref):
        task = await ref.call(("linked", 1))
        await clock.advance(2)
        down = Down(task.process, Normal())
        assert messages() == [(task, Ok("done")), down, ExitSignal(task.process, Normal())]


async def test_a_state_machine_gets_them_as_events(clock: MockClock) -> None:
    """They arrive like every message that is sent to the machine."""

    class Machine(GenStateMachine[Any, Any, str, None]):
        def init(self) -> Next[str, None]:
            return Next("idle", None)

        async def handle_event(self, event: Any, state: str, data: None) -> Keep[None]:
            HEARD.append(event.content)
            if event.content == "go":
                _ = await TaskSupervisor.at("app/tasks").spawn(after, 1, deliver=True)
            return Keep()

    HEARD.clear()
    tree = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), ChildSpec("m", Machine)])
    async with otpy.start(tree, hooks=()) as root:
        Machine.at("app/m", root).send("go")
        await clock.advance(2)
        go, (task, result), down = HEARD
        assert (go, result, down) == ("go", Ok("done"), Down(task.process, Normal()))


async def test_a_result_can_be_asked_for_as_well(clock: MockClock) -> None:
    """The server may also await such a task; the messages still arrive."""

    class Patient(Boss):
        async def handle_cast(self, request: Any, state: None) -> Result[None]:
            tasks = TaskSupervisor.at("app/tasks")
            HEARD.append((1, await (await tasks.spawn(after, 1, deliver=True))))
            ended = await tasks.spawn(after, 9, deliver=True)
            HEARD.append((1, await ended.shutdown()))
            return NoReply(state)

    HEARD.clear()
    tree = SupervisorSpec("app", [TaskSupervisor.spec("tasks"), ChildSpec("boss", Patient)])
    async with otpy.start(tree, hooks=()) as root:
        Patient.at("app/boss", root).cast(None)
        await clock.advance(3)
        value, nothing, (_, result), normal, stopped = messages()
        assert (value, nothing, result) == ("done", None, Ok("done"))
        assert (normal.reason, stopped.reason) == (Normal(), Shutdown())


async def test_only_a_server_has_messages_delivered() -> None:
    """Any other caller is refused, and no task starts."""
    async with boss() as (root, _):
        tasks = TaskSupervisor.at("app/tasks", root)
        with pytest.raises(NotSupervised):
            _ = await tasks.spawn(forever, deliver=True)
        plain = await actor(root)
        with pytest.raises(RuntimeError, match="app/actor: for the callbacks of a server"):
            _ = await plain.ask(lambda: tasks.spawn(forever, deliver=True))
        assert await tasks.children() == list[Process]()
