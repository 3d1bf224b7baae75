from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from anyio.abc import TaskStatus
from hypothesis import given
from hypothesis import strategies as st

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    Intensity,
    InvalidSpec,
    PartitionSupervisor,
    Restart,
    Supervisor,
    SupervisorSpec,
)
from otpy.behaviours.partition import RoutingKey, _bytes_of
from otpy.errors import NotRunning, PartitionError, StartFailed
from otpy.registry import Via
from otpy.snapshot import Counts
from otpy.specs import GIVE_UP
from otpy.testing import MockClock
from tests.runtime.children import Boom, forever


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """Start a tree that consists of three partitions."""
    spec = PartitionSupervisor.spec("shards", ChildSpec("x", forever), partitions=3)
    async with otpy.start(spec, hooks=()) as root:
        yield root


@pytest.fixture
async def shards(root: Supervisor) -> PartitionSupervisor:
    """Return the handle of that tree."""
    return PartitionSupervisor(root)


async def serve(name: str, index: int = -1) -> None:
    """Take the arguments of a partition."""


def test_the_children_are_numbered() -> None:
    """One spec makes all of them, and a function may change the arguments of each (PAR-02)."""
    spec = PartitionSupervisor.spec(
        "shards",
        ChildSpec("x", serve, ("a",), shutdown=1.0),
        partitions=2,
        with_arguments=lambda args, index: [*args, index],
    )
    assert spec == SupervisorSpec(
        "shards",
        [
            ChildSpec("0", serve, ("a", 0), shutdown=1.0),
            ChildSpec("1", serve, ("a", 1), shutdown=1.0),
        ],
    )
    default = PartitionSupervisor.spec("shards", DynamicSupervisor.spec("pool"))
    assert len(default.children) == os.cpu_count()
    assert default.children[0] == DynamicSupervisor.spec("0")


def same(args: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return args


def number(args: tuple[Any, ...], index: int) -> int:
    return index


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (ChildSpec("x", forever), {"partitions": 0}, "partitions"),
    (ChildSpec("x", forever), {"partitions": True}, "partitions"),
    (ChildSpec("x", forever), {"partitions": "3"}, "partitions"),
    (ChildSpec("x", forever), {"with_arguments": 3}, "with_arguments"),
    (DynamicSupervisor.spec("x"), {"with_arguments": same}, "child"),
    (ChildSpec("x", forever), {"with_arguments": number}, "args"),
    (forever, {}, "child"),
    (ChildSpec("x", forever, restart=Restart.TEMPORARY), {}, "restart of the child"),
    (ChildSpec("x", forever, intensity=Intensity(1, 5, GIVE_UP)), {}, "intensity of the child"),
    (ChildSpec("x", forever, restart=Restart.TRANSIENT, significant=True), {}, "significant"),
]


@pytest.mark.parametrize(("child", "options", "what"), BAD)
def test_what_can_never_work_is_refused(child: Any, options: dict[str, Any], what: str) -> None:
    """The error comes from the line that writes the spec (PAR-01)."""
    with pytest.raises(InvalidSpec, match=what):
        PartitionSupervisor.spec("shards", child, **options)


async def test_integers_lead_to_partitions_in_turn(shards: PartitionSupervisor) -> None:
    """An integer leads to its absolute value modulo the number of partitions (PAR-03)."""
    keys = [0, 1, 2, 3, 4, -1, -4]
    assert [shards.route(key).id for key in keys] == ["0", "1", "2", "0", "1", "1", "1"]
    assert shards.partitions == 3
    assert Via(shards, 4).whereis() is shards.route(4)


KEYS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@given(KEYS)
def test_every_stable_key_can_be_hashed(key: RoutingKey) -> None:
    """This includes text with lone surrogates, and nested tuples (PAR-03)."""
    assert _bytes_of("shards", key) == _bytes_of("shards", key)


async def test_other_keys_have_a_stable_hash(shards: PartitionSupervisor) -> None:
    """The keys use all partitions, and an object without a stable hash is refused (PAR-03)."""
    keys: list[RoutingKey] = [f"user-{n}" for n in range(50)]
    assert {shards.route(key).id for key in keys} == {"0", "1", "2"}
    odd: list[Any] = [object(), ("a", object()), frozenset("a"), 1j]
    for key in odd:
        with pytest.raises(PartitionError, match="stable hash"):
            shards.route(key)


def test_the_hash_is_the_same_everywhere() -> None:
    """The hash is pinned here: it must not change between runs or releases (PAR-03)."""
    keys: list[RoutingKey] = ["ann", b"ann", ("a", 1), 1.5, None, True]
    hashes = [zlib.crc32(_bytes_of("shards", key)) for key in keys]
    assert hashes == [1085242127, 2819247093, 1877169705, 2270993338, 3751981041, 1573839795]


async def test_routing_follows_restarts(root: Supervisor, shards: PartitionSupervisor) -> None:
    """A key leads to the new process; a stopped partition has none (PAR-04)."""
    before = shards.route("ann")
    before.kill()
    after = await root.wait_for_restart(before.id, after=1)
    assert shards.route("ann") is after
    await root.terminate_child(after.id)
    with pytest.raises(NotRunning):
        shards.route("ann")


@pytest.mark.usefixtures("clock")
async def test_a_partition_that_is_not_ready_gets_no_keys() -> None:
    """While it starts again, it counts as not running (PAR-04)."""

    async def slow(*, task_status: TaskStatus[None]) -> None:
        await asyncio.sleep(otpy.current().incarnation)
        task_status.started()
        await forever()

    spec = PartitionSupervisor.spec("shards", ChildSpec("x", slow), partitions=1)
    async with otpy.start(spec, hooks=()) as root:
        shards = PartitionSupervisor(root)
        shards.route(0).kill()
        await asyncio.sleep(1)
        with pytest.raises(NotRunning, match="shards/0"):
            shards.route(0)
        await asyncio.sleep(2)
        assert shards.route(0).incarnation == 2


async def test_partitions_can_be_supervisors() -> None:
    """A key leads to its pool, and children can be started in that pool."""
    spec = PartitionSupervisor.spec("pools", DynamicSupervisor.spec("pool"), partitions=2)
    async with otpy.start(SupervisorSpec("app", [spec]), hooks=()) as root:
        pool = PartitionSupervisor(root.child("pools")).route(1).supervisor
        assert isinstance(pool, DynamicSupervisor)
        child = await pool.start_child(ChildSpec("w", forever))
        assert child is not None
        assert child.path == "app/pools/1/w"


async def test_resizing_through_all_sizes(root: Supervisor, shards: PartitionSupervisor) -> None:
    """Surplus partitions stop, stay known, come back; `resize` returns the old size (PAR-06)."""
    assert await shards.resize(3) == 3
    assert await shards.resize(1) == 3
    assert await root.count_children() == Counts(3, 1, 0, 3)
    assert {shards.route(key).id for key in range(9)} == {"0"}
    assert PartitionSupervisor(root).partitions == 1
    assert await shards.resize(0) == 1
    with pytest.raises(PartitionError, match="no partitions"):
        shards.route(1)
    assert await shards.resize(2) == 0
    assert {shards.route(key).id for key in range(9)} == {"0", "1"}
    assert await shards.resize(3) == 2
    assert await root.count_children() == Counts(3, 3, 0, 3)
    for size in (4, -1, True, 1.0):
        with pytest.raises(PartitionError, match="from 0 to 3"):
            await shards.resize(size)  # type: ignore[arg-type]
    assert shards.partitions == 3


async def test_no_key_leads_to_a_partition_that_stops(clock: MockClock) -> None:
    """The routing changes first, and a second resize waits for the first (PAR-06)."""

    async def slow() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(2)

    spec = PartitionSupervisor.spec("shards", ChildSpec("x", slow), partitions=2)
    async with otpy.start(spec, hooks=()) as root:
        shards = PartitionSupervisor(root)
        shrinking = asyncio.create_task(shards.resize(1))
        growing = asyncio.create_task(PartitionSupervisor(root).resize(2))
        await clock.advance(0)
        assert shards.route(1).id == "0"
        assert (await shrinking, await growing) == (2, 1)
        assert shards.route(1).incarnation == 2


async def test_resizes_that_meet_never_lose_a_partition(clock: MockClock) -> None:
    """The second starts when the first is over, however many stops that takes (PAR-06)."""

    async def slow() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(2)

    spec = PartitionSupervisor.spec("shards", ChildSpec("x", slow), partitions=3)
    async with otpy.start(spec, hooks=()) as root:
        shards = PartitionSupervisor(root)
        await clock.advance(0)
        assert list(await asyncio.gather(shards.resize(0), shards.resize(3))) == [3, 0]
        assert [shards.route(key).incarnation for key in range(3)] == [2, 2, 2]
        assert (await root.count_children()).active == 3


async def test_a_resize_that_was_cut_off_is_finished_by_the_next(
    clock: MockClock, root: Supervisor, shards: PartitionSupervisor
) -> None:
    """A resize cancelled while shrinking leaves partitions that no key leads to (PAR-06)."""
    shrinking = asyncio.create_task(shards.resize(0))
    await asyncio.sleep(0)
    shrinking.cancel()
    await clock.advance(0)
    assert shrinking.cancelled()
    assert shards.partitions == 0
    assert (await root.count_children()).active == 2
    assert await shards.resize(3) == 0
    assert [shards.route(key).incarnation for key in range(3)] == [1, 1, 2]
    shrinking = asyncio.create_task(shards.resize(0))
    await asyncio.sleep(0)
    shrinking.cancel()
    await clock.advance(0)
    assert await shards.resize(0) == 0
    assert (await root.count_children()).active == 0


async def test_a_partition_that_does_not_start_gets_no_keys() -> None:
    """The number of partitions stays as it was, and another attempt is possible (PAR-06)."""
    broken: list[bool] = []

    async def moody(*, task_status: TaskStatus[None]) -> None:
        if broken:
            raise Boom
        task_status.started()
        await forever()

    spec = PartitionSupervisor.spec("shards", ChildSpec("x", moody), partitions=2)
    async with otpy.start(spec, hooks=()) as root:
        shards = PartitionSupervisor(root)
        await shards.resize(1)
        broken.append(True)
        with pytest.raises(StartFailed):
            await shards.resize(2)
        assert shards.partitions == 1
        broken.clear()
        assert await shards.resize(2) == 1


async def test_what_has_ended_has_no_partitions(
    root: Supervisor, shards: PartitionSupervisor
) -> None:
    """It has neither a number nor a process (PAR-07)."""
    await root.stop()
    with pytest.raises(NotRunning):
        shards.route(1)
    with pytest.raises(NotRunning):
        assert shards.partitions
    with pytest.raises(NotRunning):
        await shards.resize(1)


async def test_only_partitions_have_a_handle() -> None:
    """Any other supervisor or process is refused."""
    tree = SupervisorSpec("app", [ChildSpec("x", forever), DynamicSupervisor.spec("pool")])
    async with otpy.start(tree) as root:
        for other in (root, root.child("x"), root.child("pool")):
            with pytest.raises(TypeError, match=r"PartitionSupervisor\.spec"):
                PartitionSupervisor(other)
