"""A real repository, log and store for an engine whose workers are functions."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, final

from attrs import define, field, frozen

import otpy
from otpy import SupervisorSpec
from otpy_agents.agent.runs import Run
from otpy_agents.attempt.usage import Usage
from otpy_agents.engine.events import EngineEvent
from otpy_agents.engine.orders import Orders
from otpy_agents.engine.server import Engine, EngineSettings, open_engine
from otpy_agents.engine.server.site import engine_log
from otpy_agents.engine.workflow.protocol import EndWorkflow
from otpy_agents.log import EventLog, log_beside
from otpy_agents.run.decide.protocol import AnswerControl, RunControl
from otpy_agents.run.decide.result import Ending, RunResult
from otpy_agents.run.host.order import RunOrder
from otpy_agents.workspace import StepTrees

Agent = Callable[[RunOrder], Awaitable[str]]
T = TypeVar("T")

OUTPUTS = {"implementer": "implementation", "planner": "plan", "reviewer": "review"}
GATES = """gates:
  good:
    command: [sh, -c, "! grep -rq BAD --include=*.txt ."]
"""


def role(output: str = "implementation", *, gates: str = "", more: str = "") -> str:
    """Return the text of a role whose agent is a command."""
    said = f"cli: command\nargv: [{sys.executable}, agent.py]\nsystem_prompt: Work.\n"
    return f"{said}output: {output}\ngates: [{gates}]\n{more}"


def done(*files: str, **more: object) -> str:
    """Return the answer of an implementer that has completed its task."""
    said: dict[str, object] = {
        "status": "completed",
        "files_modified": files,
        "changes": [],
        "next_steps": [],
    }
    return json.dumps({"status": "completed", "files_modified": files, **said, **more})


def result(ending: Ending = Ending.SUCCEEDED, error: str | None = None) -> RunResult:
    """Return the result of a run that made no attempt."""
    return RunResult(
        ending=ending,
        error=error,
        agent_id="command",
        agent_used="command",
        attempts=(),
        artifacts=(),
        session=None,
        resumable=None,
        usage=Usage(),
    )


class AgentFailed(Exception):
    """Raised by an agent to fail its run."""


@final
class AgentRun:
    """A run of a function."""

    def __init__(self, id: str, work: Awaitable[str]) -> None:
        self.id, self.answer = id, ""
        self._task = asyncio.ensure_future(work)

    async def wait(self) -> RunResult:
        await asyncio.wait({self._task})
        if self._task.cancelled():
            return result(Ending.STOPPED, "stopped")
        error = self._task.exception()
        if isinstance(error, AgentFailed):
            return result(Ending.EXHAUSTED, str(error))
        self.answer = self._task.result()
        return result()

    async def ask(self, control: RunControl) -> AnswerControl:
        self._task.cancel()
        return AnswerControl(True, "")


@final
@define
class Agents:
    """Makes runs of a function."""

    agent: Agent
    orders: list[RunOrder] = field(factory=list[RunOrder])

    async def submit(self, order: RunOrder) -> Run:
        self.orders.append(order)
        return AgentRun(order.label, self.agent(order))

    async def find(self, label: str, last: str = "") -> Run | None:
        return None

    async def over(self, label: str) -> Run | None:
        return None


def writing(text: str = "good\n", name: str = "new.txt") -> Agent:
    """Return an agent that writes a file."""

    async def agent(order: RunOrder) -> str:
        (order.cwd / name).write_text(text, encoding="utf-8")
        return done(name)

    return agent


@final
@frozen
class EngineSite:
    """A folder with a repository and a state folder.

    Attributes:
        folder: The folder.
        told: Events that engines in this process have told.
        notes: Other lines from those engines.
    """

    folder: Path
    told: list[EngineEvent] = field(factory=list[EngineEvent])
    notes: list[str] = field(factory=list[str])

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    @property
    def state(self) -> Path:
        return self.folder / "state" / "runs.sqlite3"

    @property
    def settings(self) -> EngineSettings:
        return EngineSettings(
            repository=self.repository,
            state=self.state,
            sandbox="process",
            listen=self.told.append,
            note=self.notes.append,
        )

    # --- the repository ---------------------------------------------------------------------------

    def git(self, *args: str) -> str:
        """Run git as a person does."""
        people = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
        done = subprocess.run(
            ["git", *people, *args],
            cwd=self.repository,
            env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def make(self, supervisor: Mapping[str, str] | None = None, *, gates: str = "good") -> None:
        """Make the repository, with one commit; `supervisor` has files of `.supervisor`."""
        roles = {
            f"roles/{name}.yaml": role(output, gates=gates if name == "implementer" else "")
            for name, output in OUTPUTS.items()
        }
        texts = {
            "gates.yaml": GATES,
            ".gitignore": "circuits.json\n",
            **roles,
            **(supervisor or {}),
        }
        self.state.parent.mkdir(parents=True)
        for name, text in texts.items():
            path = self.repository / ".supervisor" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (self.repository / "old.txt").write_text("old\n", encoding="utf-8")
        (self.repository / ".gitignore").write_text(".worktrees/\n", encoding="utf-8")
        self.git("init", "-q", "-b", "main")
        self.commit("Begin")

    def commit(self, message: str) -> None:
        """Commit all changes."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    @property
    def subjects(self) -> list[str]:
        """The commits of the branch, newest first."""
        return self.git("log", "--format=%s").splitlines()

    @property
    def status(self) -> str:
        """Git's status of the work tree of the user."""
        return self.git("status", "--porcelain", "--untracked-files=all")

    @property
    def trees(self) -> list[str]:
        """The names of the work trees in `.worktrees`."""
        folder = self.repository / ".worktrees"
        names = {one.name for one in folder.iterdir()} if folder.exists() else set[str]()
        return sorted(names - {".gitignore"})

    # --- the engine -------------------------------------------------------------------------------

    @asynccontextmanager
    async def engine(self, agent: Agent | Agents | None) -> AsyncGenerator[Engine]:
        """Run an engine in a supervision tree within the block; None for real agents."""
        agents = agent if isinstance(agent, Agents) or agent is None else Agents(agent)
        async with (
            open_engine(self.settings, agents=agents) as engine,
            otpy.start(SupervisorSpec("AppSupervisor", [engine.spec()])),
        ):
            yield engine

    async def run(
        self, agent: Agent | Agents | None, role: str = "implementer", *, rebase: bool = False
    ) -> EndWorkflow:
        """Run one step with a worker of a role."""
        async with self.engine(agent) as engine:
            name = await engine.begin_run(role, "Add it", (), rebase=rebase, actor="ann")
            return await engine.wait(name)

    @asynccontextmanager
    async def log(self) -> AsyncGenerator[EventLog]:
        """Open the log as another program does."""
        async with engine_log(log_beside(self.state)) as log:
            yield log

    @asynccontextmanager
    async def orders(self) -> AsyncGenerator[Orders]:
        """Open the orders of another program."""
        trees = StepTrees(self.repository)
        try:
            async with self.log() as log:
                yield Orders(log, trees, self.repository)
        finally:
            trees.close()

    async def rows(self, table: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the rows of a table of the log."""
        async with self.log() as log:
            return await log.rows(table)

    def of(self, *kinds: type[T]) -> list[T]:
        """Return the told events of some kinds."""
        return [event for event in self.told if isinstance(event, kinds)]

    async def heard(self, kind: type[T]) -> T:
        """Wait for an event of a kind."""
        while not (found := self.of(kind)):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        return found[-1]


def names(events: Iterable[object]) -> list[str]:
    """Return the names of the types of events."""
    return [type(event).__name__ for event in events]
