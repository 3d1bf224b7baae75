"""A timeout is a number of seconds, or None: each call checks it before it does anything."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

import otpy
from otpy import ChildSpec, GenServer, Supervisor, SupervisorSpec, TaskSupervisor
from otpy.errors import CallTimeout
from otpy.server import NoReply
from otpy.specs import DynamicSpec
from otpy.testing import MockClock, settled
from tests.behaviours.servers import Counter, Get
from tests.runtime.children import forever

NO_TIME: list[Any] = [math.nan, "5", b"5", [5], Decimal(5), 5j, type(None)]


class Silent(GenServer[str, None, list[str]]):
    """A server that never replies, and keeps its requests."""

    def init(self) -> list[str]:
        return []

    def handle_call(self, request: str, caller: object, state: list[str]) -> NoReply[list[str]]:
        return NoReply([*state, request])


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """Start a tree with servers and a task supervisor."""
    children: list[ChildSpec | DynamicSpec] = [
        ChildSpec("silent", Silent),
        ChildSpec("counter", Counter),
        TaskSupervisor.spec("tasks"),
    ]
    async with otpy.start(SupervisorSpec("app", children)) as root:
        yield root


async def _of_task(root: Supervisor, operation: str, timeout: Any) -> None:
    task = await TaskSupervisor(root.child("tasks")).spawn(forever)
    try:
        await getattr(task, operation)(timeout)
    finally:
        assert task.process.alive, "it was touched"
        task.process.kill()


async def _of_stream(root: Supervisor, timeout: Any) -> None:
    async for _ in TaskSupervisor(root.child("tasks")).stream(asyncio.sleep, [1], timeout=timeout):
        pass


OPERATIONS: dict[str, Callable[[Supervisor, Any], Awaitable[object]]] = {
    "call": lambda root, t: Silent.at("app/silent", root).call("nan", timeout=t),
    "stop": lambda root, t: Silent.at("app/silent", root).stop(timeout=t),
    "suspend": lambda root, t: Silent.at("app/silent", root).suspend(t),
    "resume": lambda root, t: Silent.at("app/silent", root).resume(t),
    "get_state": lambda root, t: Silent.at("app/silent", root).get_state(t),
    "replace_state": lambda root, t: Silent.at("app/silent", root).replace_state(sorted, t),
    "Process.suspend": lambda root, t: root.child("silent").suspend(t),
    "Process.resume": lambda root, t: root.child("silent").resume(t),
    "Process.get_state": lambda root, t: root.child("silent").get_state(t),
    "Task.result": lambda root, t: _of_task(root, "result", t),
    "Task.poll": lambda root, t: _of_task(root, "poll", t),
    "Task.shutdown": lambda root, t: _of_task(root, "shutdown", t),
    "stream": _of_stream,
    "settled": lambda root, t: settled(root, timeout=t),
}


@pytest.mark.parametrize("timeout", NO_TIME, ids=repr)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_is_no_number_of_seconds_is_refused(
    root: Supervisor, operation: str, timeout: Any
) -> None:
    """The call raises a `ValueError` with the value; nothing was sent, stopped or suspended."""
    with pytest.raises(ValueError, match=r"timeout is .*, wanted seconds") as caught:
        await OPERATIONS[operation](root, timeout)
    assert repr(timeout) in str(caught.value)
    assert await Silent.at("app/silent", root).get_state() == []


async def test_who_waits_is_named(root: Supervisor) -> None:
    """The error names the path of the process to wait for."""
    with pytest.raises(ValueError, match=r"^app/silent: timeout is nan, wanted seconds, or None$"):
        await Silent.at("app/silent", root).call("x", timeout=math.nan)


async def test_a_timeout_of_nan_holds_up_no_other_deadline(
    root: Supervisor, clock: MockClock
) -> None:
    """Each other deadline comes at its own time."""

    async def told(timeout: float) -> float:
        with pytest.raises((CallTimeout, ValueError)):
            await Silent.at("app/silent", root).call("x", timeout=timeout)
        return clock.now

    times = [math.nan, 0.1, 0.2, math.nan, 0.05]
    assert await asyncio.gather(*map(told, times)) == [0, 0.1, 0.2, 0, 0.05]


async def test_every_kind_of_number_will_do(root: Supervisor) -> None:
    """A timeout may be endless, already over, or a whole number."""
    counter = Counter.at("app/counter", root)
    for timeout in (math.inf, 1e300, 5, True, None):
        assert await counter.call(Get(), timeout=timeout) == 0
        assert await counter.get_state(timeout) == 0
    silent = Silent.at("app/silent", root)
    for timeout in (0, -1, -math.inf):
        with pytest.raises(CallTimeout):
            await silent.call("x", timeout=timeout)
