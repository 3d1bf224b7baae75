"""Children that hold a name because their spec says so."""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import otpy
from otpy import (
    ChildSpec,
    DynamicSupervisor,
    GenServer,
    GenStateMachine,
    InvalidSpec,
    PartitionSupervisor,
    Registry,
    Restart,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.errors import (
    AlreadyRegistered,
    KeysNotUnique,
    NotFound,
    NotRegistered,
    NotRunning,
    NotSupervised,
    StartFailed,
    TreeStartFailed,
)
from otpy.registry import Keys, Registered, Via
from otpy.reports import ChildStarted
from otpy.statem import Next
from otpy.testing import MockClock, Recording, settled
from tests.behaviours.servers import Counter, Get
from tests.runtime.children import Boom, forever

ANN = Via("app/names", "ann")


def tree(*children: ChildSpec | SupervisorSpec | Any, **options: Any) -> SupervisorSpec:
    """Return a tree with a registry of names, followed by these children."""
    return SupervisorSpec("app", [Registry.spec("names"), *children], **options)


@pytest.fixture
async def root() -> AsyncGenerator[Supervisor]:
    """Start a tree to which tests add children."""
    async with otpy.start(tree(intensity=50), hooks=()) as root:
        yield root


def holder() -> tuple[str, int]:
    """Return the path and the life of the process called ann, as seen from a child."""
    process = ANN.whereis()
    return process.path, process.incarnation


# --- of whatever kind -----------------------------------------------------------------------------

SEEN: list[Any] = []


async def plain() -> None:
    SEEN.append(holder())
    await forever()


async def announcing(*, task_status: Any) -> None:
    SEEN.append(holder())
    task_status.started()
    await forever()


@asynccontextmanager
async def entered() -> AsyncGenerator[None]:
    SEEN.append(holder())
    yield


class Server(GenServer[Any, Any, None]):
    def init(self) -> None:
        SEEN.append(holder())


class Machine(GenStateMachine[Any, Any, str, None]):
    def init(self) -> Next[str, None]:
        SEEN.append(holder())
        return Next("idle", None)


async def neighbour() -> None:
    SEEN.append(("neighbour", *holder()))
    await forever()


KINDS: list[Any] = [plain, announcing, entered, Server, Machine]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_child_of_any_kind_holds_its_name_before_its_code_runs(kind: Any) -> None:
    """Each life holds it, and holds it before the next sibling starts."""
    SEEN.clear()
    spec = tree(ChildSpec("a", kind, register=ANN), ChildSpec("b", neighbour))
    async with otpy.start(spec, hooks=()) as root:
        await settled(root)
        assert SEEN == [("app/a", 1), ("neighbour", "app/a", 1)]
        root.child("a").kill()
        await root.wait_for_restart("a", after=1)
        await settled(root)
        assert SEEN[2:] == [("app/a", 2)]
        assert ANN.whereis(root) is root.child("a")


async def test_nobody_hears_that_a_child_is_ready_before_it_holds_its_name() -> None:
    """The registry's listeners are told before the hooks that get the reports."""
    heard: list[str] = []
    names = Registry.spec("names", listeners=[lambda news: heard.append(type(news).__name__)])

    def hook(report: Any) -> None:
        if isinstance(report, ChildStarted) and report.id == "a":
            heard.append("started")

    spec = SupervisorSpec("app", [names, ChildSpec("a", forever, register=ANN)])
    async with otpy.start(spec, hooks=[hook]):
        assert heard == [Registered.__name__, "started"]


async def test_a_registry_is_given_as_itself_too(root: Supervisor) -> None:
    """The spec may name the registry of one life, or a handle that follows the registry."""
    of, at = Registry.of(root.child("names")), Registry.at("app/names", root)
    await root.start_child(ChildSpec("a", forever, register=Via(of, "a")))
    await root.start_child(ChildSpec("b", forever, register=Via(at, ("b", 1))))
    assert [(entry.key, entry.process.id, entry.value) for entry in of.select()] == [
        ("a", "a", None),
        (("b", 1), "b", None),
    ]


# --- until it ends --------------------------------------------------------------------------------


async def test_a_name_is_free_in_the_moment_in_which_its_child_ends(root: Supervisor) -> None:
    """As soon as the end is visible, another child may take the name."""
    once = ChildSpec("a", forever, register=ANN, restart=Restart.TEMPORARY)
    first = await root.start_child(once)
    assert first is not None
    await root.terminate_child("a")
    with pytest.raises(NotRegistered):
        ANN.whereis(root)
    assert await root.start_child(once.replace(id="b")) is ANN.whereis(root)


async def test_a_child_that_fails_to_start_leaves_no_name(root: Supervisor) -> None:
    """The next child that asks for the name gets it."""

    async def failing(*, task_status: Any) -> None:
        raise Boom("no")

    with pytest.raises(StartFailed) as caught:
        await root.start_child(ChildSpec("a", failing, register=ANN))
    assert isinstance(caught.value.__cause__, Boom)
    assert await root.start_child(ChildSpec("b", forever, register=ANN)) is ANN.whereis(root)


async def test_children_come_back_with_their_registry() -> None:
    """REG-13: they end with it, and their next lives hold their names in its next life."""
    spec = tree(ChildSpec("a", forever, register=ANN), strategy="rest_for_one")
    async with otpy.start(spec, hooks=()) as root:
        root.child("names").kill()
        await root.wait_for_restart("a", after=1)
        assert ANN.whereis(root) is root.child("a")


# --- a start that fails ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_name_that_is_taken_fails_the_start(root: Supervisor, kind: Any) -> None:
    """SUP-319, GEN-05: the error names the holder, and no code of the child runs."""
    SEEN.clear()
    first = await root.start_child(ChildSpec("a", forever, register=ANN))
    with pytest.raises(StartFailed, match="app/names: 'ann' is taken") as caught:
        await root.start_child(ChildSpec("b", kind, register=ANN))
    await settled(root)
    assert isinstance(caught.value.__cause__, AlreadyRegistered)
    assert caught.value.__cause__.process is first is ANN.whereis(root)
    assert SEEN == []


async def test_a_tree_with_one_name_twice_does_not_start() -> None:
    """SUP-306: the start of the tree fails with the error of the second child."""
    spec = tree(*(ChildSpec(name, forever, register=ANN) for name in "ab"))
    with pytest.raises(TreeStartFailed, match="app/b") as caught:
        async with otpy.start(spec, hooks=()):
            pass
    assert isinstance(caught.value.__cause__, AlreadyRegistered)


async def test_a_restart_is_tried_again_until_the_name_is_free(clock: MockClock) -> None:
    """SUP-612: a failed start is repeated as a restart is."""
    backoff = otpy.Backoff.sequence(1)
    spec = tree(ChildSpec("a", forever, register=ANN, backoff=backoff), intensity=50)
    async with otpy.start(spec, hooks=()) as root:
        root.child("a").kill()
        await clock.advance(0.5)
        await root.start_child(ChildSpec("thief", forever, register=ANN))
        await clock.advance(2)
        assert ANN.whereis(root).id == "thief"
        await root.terminate_child("thief")
        await clock.advance(2)
        assert ANN.whereis(root).path == "app/a"


async def test_without_the_registry_the_start_fails(root: Supervisor) -> None:
    """The error says whether the registry does not exist or does not run."""
    gone = Via("app/nobody", "ann")
    with pytest.raises(StartFailed) as caught:
        await root.start_child(ChildSpec("a", forever, register=gone))
    assert isinstance(caught.value.__cause__, NotFound)
    old = Via(Registry.of(root.child("names")), "ann")
    await root.terminate_child("names")
    for via in (ANN, old):
        with pytest.raises(StartFailed) as caught:
            await root.start_child(ChildSpec("a", forever, register=via))
        assert isinstance(caught.value.__cause__, NotRunning)


async def test_a_registry_that_is_still_starting_is_not_there() -> None:
    """The registry must come before the children that use it."""
    late = SupervisorSpec("app", [ChildSpec("a", forever, register=ANN), Registry.spec("names")])
    with pytest.raises(TreeStartFailed) as caught:
        async with otpy.start(late, hooks=()):
            pass
    assert isinstance(caught.value.__cause__, NotRunning)


async def test_a_path_that_leads_to_no_registry_fails_the_start(root: Supervisor) -> None:
    """The error comes before any code of the child runs."""
    await root.start_child(ChildSpec("other", forever))
    with pytest.raises(StartFailed, match="was not made by"):
        await root.start_child(ChildSpec("a", forever, register=Via("app/other", "ann")))


async def test_a_registry_of_duplicate_keys_gives_no_names(root: Supervisor) -> None:
    """REG-10: a key that several processes may hold is not a name."""
    await root.start_child(Registry.spec("topics", keys=Keys.DUPLICATE))
    with pytest.raises(StartFailed) as caught:
        await root.start_child(ChildSpec("a", forever, register=Via("app/topics", "ann")))
    assert isinstance(caught.value.__cause__, KeysNotUnique)


async def test_below_a_dynamic_supervisor_it_is_the_same(reports: Recording) -> None:
    """Each life holds the name, from `start_child` on, and no other child can take it."""
    async with otpy.start(tree(DynamicSupervisor.spec("pool")), hooks=[reports]) as root:
        pool = root.child("pool").supervisor
        assert isinstance(pool, DynamicSupervisor)
        first = await pool.start_child(ChildSpec("a", forever, register=ANN))
        assert first is not None
        assert ANN.whereis(root) is first
        with pytest.raises(StartFailed) as caught:
            await pool.start_child(ChildSpec("a", forever, register=ANN))
        assert isinstance(caught.value.__cause__, AlreadyRegistered)
        first.kill()
        await first.wait()
        await settled(root)
        assert (ANN.whereis(root).path, ANN.whereis(root).incarnation) == (first.path, 2)


# --- what is refused, and how it looks ------------------------------------------------------------

WRONG: list[Any] = ["ann", 5, Via, Via(5, "ann"), Via("app/names", None), Via("app/names", [])]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_name_is_refused_where_it_is_written(wrong: Any) -> None:
    """The error names the child, the value got and the value wanted."""
    with pytest.raises(InvalidSpec, match=r"ChildSpec 'a': register is .*, wanted Via"):
        ChildSpec("a", forever, register=wrong)


async def test_the_key_of_a_partition_is_no_name() -> None:
    """A partition supervisor registers no process."""
    parts = PartitionSupervisor.spec("parts", ChildSpec("part", Counter), partitions=2)
    async with otpy.start(parts, hooks=()) as root:
        assert isinstance(root, Supervisor)
        with pytest.raises(InvalidSpec, match="register"):
            ChildSpec("a", forever, register=Via(PartitionSupervisor(root), 0))


def test_partitions_share_no_name() -> None:
    """Only one process can hold a name."""
    with pytest.raises(InvalidSpec, match="register of the child"):
        PartitionSupervisor.spec("parts", ChildSpec("part", Counter, register=ANN))


def test_a_drawing_shows_the_name() -> None:
    """The name stands beside the restart type."""
    spec = tree(ChildSpec("a", forever, register=ANN), ChildSpec("b", forever))
    assert spec.render().splitlines()[2:] == [
        "├─ a  permanent, registered as 'ann'",
        "└─ b  permanent",
    ]


def test_a_spec_with_a_name_is_a_value() -> None:
    """The name takes part in comparing, hashing and pickling the spec."""
    spec = ChildSpec("a", forever, register=ANN)
    again = pickle.loads(pickle.dumps(spec))  # noqa: S301 - our own
    assert again == spec
    assert again.register == ANN
    assert hash(again) == hash(spec) != hash(spec.replace(register=None))
    assert spec != spec.replace(register=None)


# --- a name by the path of its registry -----------------------------------------------------------


async def test_a_server_is_called_by_the_path_of_a_registry_and_a_key(root: Supervisor) -> None:
    """Outside of a child the user gives the root; inside, it is the child's own."""
    await root.start_child(TaskSupervisor.spec("tasks"))
    await root.start_child(ChildSpec("a", Counter, (7,), register=ANN))
    assert await Counter.at(ANN, root).call(Get()) == 7

    async def ask() -> int:
        return await Counter.at(ANN).call(Get())

    assert await (await TaskSupervisor.at("app/tasks", root).spawn(ask)) == 7
    with pytest.raises(NotSupervised, match="give root="):
        Counter.at(ANN)
    with pytest.raises(NotSupervised):
        ANN.whereis()
