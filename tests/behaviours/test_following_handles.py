"""Handles that name a place in the tree, and so outlive each life of the child at that place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    GenServer,
    PartitionSupervisor,
    Registry,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import NotFound, NotRunning, NotSupervised
from otpy.registry import Via
from otpy.server import Init, Reply
from otpy.testing import settled


class Greeter(GenServer[str, str, None]):
    """A server that answers, and registers itself under a key if it gets one."""

    def init(self, key: str | None = None) -> Init[None]:
        """Register the way a user would: by the path of the registry."""
        if key is not None:
            Registry[str, int].at("app/names").register(key)
        return Init(None)

    async def handle_call(self, request: str, caller: object, state: None) -> Reply[str, None]:
        """Greet."""
        return Reply(f"hello {request}", state)


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """A registry, tasks and partitions, and a server that has registered itself."""
    spec = SupervisorSpec(
        "app",
        [
            Registry[str, int].spec("names"),
            TaskSupervisor.spec("tasks"),
            PartitionSupervisor.spec("parts", ChildSpec("part", Greeter), partitions=2),
            ChildSpec("greeter", Greeter, ("ann",)),
        ],
        intensity=50,
    )
    async with otpy.start(spec, hooks=()) as root:
        yield root


async def kill_all(root: Supervisor) -> None:
    """Kill each child and wait for its next life."""
    for name in ("names", "tasks", "parts", "greeter"):
        after = root.child(name).incarnation
        root.child(name).kill()
        await root.wait_for_restart(name, after=after)
    await settled(root)


async def double(number: int) -> int:
    return 2 * number


async def test_each_handle_made_from_a_path_works_after_a_restart(root: Supervisor) -> None:
    """The user need not make any handle again, nor anything made from one."""
    names = Registry[str, int].at("app/names", root)
    tasks = TaskSupervisor.at("app/tasks", root)
    parts = PartitionSupervisor.at("app/parts", root)
    ann, part = Greeter.at(Via(names, "ann")), Greeter.at(Via(parts, "somebody"))
    for _ in range(3):
        assert await ann.call("a") == "hello a"
        assert await part.call("b") == "hello b"
        assert await (await tasks.spawn(double, 21)) == 42
        assert (names.count(), parts.partitions) == (1, 2)
        await kill_all(root)


async def test_a_handle_made_from_a_process_stands_for_that_life(root: Supervisor) -> None:
    """After a restart, the handle reports that its process has ended."""
    tasks = TaskSupervisor(root.child("tasks"))
    same = TaskSupervisor.at(root.child("tasks"))
    names = Registry[str, int].of(root.child("names"))
    await kill_all(root)
    for stale in (tasks, same):
        with pytest.raises(NotRunning):
            await (await stale.spawn(double, 1))
    with pytest.raises(NotRunning):
        names.lookup("ann")


async def test_in_a_child_a_path_begins_at_its_own_root(root: Supervisor) -> None:
    """The user need not hand the root down."""

    async def ask() -> list[str]:
        return [entry.key for entry in Registry[str, int].at("app/names").select()]

    found = await (await TaskSupervisor(root.child("tasks")).spawn(ask))
    assert found == ["ann"]


KINDS: list[Any] = [Registry[str, int], TaskSupervisor, PartitionSupervisor]


@pytest.mark.parametrize("kind", KINDS, ids=["registry", "tasks", "partitions"])
async def test_a_path_without_a_root_is_refused_outside_of_a_tree(kind: Any) -> None:
    """The error says which argument is missing."""
    with pytest.raises(NotSupervised, match="give root="):
        kind.at("app/it")


async def use(handle: Any) -> object:
    """Use a handle, of whatever kind it is."""
    if hasattr(handle, "lookup"):
        return handle.lookup("ann")
    return await handle.children() if hasattr(handle, "children") else handle.partitions


@pytest.mark.parametrize("kind", KINDS, ids=["registry", "tasks", "partitions"])
async def test_each_use_says_what_is_wrong_with_the_place(root: Supervisor, kind: Any) -> None:
    """The place is empty, holds another kind of child, or its child has ended."""
    with pytest.raises(NotFound):
        await use(kind.at("app/nobody", root))
    with pytest.raises(TypeError, match="was not made by"):
        await use(kind.at("app/greeter", root))
    name = {"TaskSupervisor": "tasks", "PartitionSupervisor": "parts"}.get(kind.__name__, "names")
    handle = kind.at(f"app/{name}", root)
    assert await use(handle) is not None
    await root.terminate_child(name)
    with pytest.raises(NotRunning):
        await use(handle)


async def test_a_function_may_say_where_to_look(root: Supervisor) -> None:
    """As for servers, a handle can be made from a function that returns the process."""
    tasks = TaskSupervisor.at(lambda: root.child("tasks"))
    await kill_all(root)
    assert await (await tasks.spawn(double, 4)) == 8
    await asyncio.sleep(0)
