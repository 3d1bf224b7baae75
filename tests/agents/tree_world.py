"""A world for the tree in virtual time: scripted workers, and a ledger whose SQLite has no thread.

Everything else is the product: the tree, the ledger's own code and the monitors. Every step of the
database and of a worker is one turn of the loop, so that a kill can be put between any two.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast, final

from attrs import define, frozen

import otpy
from otpy.reports import Report
from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.agent.workplace import Workplace
from otpy_agents.completion import to_completion
from otpy_agents.errors import SpawnFailed
from otpy_agents.process.orphans import Orphan
from otpy_agents.process.process import ExitStatus
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import AssignmentRecord
from otpy_agents.tree import pool
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.project import Project
from otpy_agents.worklist.reader import parse
from otpy_monitors import Chore, load_ledger, read_rules

T = TypeVar("T")
Detail: TypeAlias = Mapping[str, str | float | bool | None]


@frozen(kw_only=True)
class Life:
    """What one worker does: print lines at their seconds, then end, unless it is ended before.

    `dies_in` is how long it takes to end when asked; its grace bounds that.
    """

    seconds: float = 1.0
    code: int = 0
    prints: tuple[tuple[float, str], ...] = ()
    dies_in: float = 0.0
    spawn_fails: bool = False


@frozen
class Told:
    """An event of the project."""

    at: float
    name: str
    id: str
    detail: Detail


@define(eq=False)
class FakeWorker:
    """Stands in for `WorkerProcess`."""

    world: World
    life: Life
    argv: Sequence[str]
    env: Mapping[str, str]
    grace: float
    on_line: Callable[[str], object]
    on_chunk: Callable[[int], object]
    on_pause: Callable[[bool], object]
    pid: int = 0
    create_time: float = 0.0
    status: ExitStatus | None = None
    output_bytes: int = 0
    last_line: str = ""
    paused: bool = False
    left_over: tuple[Orphan, ...] = ()
    began: float = 0.0
    ended: float | None = None
    heard: float = 0.0
    play: asyncio.Task[ExitStatus] | None = None

    @property
    def id(self) -> str:
        return self.env["OTPY_ASSIGNMENT"]

    @property
    def pgid(self) -> int:
        return self.pid

    @property
    def quiet(self) -> float:
        return 0.0 if self.paused else asyncio.get_running_loop().time() - self.heard

    async def __aenter__(self) -> Self:
        await to_completion(asyncio.sleep(0))
        if self.life.spawn_fails:
            raise SpawnFailed(self.argv[0], "no room")
        self.began = self.heard = asyncio.get_running_loop().time()
        self.pid = self.world.begun(self)
        self.play = asyncio.create_task(self._play())
        return self

    async def __aexit__(self, *_: object) -> None:
        await to_completion(self._end())

    async def wait(self) -> ExitStatus:
        assert self.play is not None
        self.status = status = await asyncio.shield(self.play)
        return status

    def pause(self) -> None:
        self.paused = True
        self.on_pause(True)

    def resume(self) -> None:
        self.paused = False
        self.on_pause(False)

    def kill_group(self) -> None:
        assert self.play is not None
        self.play.cancel()

    async def _play(self) -> ExitStatus:
        try:
            for at, line in self.life.prints:
                await asyncio.sleep(self.began + at - asyncio.get_running_loop().time())
                self.heard = asyncio.get_running_loop().time()
                self.output_bytes += len(line) + 1
                self.last_line = line
                self.on_line(line)
                self.on_chunk(len(line) + 1)
            await asyncio.sleep(self.began + self.life.seconds - asyncio.get_running_loop().time())
        except asyncio.CancelledError:
            return ExitStatus(signal="SIGKILL")
        return ExitStatus(code=self.life.code)

    async def _end(self) -> None:
        assert self.play is not None
        if not self.play.done():
            await asyncio.sleep(min(self.life.dies_in, self.grace))
            self.play.cancel()
            await asyncio.wait({self.play})
        self.status = self.status or (ExitStatus(signal="SIGTERM"))
        self.ended = asyncio.get_running_loop().time()


@final
class World:
    """A work list on a real tree with scripted workers.

    Attributes:
        script: The lives of each assignment, in order; the last one is repeated.
        lives: Every worker that was started, in order.
        told: Every event.
        reports: Every report of the tree.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script: dict[str, Sequence[Life]] = {}
        self.chores: dict[str, Chore] = {}
        self.rule_file = folder / "rules.yaml"
        self.project: Project
        self.forget()

    def forget(self) -> None:
        """Forget what was seen so far."""
        self.lives: list[FakeWorker] = []
        self.told: list[Told] = []
        self.reports: list[Report] = []
        self.records: tuple[AssignmentRecord, ...] = ()

    # --- what happens -----------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self, text: str, *, chaos: float = 0.0) -> AsyncGenerator[otpy.Supervisor]:
        """Run a list as `up` does, without its views; `records` is what is known in the end."""
        work = parse(text, self.folder / "w.toml")
        async with Ledger(work.state) as ledger:
            await ledger.close_interrupted()
            await ledger.declare({one.id: one.digest for one in work.assignments})
            self.project = Project(
                work,
                ledger,
                await ledger.summary(),
                self.tell,
                agents=await ledger.agents.all(),
                workplace=Workplace(
                    budget=await load_ledger(BudgetDocument(ledger.agents)),
                    rules=read_rules(self.rule_file) if self.rule_file.exists() else None,
                ),
            )
            try:
                async with otpy.start(
                    app_supervisor(self.project, chaos=chaos), hooks=[self.reports.append]
                ) as root:
                    yield root
            finally:
                await self.project.write_outcomes()
                self.records = await ledger.summary()

    async def run(self, text: str) -> dict[str, AssignmentRecord]:
        """Run a list to its end and return what is known of it, by id."""
        async with self.running(text) as root:
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
        lives = self.script.get(env["OTPY_ASSIGNMENT"], [Life()])
        number = sum(worker.id == env["OTPY_ASSIGNMENT"] for worker in self.lives)
        life = lives[min(number, len(lives) - 1)]
        return FakeWorker(self, life, argv, env, grace, on_line, on_chunk, on_pause)

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
        """Return when the lives of an assignment began."""
        return [worker.began for worker in self.of(id)]

    def alive(self) -> list[str]:
        return [worker.id for worker in self.lives if worker.ended is None]

    def times(self) -> Counter[str]:
        """Return how often each assignment was begun."""
        return Counter(worker.id for worker in self.lives)

    def names(self, id: str, prefix: str = "mortal.") -> list[str]:
        """Return the names of the events of one assignment or other thing."""
        return [e.name for e in self.told if e.id == id and e.name.startswith(prefix)]

    def event(self, name: str) -> Told:
        """Return the one event of a name."""
        (found,) = [e for e in self.told if e.name == name]
        return found


def assignment(id: str, **keys: object) -> str:
    """Return an assignment for a work list; without jitter in its delays if it says `backoff`."""
    lines = [f'[[assignment]]\nid = "{id}"\nargv = ["true"]']
    for key, value in keys.items():
        shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
        lines.append(f"{key} = {shown}")
    return "\n".join(lines) + "\n"


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
