"""A work list of agents on a real tree, with a real host of runs, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, final

from attrs import frozen

import otpy
from otpy.reports import Report
from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.agent.workplace import Workplace
from otpy_agents.operator.actor import Actor
from otpy_agents.operator.server import OperatorCommand
from otpy_agents.run import RetryPolicy
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.store import RunStore
from otpy_agents.store.ledger import Ledger
from otpy_agents.store.records import AssignmentRecord
from otpy_agents.testing import ScriptedSandbox
from otpy_agents.tree.app import app_supervisor
from otpy_agents.tree.commands import TreeCommands
from otpy_agents.tree.journal import Journal
from otpy_agents.tree.pool import MortalPool
from otpy_agents.tree.project import Project
from otpy_agents.worklist.reader import parse
from otpy_monitors import load_ledger

Detail: TypeAlias = Mapping[str, str | float | bool | None]

QUICK = RetryPolicy(max_retries=0, crash_restarts=0)


@frozen
class Told:
    """An event of the project."""

    at: float
    name: str
    id: str
    detail: Detail


@final
class AgentWorld:
    """Projects of scripted agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox = ScriptedSandbox()
        self.told: list[Told] = []
        self.reports: list[Report] = []
        self.records: tuple[AssignmentRecord, ...] = ()
        self.workplace: Workplace
        self.project: Project
        self.ledger: Ledger
        self.settings: dict[str, Any] = {
            "policy": QUICK,
            "sandbox": SandboxChoice(name="scripted"),
        }
        self.project_settings: dict[str, Any] = {}

    @property
    def pool(self) -> MortalPool:
        return self.project.pool

    @asynccontextmanager
    async def running(
        self, text: str, *, chaos: float = 0.0, **settings: Any
    ) -> AsyncGenerator[otpy.Supervisor]:
        """Run a list as `up` does, without its views; `records` is what is known in the end."""
        work = parse(text, self.folder / "w.toml")
        async with (
            RunStore(self.folder / "state" / "runs.sqlite3") as store,
            Ledger(work.state) as ledger,
        ):
            self.ledger = ledger
            await ledger.close_interrupted()
            await ledger.declare({one.id: one.digest for one in work.assignments})
            self.workplace = Workplace(
                store,
                sandboxes={"scripted": self.sandbox},
                budget=await load_ledger(BudgetDocument(ledger.agents)),
                **{**self.settings, **settings},
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
        """Run a list to its end and return what is known of it, by id."""
        async with self.running(text, **settings) as root:
            await root.wait()
        return self.known

    @property
    def known(self) -> dict[str, AssignmentRecord]:
        return {record.id: record for record in self.records}

    def tell(self, name: str, id: str, detail: Detail) -> None:
        self.told.append(Told(asyncio.get_running_loop().time(), name, id, detail))

    def names(self, id: str, prefix: str = "mortal.") -> list[str]:
        return [one.name for one in self.told if one.id == id and one.name.startswith(prefix)]

    def states(self, id: str) -> list[str]:
        """Return the states an agent went through, the first one not."""
        return [
            str(one.detail["state"])
            for one in self.told
            if one.id == id and one.name == "agent.state"
        ]

    def event(self, name: str) -> Told:
        (found,) = [one for one in self.told if one.name == name]
        return found

    async def until(self, holds: Callable[[], object], step: float = 0.1) -> None:
        """Let time pass until something holds."""
        async with asyncio.timeout(3600):
            while not holds():  # noqa: ASYNC110 - whatever it is, it is seen soon enough
                await asyncio.sleep(step)


def agent(id: str, **keys: object) -> str:
    """Return an assignment for a scripted agent."""
    head = f'[[assignment]]\nid = "{id}"\nagent = "command"\nargv = ["agent"]\n'
    lines = ['prompt = "Do your work."'] if "prompt" not in keys else []
    for key, value in keys.items():
        shown = f'"{value}"' if isinstance(value, str | Path) else str(value).lower()
        lines.append(f"{key} = {shown}")
    return head + "\n".join(lines) + "\n"


async def typed(agents: AgentWorld, name: str, **arguments: str | float) -> object:
    """Give a command as an operator does."""
    handlers = TreeCommands([agents.project], Journal(), 0.0).handlers()
    actor = Actor(user="ann", uid=1, pid=2, tty=None)
    return await handlers[name](OperatorCommand(name=name, arguments=arguments, actor=actor))
