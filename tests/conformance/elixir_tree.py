"""The tree of an Elixir scenario, for otpy: its specs, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from otpy import (
    ChildSpec,
    DynamicSupervisor,
    PartitionSupervisor,
    Registry,
    Strategy,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy.registry import Keys, Registered
from otpy.snapshot import RESTARTING
from tests.conformance.elixir_actor import Counter, child_spec
from tests.conformance.elixir_scenario import (
    Child,
    Dynamic,
    Names,
    Partitions,
    Server,
    Sup,
    Tasks,
    partition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otpy import Process
    from otpy.registry import Unregistered
    from tests.conformance.elixir_actor import World
    from tests.conformance.elixir_scenario import Node

PERIOD = 1000.0  # seconds: the supervisor forgets no restart


def spec(world: World, node: Node, above: str = "") -> Any:
    """Return the otpy spec of `node`, to be started below the path `above`."""
    path = f"{above}/{node.name}" if above else node.name
    if not isinstance(node, Child | Server):
        world.nodes[node.name] = node
        world.place(node.name, path)
    match node:
        case Child():
            return child_spec(world, node)
        case Server():
            return ChildSpec(node.name, Counter, (world, node.name, node.registers))
        case Sup():
            children = [spec(world, child, path) for child in node.children]
            strategy = Strategy(node.strategy)
            return SupervisorSpec(node.name, children, strategy=strategy, **_options(node))
        case Dynamic():
            return DynamicSupervisor.spec(node.name, **_options(node))
        case Tasks():
            return TaskSupervisor.spec(node.name, **_options(node))
        case Partitions():
            return _partitions(world, node, path)
        case Names():
            listeners = [_listener(world, node.listener)] if node.listener else []
            return Registry.spec(node.name, keys=Keys(node.keys), listeners=listeners)


def _options(node: Sup | Dynamic | Tasks) -> dict[str, Any]:
    options = {"intensity": node.max_restarts, "max_children": getattr(node, "max_children", -1)}
    return {"period": PERIOD, **{key: value for key, value in options.items() if value >= 0}}


def _partitions(world: World, node: Partitions, path: str) -> SupervisorSpec:
    child = node.child
    count = None if node.count < 0 else node.count
    arguments: Callable[[tuple[Any, ...], int], Iterable[Any]] | None = None
    one: Any
    match child:
        case Server():
            one = ChildSpec(child.name, Counter, (world, node.name, ""))
            arguments = _numbered
        case Child():
            one = child_spec(world, child)

            def named(args: tuple[Any, ...], index: int) -> Iterable[Any]:
                return world, evolve(child, name=partition(node.name, index))

            arguments = named
        case Dynamic():
            one = DynamicSupervisor.spec(child.name, **_options(child))
    found = PartitionSupervisor.spec(
        node.name, one, partitions=count, with_arguments=arguments, period=PERIOD
    )
    if isinstance(child, Dynamic):
        for index in range(len(found.children)):
            world.nodes[partition(node.name, index)] = child
            world.place(partition(node.name, index), f"{path}/{index}")
    return found


def _numbered(args: tuple[Any, ...], index: int) -> Iterable[Any]:
    return *args, index


def _listener(world: World, name: str) -> Callable[[Registered | Unregistered], None]:
    def hear(news: Registered | Unregistered) -> None:
        what = "register" if isinstance(news, Registered) else "unregister"
        value = f" {news.value}" if isinstance(news, Registered) else ""
        registry, who = world.name_at(news.registry), world.name(news.process)
        world.event(name, f"hears {what} {registry} {news.key} {who}{value}")

    return hear


async def table(world: World, name: str) -> str | None:
    """Return the contents of the supervisor or registry `name`; None if it does not run."""
    if name == world.root.path:
        found: Any = None if world.root.ended else world.root
    else:
        found = _running(world, name)
    if found is None:
        return None
    if isinstance(world.nodes[name], Names):
        entries = Registry.of(found).select()
        rows = [f"{entry.key}={world.name(entry.process)}:{entry.value}" for entry in entries]
        return f"{name}: {' '.join(sorted(rows))}"
    supervisor = found if found is world.root else found.supervisor
    return f"{name}: {await which(world, supervisor)} ({await count(supervisor)})"


def _running(world: World, name: str) -> Process | None:
    process: Any = world.root
    for part in world.paths[name].split("/")[1:]:
        supervisor = getattr(process, "supervisor", process)
        infos = {child.id: child for child in supervisor.snapshot().children}
        if part not in infos or infos[part].state != "running":
            return None
        process = supervisor.child(part)
    found: Process = process
    return found


async def which(world: World, supervisor: Any) -> str:
    """Return the children of a supervisor; those of a dynamic one have no order."""
    rows = await supervisor.which_children()
    if hasattr(supervisor, "delete_child"):
        return " ".join(f"{row.id}={_state(row.process)}" for row in rows)
    names = (_state(r.process) if r.process is RESTARTING else world.name(r.process) for r in rows)
    return " ".join(sorted(names))


def _state(process: object) -> str:
    if process is None:
        return "undefined"
    return "restarting" if process is RESTARTING else "up"


async def count(supervisor: Any) -> str:
    """Return the counts of a supervisor's children."""
    counts = await supervisor.count_children()
    return f"{counts.specs}/{counts.active}/{counts.supervisors}/{counts.workers}"
