"""A work list on a real tree, in virtual time: scripted agents and programs, and stores in memory.

Everything else is the product: the tree, the host of runs, the stores' own code and the monitors.
Every step of a database and of a program is one turn of the loop, so that a kill can be put between
any two.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast, final

from attrs import define, field, frozen

import otpy
from otpy.reports import Report
from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.agent.workplace import Workplace
from otpy_agents.completion import to_completion
from otpy_agents.operator.actor import Actor
from otpy_agents.operator.server import OperatorCommand
from otpy_agents.process.orphans import Orphan
from otpy_agents.process.process import ExitStatus
from otpy_agents.run import RetryPolicy
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.sandbox import Job, Running, SandboxLimits
from otpy_agents.sandbox.launch import Launch
from otpy_agents.store import RunStore
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import AssignmentRecord
from otpy_agents.testing import ExitWith, Script, ScriptedSandbox, Step
from otpy_agents.tree import pool
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.commands import TreeCommands
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.pool import MortalPool
from otpy_agents.tree.project import Project
from otpy_agents.worklist.reader import parse
from otpy_monitors import Chore, load_ledger, read_rules

T = TypeVar("T")
Detail: TypeAlias = Mapping[str, str | float | bool | None]

QUICK = RetryPolicy(max_retries=0, crash_restarts=0)


@frozen
class Told:
    """An event of the project."""

    at: float
    name: str
    id: str
    detail: Detail


@define(eq=False)
class FakeWorker:
    """Stands in for `WorkerProcess`: its program is played where the agents play."""

    world: World
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    grace: float
    on_line: Callable[[str], object]
    on_chunk: Callable[[int], object]
    on_pause: Callable[[bool], object]
    pid: int = 0
    create_time: float = 0.0
    status: ExitStatus | None = None
    last_line: str = ""
    paused: bool = False
    left_over: tuple[Orphan, ...] = ()
    began: float = 0.0
    ended: float | None = None
    _running: Running | None = None
    _block: AsyncExitStack = field(factory=AsyncExitStack)
    _killing: asyncio.Future[None] | None = None

    @property
    def id(self) -> str:
        return self.env["OTPY_ASSIGNMENT"]

    @property
    def pgid(self) -> int:
        return self.pid

    @property
    def running(self) -> Running:
        assert self._running is not None
        return self._running

    @property
    def output_bytes(self) -> int:
        return self._running.output_bytes if self._running is not None else 0

    @property
    def quiet(self) -> float:
        return 0.0 if self.paused else self.running.quiet

    async def __aenter__(self) -> Self:
        job = Job(
            run_id="program",
            attempt=1,
            launch=Launch(argv=tuple(self.argv)),
            cwd=self.cwd,
            environment=self.env,
            marker={"OTPY_ASSIGNMENT": self.id},
            limits=SandboxLimits(grace=self.grace),
        )
        played = self.world.sandbox.run(job, on_stdout=self._hear, on_stderr=self._hear)
        self._running = await self._block.enter_async_context(played)
        self.began = asyncio.get_running_loop().time()
        self.pid = self.world.begun(self)
        return self

    def _hear(self, line: str) -> None:
        self.last_line = line
        self.on_line(line)
        self.on_chunk(len(line) + 1)

    async def __aexit__(self, *_: object) -> None:
        await to_completion(self._end())

    async def _end(self) -> None:
        await self.running.stop()
        await self._block.aclose()
        self.status = self.status or ExitStatus(signal="SIGTERM")
        self.ended = asyncio.get_running_loop().time()

    async def wait(self) -> ExitStatus:
        code = (await self.running.wait()).exit_code
        self.status = ExitStatus(signal="SIGKILL") if code == 137 else ExitStatus(code=code)
        return self.status

    def pause(self) -> None:
        self.paused = True
        self.on_pause(True)

    def resume(self) -> None:
        self.paused = False
        self.on_pause(False)

    def kill_group(self) -> None:
        self._killing = asyncio.ensure_future(self.running.kill())


@final
class World:
    """A work list on a real tree with scripted agents and programs.

    Attributes:
        sandbox: The sandbox of its agents and programs.
        lives: Every program that was started, in order.
        told: Every event.
        reports: Every report of the tree.
        records: The final record of each assignment.
        settings: Those of its workplaces.
        project_settings: Those of its projects.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox = ScriptedSandbox()
        self.chores: dict[str, Chore] = {}
        self.rule_file = folder / "rules.yaml"
        self.settings: dict[str, Any] = {
            "policy": QUICK,
            "sandbox": SandboxChoice(name="scripted"),
        }
        self.project_settings: dict[str, Any] = {}
        self.workplace: Workplace
        self.project: Project
        self.ledger: Ledger
        self.forget()

    def forget(self) -> None:
        """Forget everything that was recorded so far."""
        self.sandbox.played.clear()
        self.lives: list[FakeWorker] = []
        self.told: list[Told] = []
        self.reports: list[Report] = []
        self.records: tuple[AssignmentRecord, ...] = ()

    @property
    def pool(self) -> MortalPool:
        return self.project.pool

    # --- what happens -----------------------------------------------------------------------------

    @asynccontextmanager
    async def running(
        self, text: str, *, chaos: float = 0.0, **settings: Any
    ) -> AsyncGenerator[otpy.Supervisor]:
        """Run a list as `up` does, without its views; `records` has the final records."""
        work = parse(text, self.folder / "w.toml")
        async with AsyncExitStack() as stack:
            self.ledger = ledger = await stack.enter_async_context(Ledger(work.state))
            await ledger.close_interrupted()
            await ledger.declare({one.id: one.digest for one in work.assignments})
            store = None
            if any(one.agent is not None for one in work.assignments):
                path = self.folder / "state" / "runs.sqlite3"
                store = await stack.enter_async_context(RunStore(path))
            given: dict[str, Any] = {
                "rules": read_rules(self.rule_file) if self.rule_file.exists() else None,
                **self.settings,
                **settings,
            }
            self.workplace = Workplace(
                store,
                sandboxes={"scripted": self.sandbox},
                budget=await load_ledger(BudgetDocument(ledger.agents)),
                **given,
            )
            self.project = Project(
                work,
                ledger,
                await ledger.summary(),
                self.tell,
                agents=await ledger.agents.all(),
                workplace=self.workplace,
                **self.project_settings,
            )
            try:
                tree = app_supervisor(self.project, chaos=chaos)
                async with otpy.start(tree, hooks=[self.reports.append]) as root:
                    yield root
            finally:
                await self.project.write_outcomes()
                self.records = await ledger.summary()

    async def run(self, text: str, **settings: Any) -> dict[str, AssignmentRecord]:
        """Run a list to its end, and return its final records, by id."""
        async with self.running(text, **settings) as root:
            await root.wait()
        return self.known

    @property
    def known(self) -> dict[str, AssignmentRecord]:
        return {record.id: record for record in self.records}

    def tell(self, name: str, id: str, detail: Detail) -> None:
        self.told.append(Told(asyncio.get_running_loop().time(), name, id, detail))

    def chores_of(self, _: Project) -> dict[str, Chore]:
        return self.chores

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        grace: float,
        on_line: Callable[[str], object],
        on_chunk: Callable[[int], object],
        on_pause: Callable[[bool], object],
        record: Path,
    ) -> FakeWorker:
        assert record.name == env["OTPY_ASSIGNMENT"]
        self.sandbox.scripts.setdefault(env["OTPY_ASSIGNMENT"], [program()])
        return FakeWorker(self, argv, cwd, env, grace, on_line, on_chunk, on_pause)

    def begun(self, worker: FakeWorker) -> int:
        """Take a new worker in; two of one assignment are never alive at once."""
        twins = [one for one in self.lives if one.id == worker.id and one.ended is None]
        assert not twins, f"{worker.id} runs twice"
        self.lives.append(worker)
        return 100_000 + len(self.lives)

    # --- what a test asks for ---------------------------------------------------------------------

    def of(self, id: str) -> list[FakeWorker]:
        """Return the lives of an assignment."""
        return [worker for worker in self.lives if worker.id == id]

    def began(self, id: str) -> list[float]:
        """Return the times at which the lives of an assignment began."""
        return [worker.began for worker in self.of(id)]

    def alive(self) -> list[str]:
        return [worker.id for worker in self.lives if worker.ended is None]

    def times(self) -> Counter[str]:
        """Return the number of lives of each assignment."""
        return Counter(worker.id for worker in self.lives)

    def names(self, id: str, prefix: str = "mortal.") -> list[str]:
        """Return the names of the events of one assignment or other thing."""
        return [e.name for e in self.told if e.id == id and e.name.startswith(prefix)]

    def states(self, id: str) -> list[str]:
        """Return the states that an agent went through, without the first."""
        return [str(e.detail["state"]) for e in self.told if e.id == id and e.name == "agent.state"]

    def event(self, name: str) -> Told:
        """Return the one event of a name."""
        (found,) = [e for e in self.told if e.name == name]
        return found

    async def until(self, holds: Callable[[], object], step: float = 0.1) -> None:
        """Let time pass until a condition holds."""
        async with asyncio.timeout(3600):
            while not holds():  # noqa: ASYNC110 - whatever it is, it is seen soon enough
                await asyncio.sleep(step)


def program(*steps: Step, seconds: float = 1.0, code: int = 0, deaf: bool = False) -> Script:
    """Return a program that ends `seconds` after its last step."""
    return Script(*steps, ExitWith(code=code, after=seconds), session=False, deaf=deaf)


def assignment(id: str, **keys: object) -> str:
    """Return an assignment for a program; without jitter in its delays if it says `backoff`."""
    lines = [f'[[assignment]]\nid = "{id}"', *_shown({"argv": ["true"], **keys})]
    return "\n".join(lines) + "\n"


def agent(id: str, **keys: object) -> str:
    """Return an assignment for a scripted agent."""
    own = {"agent": "command", "argv": ["agent"], "prompt": "Do your work."}
    return assignment(id, **{**own, **keys})


def _shown(keys: Mapping[str, object]) -> Iterator[str]:
    for key, value in keys.items():
        shown = f'"{value}"' if isinstance(value, str | Path) else json.dumps(value)
        yield f"{key} = {shown}"


def work(*assignments: str, gang: str = "", **keys: object) -> str:
    """Return a work list."""
    head = "\n".join(f"{key} = {value!r}" for key, value in keys.items())
    return f"[list]\n{head}\n" + "\n".join(assignments) + gang


class Steps(Generic[T]):
    """Awaits a coroutine and calls `then` each time it is suspended, with the number of times."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], then: Callable[[int], object]) -> None:
        self._coroutine = coroutine
        self._then = then

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._coroutine.__await__()
        for number in count(1):
            try:
                awaited = next(steps)
            except StopIteration as stop:
                return cast("T", stop.value)
            self._then(number)
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - it is passed on
                return cast("T", (yield from _thrown(steps, error)))
        raise AssertionError


def _thrown(steps: Any, error: BaseException) -> Generator[Any, Any, Any]:
    """Throw a cancellation into the coroutine and see it to its end."""
    try:
        awaited = steps.throw(error)
    except StopIteration as stop:
        return stop.value
    while True:
        try:
            yield awaited
        except BaseException as another:  # noqa: BLE001 - it is passed on
            return (yield from _thrown(steps, another))
        try:
            awaited = next(steps)
        except StopIteration as stop:
            return stop.value


def path_of(root: otpy.Supervisor, *ids: str) -> otpy.Process:
    """Return the process below `root` at these ids."""
    return root.whereis("/".join((root.path, *ids)))


def dynamic(root: otpy.Supervisor) -> otpy.DynamicSupervisor:
    """Return the supervisor of the mortals."""
    return cast("otpy.DynamicSupervisor", root.child(pool.POOL).supervisor)


async def typed(world: World, name: str, **arguments: str | float) -> object:
    """Give a command as an operator does."""
    handlers = TreeCommands([world.project], Journal(), 0.0).handlers()
    actor = Actor(user="ann", uid=1, pid=2, tty=None)
    return await handlers[name](OperatorCommand(name=name, arguments=arguments, actor=actor))
