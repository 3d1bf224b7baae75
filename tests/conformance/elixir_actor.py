"""Children and tasks for otpy that follow the script of an Elixir scenario."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias, final

import otpy
from otpy import (
    ChildSpec,
    Exit,
    GenServer,
    Ignore,
    Killed,
    Process,
    Registry,
    Restart,
    Shutdown,
    TaskSupervisor,
)
from otpy.errors import AlreadyRegistered, TaskTimeout
from otpy.server import NoReply, Reply
from otpy.signals import ExitSignal
from tests.conformance.actor import Nope, limit, raise_reason
from tests.conformance.actor import word_of as plain_word_of
from tests.conformance.elixir_scenario import Job, partition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otpy import ExitReason
    from otpy.server import Caller
    from tests.conformance.elixir_scenario import Child, Node

Work: TypeAlias = "Callable[[], Awaitable[None]]"
Order: TypeAlias = "str | Work | ExitSignal"
"""What a child is told: the reason to end with, something to do, or an exit signal."""


@final
class World:
    """The names and events of one run.

    Attributes:
        root: The root supervisor, while it runs.
        events: The events, each with its writer.
        nodes: The supervisors and registries of the tree, by name.
        paths: Their paths, by name.
        processes: The latest process of each child and task, by name.
        tasks: Tasks that can be awaited, by name.
        inboxes: The queue of orders for each living child and task, by name.
    """

    def __init__(self) -> None:
        self.root: Any = None
        self.events: list[str] = []
        self.nodes: dict[str, Node] = {}
        self.paths: dict[str, str] = {}
        self.processes: dict[str, Process] = {}
        self.tasks: dict[str, otpy.tasks.Task[str]] = {}
        self.inboxes: dict[str, asyncio.Queue[Order]] = {}
        self._names: dict[str, str] = {}  # the last name at each path
        self._starts: dict[str, int] = {}

    def event(self, who: str, text: str) -> None:
        """Record an event."""
        self.events.append(f"{who}: {text}")

    def know(self, name: str, process: Process) -> None:
        """Let `name` mean `process` from now on."""
        self.processes[name] = process
        self._names[process.path] = name

    def name_at(self, path: str) -> str:
        """Return the name of the present or last process at `path`."""
        return self._names.get(path) or path.rpartition("/")[2]

    def name(self, process: object) -> str:
        """Return the name of `process`."""
        for name, known in self.processes.items():
            if known is process:
                return name
        return self.name_at(process.path) if isinstance(process, Process) else "stranger"

    def place(self, name: str, path: str) -> None:
        """Record the path of a supervisor or a registry."""
        self.paths[name] = path
        self._names[path] = name

    def at(self, name: str) -> Process:
        """Return the process of a supervisor or a registry.

        Raises:
            NotFound: If there is none.
            NotRunning: If it does not run.
        """
        process: Process = self.root.whereis(self.paths[name])
        return process

    def registry(self, name: str) -> Registry:
        """Return the registry of that name."""
        return Registry.of(self.at(name))

    def next_start(self, script: Child) -> str:
        """Return the result of the next start of a child."""
        count = self._starts[script.name] = self._starts.get(script.name, 0) + 1
        return script.starts[count - 1] if count <= len(script.starts) else "s"

    def register(self, where: str) -> None:
        """Register the running process under "registry/key"."""
        if where:
            name, _, key = where.partition("/")
            self.registry(name).register(key, "")


def child_spec(world: World, script: Child) -> ChildSpec:
    """Return the otpy spec of a scripted child."""
    words: dict[str, Any] = {restart.value: restart for restart in Restart}
    restart = words.get(script.restart, script.restart)
    name, shutdown = script.id or script.name, limit(script.shutdown)
    return ChildSpec(name, play, (world, script), restart=restart, shutdown=shutdown)


async def play(world: World, script: Child, *, task_status: Any) -> None:
    """Live one life of a child."""
    name = script.name
    how = world.next_start(script)
    if how == "i":
        world.event(name, "ignore")
        raise Ignore
    try:
        if how not in "sv":
            raise Exit(Shutdown()) if how == "h" else Nope(name)
        world.register(script.registers)
    except (Exit, Nope, AlreadyRegistered):
        world.event(name, "fail")
        raise
    world.know(name, otpy.current())
    world.event(name, "start")
    task_status.started("value" if how == "v" else None)
    await _obey(world, name, script)


async def _obey(world: World, name: str, script: Child | Job) -> str:
    """Follow orders; return when told to return."""
    inbox = world.inboxes[name] = asyncio.Queue()
    listener = asyncio.ensure_future(_listen(inbox)) if script.ends != "silent" else None
    try:
        while True:
            match await inbox.get():
                case "return":
                    return "return"
                case str() as word:
                    end(world, name, word)
                case ExitSignal() if isinstance(script, Job):
                    await _asked(world, name, script)
                case ExitSignal() as signal:
                    who = world.name(signal.process)
                    world.event(name, f"EXIT {who} {word_of(signal.reason)}")
                case work:
                    await work()
    except asyncio.CancelledError:
        if script.ends == "silent" or isinstance(otpy.current().requested, Killed):
            raise
        await _asked(world, name, script)
        raise
    finally:
        if listener is not None:
            listener.cancel()


async def _listen(inbox: asyncio.Queue[Order]) -> None:
    async for signal in otpy.signals.trap_exit():
        inbox.put_nowait(signal)


async def _asked(world: World, name: str, script: Child | Job) -> None:
    world.event(name, "asked")
    await asyncio.sleep(getattr(script, "takes", 0) / 1000)
    if script.ends == "refuses":
        await asyncio.get_running_loop().create_future()
    world.event(name, f"end {script.ends}")
    if script.ends == "normal":
        raise Exit(otpy.Normal())
    raise_reason(script.ends)


def end(world: World, name: str, word: str) -> None:
    """End the running process by itself."""
    world.event(name, f"die {word}")
    if word == "normal":
        raise Exit(otpy.Normal())
    raise_reason(word)


async def work(world: World, job: Job) -> str:
    """Be a task that follows its script."""
    process = otpy.current()
    world.know(job.name, process)
    world.event(job.name, " ".join(["start", *map(world.name, otpy.tasks.callers())]))
    for inner in job.inner:
        supervisor: Any = process.parent
        await (await TaskSupervisor(supervisor).spawn_linked(work, world, inner))
    if job.after:
        await asyncio.sleep(job.after / 1000)
    word = await _obey(world, job.name, job) if job.does == "wait" else job.does
    if word != "return":
        end(world, job.name, word)
    world.event(job.name, "return")
    return job.name


@final
class Counter(GenServer[str, int, tuple[int, int]]):
    """A server that replies with the number of its calls, or with the number it was given."""

    async def init(
        self, world: World, name: str, registers: str, number: int = -1
    ) -> tuple[int, int]:
        """Start counting."""
        self.world = world
        self.name = name if number < 0 else partition(name, number)
        world.register(registers)
        world.know(self.name, otpy.current())
        world.event(self.name, "start")
        return number, 0

    def handle_call(
        self, request: str, caller: Caller[int], state: tuple[int, int]
    ) -> Reply[int, tuple[int, int]]:
        """Count the call."""
        number, calls = state
        return Reply(calls + 1 if number < 0 else number, (number, calls + 1))

    def handle_cast(self, request: str, state: tuple[int, int]) -> NoReply[tuple[int, int]]:
        """Record the cast."""
        self.world.event(self.name, f"got {request}")
        return NoReply(state)


def word_of(reason: ExitReason) -> str:
    """Return the word for an exit reason."""
    error = getattr(reason, "error", None)
    return "timeout" if isinstance(error, TaskTimeout) else plain_word_of(reason)
