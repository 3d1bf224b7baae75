"""A host of runs whose attempts are scripted, and all facts about them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, final

from otpy.reports import ReportHook
from otpy_agents.run import AgentInstance, AgentSelection, SelectionMode
from otpy_agents.run.host.facts import Fact, LogLine, RunFact, WaitBegan
from otpy_agents.run.host.host import RunHost, run_host
from otpy_agents.run.host.order import RunOrder, SandboxChoice
from otpy_agents.store import RunStore
from otpy_agents.testing import Script, ScriptedSandbox

__all__ = ["Stage"]

FactT = TypeVar("FactT", bound=RunFact)


@final
class Stage:
    """A folder with a store, a scripted sandbox, and the facts of all runs in order.

    Attributes:
        scripts: The scripts of the next attempts, of any run, or the errors of their starts; the
        last one is repeated.
        most: The highest number of attempts of one run at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox = ScriptedSandbox({"": self._next})
        self.scripts: deque[Script | Exception] = deque()
        self.facts: list[Fact] = []
        self.most = 0

    def _next(self, _: int) -> Script:
        run = self.sandbox.played[-1].run
        self.most = max(self.most, 1 + sum(one.run == run for one in self.sandbox.alive))
        script = self.scripts.popleft() if len(self.scripts) > 1 else self.scripts[0]
        if isinstance(script, Exception):
            raise script
        return script

    @property
    def path(self) -> Path:
        return self.folder / "state" / "runs.sqlite3"

    @asynccontextmanager
    async def host(
        self, *scripts: Script | Exception, hooks: tuple[ReportHook, ...] = (), **settings: Any
    ) -> AsyncGenerator[RunHost]:
        """Run a host for which `scripts` are the next attempts."""
        self.scripts.extend(scripts)
        sandboxes = {"scripted": self.sandbox}
        listeners = (self.facts.append, *settings.pop("listeners", ()))
        async with (
            RunStore(self.path) as store,
            run_host(
                store, listeners=listeners, sandboxes=sandboxes, hooks=hooks, **settings
            ) as host,
        ):
            yield host

    def order(self, *agents: str, **settings: Any) -> RunOrder:
        """Return an order for a chain of agents that are commands of different accounts."""
        names = agents or ("a",)
        selection = AgentSelection(
            agents=tuple(
                AgentInstance(agent_id=name, agent_cli="command", credential=name) for name in names
            ),
            selection_mode=SelectionMode.FALLBACK,
            agent_fallbacks=dict(pairwise(names)),
        )
        settings.setdefault("selection", selection)
        settings.setdefault("sandbox", SandboxChoice(name="scripted"))
        return RunOrder(prompt="do it", cwd=self.folder, argv=("agent",), **settings)

    def told(self, kind: type[FactT]) -> list[FactT]:
        """Return all facts of a kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def log(self) -> list[str]:
        """The lines in the log of all runs."""
        return [fact.text for fact in self.told(LogLine)]

    @property
    def delays(self) -> list[float]:
        """The announced delays between attempts, in seconds."""
        return [round(fact.delay, 3) for fact in self.told(WaitBegan)]

    def events(self, skip: str = r"attempt\.(output|event)|run\.phase") -> list[str]:
        """Return the names of all facts, in order, but for those that match `skip`."""
        return [fact.event for fact in self.facts if not re.fullmatch(skip, fact.event)]


def when(told: Callable[[Fact], bool], do: Callable[[], object]) -> Callable[[Fact], None]:
    """Return a listener that does something at the first fact of a kind."""
    done: list[Fact] = []

    def listen(fact: Fact) -> None:
        if not done and told(fact):
            done.append(fact)
            do()

    return listen
