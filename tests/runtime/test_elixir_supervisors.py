"""Elixir's `Supervisor` and `DynamicSupervisor`: specs, counts and results."""

from __future__ import annotations

from typing import Any

import pytest

import otpy
from otpy import (
    INFINITY,
    Backoff,
    ChildSpec,
    ChildType,
    DynamicSupervisor,
    GenServer,
    Ignore,
    InvalidSpec,
    PartitionSupervisor,
    Registry,
    Restart,
    Strategy,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._core.dynamic import DynamicMachine
from otpy._core.spec import AnySpec, DynamicSpec
from otpy.errors import NotFound, NotRunning
from otpy.snapshot import Counts
from otpy.testing import MockClock
from tests.core.world import World
from tests.runtime.children import crash, forever


class Idle(GenServer[None, None, None]):
    """A server that does nothing."""

    def init(self) -> None:
        return None


# --- specs ----------------------------------------------------------------------------------------


def test_a_spec_is_copied_with_changes() -> None:
    """ESU-04: field by field; an unknown field is refused, and so is a bad value."""
    base = ChildSpec("a", Idle, restart=Restart.TRANSIENT)
    changed = base.replace(id="b", shutdown=INFINITY)
    assert changed == ChildSpec("b", Idle, restart=Restart.TRANSIENT, shutdown=INFINITY)
    assert base.id == "a"
    with pytest.raises(TypeError, match="shutdwn"):
        base.replace(shutdwn=3.0)
    with pytest.raises(InvalidSpec, match="shutdown"):
        base.replace(shutdown="soon")
    top = SupervisorSpec("top", [base])
    assert top.replace(strategy=Strategy.ONE_FOR_ALL).children == top.children
    with pytest.raises(TypeError, match="modules"):
        top.replace(modules=[])


def test_two_of_a_kind_need_two_ids() -> None:
    """ESU-05: the clash is found where the spec is written."""
    one = ChildSpec("idle", Idle)
    with pytest.raises(InvalidSpec, match="'idle'"):
        SupervisorSpec("app", [one, one])
    assert len(SupervisorSpec("app", [one, one.replace(id="other")]).children) == 2


async def test_each_kind_of_child_has_its_defaults() -> None:
    """ESU-06: servers and supervisors are permanent, tasks temporary; the type is known."""
    specs: list[AnySpec] = [
        ChildSpec("server", Idle),
        SupervisorSpec("static"),
        DynamicSupervisor.spec("dynamic"),
        TaskSupervisor.spec("tasks"),
        PartitionSupervisor.spec("shards", ChildSpec("x", Idle), partitions=1),
    ]
    assert {spec.restart for spec in specs} == {Restart.PERMANENT}
    assert [spec.shutdown for spec in specs] == [5.0, *[INFINITY] * 4]
    assert Registry.spec("names").restart is Restart.PERMANENT
    async with otpy.start(SupervisorSpec("app", specs), hooks=()) as app:
        types = [child.type for child in await app.which_children()]
        assert sorted(types, key=str) == [*[ChildType.SUPERVISOR] * 4, ChildType.WORKER]
        task = await TaskSupervisor(app.child("tasks")).start_child(forever)
        assert (task.spec.restart, task.spec.shutdown) == (Restart.TEMPORARY, 5.0)


# --- results --------------------------------------------------------------------------------------


async def decline(*, task_status: Any) -> None:
    raise Ignore


async def test_who_declines_has_no_process_and_counts_are_named() -> None:
    """ESU-08, DYN-08: the result is None; `Counts` has the four numbers of Elixir's map."""
    async with otpy.start(SupervisorSpec("app"), hooks=()) as app:
        assert await app.start_child(ChildSpec("x", decline)) is None
        assert await app.count_children() == Counts(specs=1, active=0, supervisors=0, workers=1)
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        assert await pool.start_child(ChildSpec("x", decline)) is None
        assert await pool.count_children() == Counts(specs=0, active=0, supervisors=0, workers=0)


async def test_a_dynamic_supervisor_counts_those_that_wait_for_a_restart(clock: MockClock) -> None:
    """DYN-12: they count among its specs, not among the active ones."""
    waits = ChildSpec("waits", crash, backoff=Backoff.sequence(60))
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        for spec in (waits, ChildSpec("runs", forever), SupervisorSpec("sub")):
            await pool.start_child(spec)
        await clock.advance(0)
        assert await pool.count_children() == Counts(specs=3, active=2, supervisors=1, workers=2)


async def test_a_process_that_has_ended_names_no_child() -> None:
    """DYN-13: this holds even if its next life runs under the same id."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        first = await pool.start_child(ChildSpec("x", forever))
        assert first is not None
        first.kill()
        second = await pool.wait_for_restart("x", after=1)
        with pytest.raises(NotFound, match="pool/x"):
            await pool.terminate_child(first)
        assert second.alive
        await pool.terminate_child(second)
        assert await pool.count_children() == Counts(0, 0, 0, 0)


JUNK: list[tuple[Any, str]] = [
    (None, "child is None"),
    (forever, "child is <function forever"),
    ({"id": "x", "start": forever}, "child is of type dict, wanted"),
    (ChildSpec("x", forever, restart=Restart.TRANSIENT, significant=True), "significant is True"),
    (SupervisorSpec("x", restart=Restart.TEMPORARY, significant=True), "significant is True"),
]


@pytest.mark.parametrize(("junk", "message"), JUNK)
async def test_what_cannot_be_a_child_is_refused_in_the_caller(junk: Any, message: str) -> None:
    """DYN-04, DYN-05: the check precedes the request, so it works after the end too."""
    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        with pytest.raises(InvalidSpec, match=f"pool: .*{message}"):
            await pool.start_child(junk)
        assert await pool.count_children() == Counts(0, 0, 0, 0)
    with pytest.raises(InvalidSpec):
        await pool.start_child(junk)
    with pytest.raises(NotRunning):
        await pool.start_child(ChildSpec("x", forever))


async def test_a_dynamic_child_is_permanent_unless_its_spec_says_otherwise() -> None:
    """DYN-04: as everywhere, such a child is restarted after a normal end."""

    async def returns() -> None:
        if otpy.current().incarnation > 1:
            await forever()

    async with otpy.start(DynamicSupervisor.spec("pool"), hooks=()) as pool:
        await pool.start_child(ChildSpec("x", returns))
        assert (await pool.wait_for_restart("x", after=1)).incarnation == 2


BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"id": 3, "start": forever}, "id"),
    ({"id": "x", "start": "forever"}, "start"),
    ({"id": "x", "start": forever, "restart": "always"}, "restart"),
    ({"id": "x", "start": forever, "shutdown": -1}, "shutdown"),
    ({"id": "x", "start": forever, "significant": 1}, "significant"),
]


@pytest.mark.parametrize(("fields", "what"), BAD_FIELDS)
def test_each_field_of_a_spec_is_checked(fields: dict[str, Any], what: str) -> None:
    """DYN-05: the error comes where the spec is written, and names the field."""
    with pytest.raises(InvalidSpec, match=what):
        ChildSpec(**fields)
    with pytest.raises(TypeError):
        ChildSpec("x")  # type: ignore[call-overload]


# --- intensity ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "survives"),
    [((0.0, 5.0), False), ((0.0, 5.999), False), ((0.999, 6.0), True), ((0.0, 6.0), True)],
)
def test_the_window_is_that_of_any_supervisor(seconds: tuple[float, ...], survives: bool) -> None:
    """DYN-11: it has whole seconds, and includes its boundary (SUP-503)."""
    world = World(DynamicSpec("pool", intensity=1, period=5)).begin()
    assert isinstance(world.machine, DynamicMachine)
    world.add("x")
    for second in seconds:
        world.now = second
        world.die("x")
    assert (world.finish is None) is survives
