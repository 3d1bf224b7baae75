"""The operations of a `Do` in an Elixir scenario, on otpy."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

from otpy import InvalidSpec, PartitionSupervisor, Process, Restart, TaskSupervisor
from otpy import current as running
from otpy.errors import (
    AlreadyPresent,
    AlreadyRegistered,
    AlreadyStarted,
    CallFailed,
    ChildRunning,
    KeysNotUnique,
    MaxChildren,
    NotFound,
    NotOwner,
    NotRegistered,
    NotRunning,
    RestartPending,
    StartFailed,
    TaskTimeout,
)
from otpy.registry import Entry, Via
from otpy.tasks import Exited, Ok, OnTimeout, TaskFailed
from tests.conformance.actor import limit, reason
from tests.conformance.elixir_actor import Counter, word_of, work
from tests.conformance.elixir_scenario import Names, Partitions, Tasks
from tests.conformance.elixir_tree import count, spec, which

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy import Registry
    from tests.conformance.elixir_actor import World
    from tests.conformance.elixir_scenario import Do, Job

Where: TypeAlias = "Callable[[Entry], bool]"

REFUSALS: dict[type[Exception], str] = {
    AlreadyPresent: "already_present",
    RestartPending: "restarting",
    ChildRunning: "running",
    InvalidSpec: "invalid",
    KeysNotUnique: "not_unique",
    MaxChildren: "max_children",
    NotFound: "not_found",
    NotOwner: "not_owner",
    NotRegistered: "not_registered",
    NotRunning: "not_running",
}


async def perform(world: World, wanted: Do) -> str:
    """Carry out the operation in the running process, and return the answer."""
    op, on, args = wanted.op, wanted.on, wanted.args
    try:
        if "/" in on:
            return await _via(world, op, on, args)
        if on in world.tasks and on not in world.nodes:
            return await _on_task(world, op, on, args)
        return await _on_node(world, op, on, args)
    except (TaskFailed, TaskTimeout) as failed:
        if op.endswith("!"):
            raise
        if isinstance(failed, TaskTimeout):
            return "timeout"
        return f"exit {word_of(failed.reason)}"
    except StartFailed as failed:
        cause = failed.__cause__
        if isinstance(cause, AlreadyRegistered):
            return f"taken by {world.name(cause.process)}"
        return f"error {type(cause).__name__.lower() if cause else 'shutdown'}"
    except AlreadyStarted as taken:
        return f"taken by {world.name(taken.process)}"
    except AlreadyRegistered as taken:
        return f"taken by {world.name(taken.process)}"
    except CallFailed:
        return "not_running"
    except tuple(REFUSALS) as refusal:
        return REFUSALS[type(refusal)]


async def _on_node(world: World, op: str, on: str, args: tuple[Any, ...]) -> str:
    node = world.nodes.get(on)
    if node is None:
        raise NotRunning(on)
    if isinstance(node, Names):
        return _on_registry(world, op, world.registry(on), args)
    supervisor: Any = world.root if on == world.root.path else world.at(on).supervisor
    if isinstance(node, Tasks) and op in TASK_OPERATIONS:
        found: str = await TASK_OPERATIONS[op](world, TaskSupervisor(supervisor), *args)
        return found
    if isinstance(node, Partitions) and op == "partitions":
        return str(PartitionSupervisor(supervisor).partitions)
    return await _on_supervisor(world, op, supervisor, args)


async def _on_supervisor(world: World, op: str, supervisor: Any, args: tuple[Any, ...]) -> str:
    match op, args:
        case "start", (node,):
            process = await supervisor.start_child(spec(world, node, supervisor.path))
            if process is None:
                return "ignored"
            return f"ok {node.name}" + (f" {process.value}" if process.value == "value" else "")
        case "terminate", (name,):
            process = world.processes.get(name)
            child: str | Process = name
            if process is not None:  # a child that waits for its restart has only its id
                child = process if process.alive and _dynamic(supervisor) else process.id
            await supervisor.terminate_child(child)
        case "restart", (id,):
            process = await supervisor.restart_child(id)
            return "ignored" if process is None else f"ok {world.name(process)}"
        case "delete", (id,):
            await supervisor.delete_child(id)
        case "stop", (word,):
            if supervisor.ended:
                raise NotRunning(supervisor.path)
            await supervisor.stop(reason(word))
        case "which", ():
            return await which(world, supervisor)
        case "count", ():
            return await count(supervisor)
        case _:
            raise AssertionError((op, args))
    return "ok"


def _dynamic(supervisor: Any) -> bool:
    return not hasattr(supervisor, "delete_child")


async def _via(world: World, op: str, on: str, args: tuple[Any, ...]) -> str:
    name, _, key = on.partition("/")
    if isinstance(world.nodes[name], Names):
        via = Via(world.registry(name), key)
    else:
        number = key.removeprefix("-").isdigit()
        partitions = PartitionSupervisor(world.at(name))
        via = Via(partitions, int(key) if number else key)
    match op:
        case "whereis":
            return world.name(via.whereis())
        case "call":
            return str(await Counter.at(via).call("call"))
        case "cast":
            Counter.at(via).cast(args[0])
            return "ok"
        case _:
            return await _on_supervisor(world, op, via.whereis().supervisor, args)


# --- tasks ----------------------------------------------------------------------------------------


async def _async(world: World, tasks: TaskSupervisor, job: Job) -> str:
    task = await tasks.spawn_linked(work, world, job, shutdown=limit(job.shutdown))
    return _started(world, job, task)


async def _async_nolink(world: World, tasks: TaskSupervisor, job: Job) -> str:
    task = await tasks.spawn(work, world, job, shutdown=limit(job.shutdown))
    return _started(world, job, task)


def _started(world: World, job: Job, task: Any) -> str:
    world.tasks[job.name] = task
    world.know(job.name, task.process)
    return f"ok {job.name}"


async def _start_child(world: World, tasks: TaskSupervisor, job: Job) -> str:
    restart, shutdown = Restart(job.restart), limit(job.shutdown)
    process = await tasks.start_child(work, world, job, restart=restart, shutdown=shutdown)
    world.know(job.name, process)
    return f"ok {job.name}"


async def _children(world: World, tasks: TaskSupervisor) -> str:
    return " ".join(sorted(map(world.name, await tasks.children())))


async def _stream(
    world: World,
    tasks: TaskSupervisor,
    link: str,
    jobs: tuple[Job, ...],
    concurrency: int,
    ordered: str,
    timeout: int,
    on_timeout: str,
    take: int,
) -> str:
    async def run(job: Job) -> str:
        return await work(world, job)

    results = tasks.stream(
        run,
        jobs,
        linked=link == "link",
        max_concurrency=None if concurrency < 0 else concurrency,
        ordered=ordered == "ordered",
        timeout=timeout / 1000,
        on_timeout=OnTimeout(on_timeout),
    )
    found: list[str] = []
    async with aclosing(results) as opened:
        async for result in opened:
            found.append(_result(result))
            if len(found) == take:
                break
    return ", ".join(found)


TASK_OPERATIONS: dict[str, Any] = {
    "async": _async,
    "async_nolink": _async_nolink,
    "start_child": _start_child,
    "children": _children,
    "stream": _stream,
    "stream!": _stream,
}


async def _on_task(world: World, op: str, on: str, args: tuple[Any, ...]) -> str:
    task, (timeout,) = world.tasks[on], args
    match op:
        case "await" | "await!":
            return f"ok {await task.result(timeout / 1000)}"
        case "yield":
            return _result(await task.poll(timeout / 1000))
        case "shutdown":
            return _result(await task.shutdown(limit(timeout)))
        case _:
            raise AssertionError(op)


def _result(result: Ok[str] | Exited | None) -> str:
    match result:
        case Ok(value):
            return f"ok {value}"
        case Exited(why):
            return f"exit {word_of(why)}"
        case None:
            return "nothing"


# --- registries -----------------------------------------------------------------------------------


def _on_registry(world: World, op: str, registry: Registry, args: tuple[Any, ...]) -> str:
    match op, args:
        case "register", (key, value):
            registry.register(key, value)
        case "unregister", (key,):
            registry.unregister(key)
        case "unregister_where", (key, where):
            registry.unregister(key, _where(where))
        case "lookup", (key,):
            return _entries(world, registry.lookup(key))
        case "keys", (name,):
            return _listed(registry.keys(world.processes[name]))
        case "values", (key, name):
            return _listed(registry.values(key, world.processes[name]))
        case "number", ():
            return str(registry.count())
        case "match", (key, where):
            return _entries(world, registry.match(key, _where(where)))
        case "select", (where,):
            found = registry.select(_where(where))
            return _listed([f"{entry.key}:{world.name(entry.process)}" for entry in found])
        case "update", (key,):
            return "{} {}".format(*registry.update_value(key, lambda value: value + 1))
        case "dispatch", (key, text):
            registry.dispatch(key, lambda found: _dispatch(world, text, found))
        case "meta", (key,):
            value = registry.meta(key)
            return "nothing" if value is None else f"ok {value}"
        case "put_meta", (key, value):
            registry.put_meta(key, value)
        case "delete_meta", (key,):
            registry.delete_meta(key)
        case _:
            raise AssertionError((op, args))
    return "ok"


def _dispatch(world: World, text: str, found: list[Entry]) -> None:
    world.event(world.name(running()), f"dispatches {len(found)}")
    for entry in found:
        world.event(world.name(entry.process), f"got {text} {entry.value}")


def _where(text: str) -> Where:
    if text == "any":
        return lambda entry: True
    if text.startswith("over"):
        return lambda entry: entry.value > int(text[4:])
    wanted = float(text[2:]) if "." in text else int(text[2:])
    return lambda entry: type(entry.value) is type(wanted) and entry.value == wanted


def _entries(world: World, found: list[Entry]) -> str:
    return _listed([f"{world.name(entry.process)}:{entry.value}" for entry in found])


def _listed(found: list[Any]) -> str:
    return " ".join(sorted(map(str, found)))
