"""A project with real stores and files, whose agents are functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import final

import anyio
from attrs import define, field

from otpy_agents.agent.runs import Run
from otpy_agents.attempt.usage import Usage
from otpy_agents.control import orders
from otpy_agents.control.loop.machine import LoopRules
from otpy_agents.control.server import ControlProject, ControlSettings
from otpy_agents.control.state import ExecutionMode, InHand, ProjectState
from otpy_agents.control.stores import ControlStore, SqliteControl
from otpy_agents.control.stores.place import RedisPlace
from otpy_agents.control.stores.redis import RedisControl
from otpy_agents.control.task import ControlTask
from otpy_agents.run.decide.protocol import AnswerControl, RunControl
from otpy_agents.run.decide.result import AttemptRecord, Cause, Ending, RunResult, StopCause
from otpy_agents.run.host.order import RunOrder

Agent = Callable[[RunOrder], str]


class Killed(BaseException):
    """The host is killed at this point."""


def result(stopped: StopCause | None = None) -> RunResult:
    attempt = AttemptRecord(
        number=1,
        position=0,
        agent_id="claude",
        agent_cli="claude",
        cause=Cause.FIRST,
        resumed=None,
        began=0.0,
        ended=1.0,
        exit_code=0,
        signal=None,
        detail=None,
        stopped=stopped,
        message="",
        session=None,
        usage=Usage(),
    )
    return RunResult(
        ending=Ending.SUCCEEDED if stopped is None else Ending.EXHAUSTED,
        error=None,
        agent_id="claude",
        agent_used="claude",
        attempts=(attempt,),
        artifacts=(),
        session=None,
        resumable=None,
        usage=Usage(),
    )


@final
@define
class DoneRun:
    """A run with a given duration and a known end."""

    id: str
    answer: str
    result: RunResult
    seconds: float = 0.0

    async def wait(self) -> RunResult:
        await asyncio.sleep(self.seconds)
        return self.result

    async def ask(self, control: RunControl) -> AnswerControl:
        self.seconds = 0.0
        return AnswerControl(True, "")


@final
@define
class Agents:
    """Runs that a function answers."""

    agent: Agent
    seconds: Callable[[], float] = lambda: 0.0
    orders: list[RunOrder] = field(factory=list[RunOrder])
    left: dict[str, DoneRun] = field(factory=dict[str, DoneRun])

    async def submit(self, order: RunOrder) -> Run:
        self.orders.append(order)
        return DoneRun(order.label, self.agent(order), result(), self.seconds())

    async def find(self, label: str, last: str = "") -> Run | None:
        return None

    async def over(self, label: str) -> Run | None:
        return self.left.get(label.split("/")[3])


@final
@define
class Site:
    """A folder with a project."""

    folder: Path
    agents: Agents
    name: str = "key"
    port: int = 0
    helper: str = ""
    audits: bool = True
    said: list[str] = field(factory=list[str])

    @property
    def settings(self) -> ControlSettings:
        root = self.folder / "sandbox" / self.name
        return ControlSettings(root=root, rules=LoopRules(helper=self.helper))

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[ControlStore]:
        log, stream = self.folder / "events.sqlite3", f"control/x/{self.name}"
        store: SqliteControl | RedisControl = SqliteControl(log, stream, "here")
        if self.port:
            place = RedisPlace("127.0.0.1", self.port, self.name, queue_name=self.name)
            store = RedisControl(place, log, stream)
        async with store:
            yield store

    async def begin(self, *tasks: ControlTask) -> None:
        async with self.store() as store:
            await orders.init_state(store, ExecutionMode.AUTO, fresh=True, actor="ann")
            goal = orders.Goal("Build it", "demo", goal_completed=True)
            await orders.set_goal(store, goal, actor="ann")
            await orders.enqueue(store, tasks, actor="ann")
            await orders.resume(store, actor="ann")

    async def start(self) -> ControlProject:
        """Let one host work until its loop ends."""

        async def confirm(_: InHand) -> bool:
            return True

        project = ControlProject(
            self.store,
            self.agents,
            self.settings,
            confirm,
            lambda tag, line: self.said.append(line),
        )

        async def dead(_: object) -> None:
            """A killed host does not catch up."""

        killed: Killed | None = None
        async with project.opened(), anyio.create_task_group() as children:
            if self.audits:
                await children.start(project._audit)
            try:
                await project.work()
            except Killed as error:
                killed = error
                project._catch_up = dead  # type: ignore[assignment,method-assign]
            children.cancel_scope.cancel()
        if killed is not None:
            raise killed
        return project

    async def state(self) -> ProjectState:
        async with self.store() as store:
            return await store.load()


def task(name: str, retries: int = 1, **more: object) -> ControlTask:
    fields: dict[str, object] = {
        "task_id": name,
        "intent": f"Add {name}",
        "tool": "claude",
        "instructions": f"Write {name}.py",
        "acceptance_criteria": (f"{name}.py exists",),
        "max_retries": retries,
        **more,
    }
    return ControlTask(**fields)  # type: ignore[arg-type]


def writing(order: RunOrder) -> str:
    """Write the task's file: at once, in the second attempt for `second…`, never for `never…`."""
    name = order.label.split("/")[3]
    tried = order.cwd / f"{name}.tried"
    if not name.startswith("never") and (tried.exists() or not name.startswith("second")):
        (order.cwd / f"{name}.py").touch()
    tried.touch()
    return "Done."
