"""Servers that are called by a registered name, or by the key of a partition."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    PartitionSupervisor,
    Registry,
    Supervisor,
    SupervisorSpec,
)
from otpy.errors import CallFailed, KeysNotUnique, NotRegistered, NotRunning, PartitionError
from otpy.registry import Via
from otpy.server import Reply
from tests.behaviours.servers import Add, Counter, Get
from tests.runtime.children import forever


def names(root: Supervisor) -> Registry:
    return Registry.of(root.child("names"))


class Named(GenServer[Any, Any, Any]):
    """A server that registers itself before it is ready."""

    def init(self, name: str) -> str:
        root = otpy.current().root
        assert isinstance(root, Supervisor)
        names(root).register(name)
        return name

    def handle_call(self, request: Any, caller: Any, state: Any) -> Any:
        return Reply((state, otpy.current().incarnation), state)


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """A tree with a registry of unique names, one of topics, and partitions."""
    shards = PartitionSupervisor.spec("shards", ChildSpec("c", Counter), partitions=2)
    pools = PartitionSupervisor.spec("pools", DynamicSupervisor.spec("p"), partitions=2)
    topics = Registry.spec("topics", keys=otpy.registry.Keys.DUPLICATE)
    tree = SupervisorSpec("app", [Registry.spec("names"), topics, shards, pools])
    async with otpy.start(tree, hooks=()) as root:
        yield root


async def test_a_name_is_a_call_target(root: Supervisor) -> None:
    """REG-10: the name follows the server through restarts."""
    await root.start_child(ChildSpec("ann", Named, ("ann",)))
    ref = Named.at(Via(names(root), "ann"))
    assert ref == Named.at(Via(names(root), "ann"))
    assert await ref.call("who") == ("ann", 1)
    assert ref.whereis() is root.child("ann")
    root.child("ann").kill()
    await root.wait_for_restart("ann", after=1)
    assert await ref.call("who") == ("ann", 2)
    await ref.suspend()
    assert await ref.get_state() == "ann"
    await ref.resume()


async def test_a_call_to_a_name_that_nobody_holds_fails_and_a_cast_is_dropped(
    root: Supervisor,
) -> None:
    """REG-10, GEN-15, GEN-16: as with any missing server; also with a function as target."""
    via = Via(names(root), "nobody")
    for ref in (Counter.at(via), Counter.at(via.whereis)):
        with pytest.raises(CallFailed, match="app/names") as caught:
            await ref.call(Get())
        assert isinstance(caught.value.__cause__, NotRegistered)
        assert caught.value.reason is None
        ref.cast(Add())
        ref.send("hello")


async def test_a_call_by_way_of_a_registry_that_has_ended_fails(root: Supervisor) -> None:
    """REG-10: a name leads nowhere once its registry has ended."""
    ref = Counter.at(Via(names(root), "ann"))
    await root.terminate_child("names")
    with pytest.raises(CallFailed) as caught:
        await ref.call(Get())
    assert isinstance(caught.value.__cause__, NotRunning)
    ref.cast(Add())


async def test_a_name_that_can_never_lead_to_one_server_is_an_error(root: Supervisor) -> None:
    """REG-10, PAR-06: this holds for a cast too, which is not silently dropped."""
    topics = Registry.of(root.child("topics"))
    with pytest.raises(KeysNotUnique):
        await Counter.at(Via(topics, "t")).call(Get())
    with pytest.raises(KeysNotUnique):
        Counter.at(Via(topics, "t")).cast(Get())
    shards = PartitionSupervisor(root.child("shards"))
    await shards.resize(0)
    with pytest.raises(PartitionError, match="no partitions"):
        Counter.at(Via(shards, 1)).cast(Get())


async def test_a_key_of_partitions_is_a_target(root: Supervisor) -> None:
    """PAR-05: for calls, casts and starting children; a partition registers no process."""
    shards = PartitionSupervisor(root.child("shards"))
    ref = Counter.at(Via(shards, 3))
    assert await ref.call(Add(5)) == 5
    ref.cast(Add(2))
    assert await Counter.at("app/shards/1", root).call(Get()) == 7
    assert await Counter.at("app/shards/0", root).call(Get()) == 0
    pool = Via(PartitionSupervisor(root.child("pools")), 3).whereis().supervisor
    assert isinstance(pool, DynamicSupervisor)
    child = await pool.start_child(ChildSpec("w", forever))
    assert child is not None
    assert child.path == "app/pools/1/w"
    assert not hasattr(shards, "register")
    await shards.supervisor.terminate_child("1")
    with pytest.raises(CallFailed) as caught:
        await ref.call(Get())
    assert isinstance(caught.value.__cause__, NotRunning)
    ref.cast(Add())
