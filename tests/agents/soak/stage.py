"""Where the agents of a soak play: a scripted sandbox that keeps books, and has bad times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar, final

from otpy_agents.errors import SandboxUnavailable
from otpy_agents.sandbox import Identity, Job, LeftOver, Listener, Running
from otpy_agents.testing import Played, ScriptedSandbox
from tests.agents.soak.plans import Plan

__all__ = ["Stage"]


@final
class Stage:
    """A scripted sandbox.

    Args:
        plans: What its agents do.

    Attributes:
        scripted: The sandbox itself.
        refusing: Whether nothing can be started at present.
        refused: How often something was not started.
        twins: Agents that were begun while they were at work already.
        answers: What agents have answered, in order, with their names.
        tokens: What each agent has told that it spent, each reading of an attempt once.
    """

    name: ClassVar[str] = "scripted"
    inherits: ClassVar[bool] = False

    def __init__(self, plans: Iterable[Plan]) -> None:
        self.scripted = ScriptedSandbox({plan.id: plan for plan in plans})
        self.refusing = False
        self.refused = 0
        self.twins: list[str] = []
        self.answers: list[tuple[str, str]] = []
        self.tokens: Counter[str] = Counter()

    @property
    def alive(self) -> tuple[Played, ...]:
        """The attempts that run now."""
        return self.scripted.alive

    async def check(self) -> None:
        """Refuse in bad times.

        Raises:
            SandboxUnavailable: Nothing can be started at present.
        """
        await self.scripted.check()
        self._may_start()

    def _may_start(self) -> None:
        if self.refusing:
            self.refused += 1
            raise SandboxUnavailable(self.name, "it has a bad time")

    @asynccontextmanager
    async def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        """Play the next script of the agent, and keep books."""
        self._may_start()
        agent = {**job.environment, **job.launch.environment}["OTPY_ASSIGNMENT"]
        last = 0

        def hear(line: str) -> None:
            nonlocal last
            said = json.loads(line)
            if said["type"] == "usage":
                reading = said["input"] + said["output"]
                self.tokens[agent] += reading - last
                last = reading
            if said["type"] == "result":
                self.answers.append((agent, said["text"]))
            on_stdout(line)

        if any(one.agent == agent for one in self.alive):
            self.twins.append(agent)
        async with self.scripted.run(job, on_stdout=hear, on_stderr=on_stderr) as running:
            yield running

    @asynccontextmanager
    async def adopt(
        self, identity: Identity, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        """Refuse."""
        adopted = self.scripted.adopt(identity, job, on_stdout=on_stdout, on_stderr=on_stderr)
        async with adopted as running:
            yield running

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        """Return what plays with that marker."""
        return await self.scripted.find(marker)

    async def clear(
        self, marker: Mapping[str, str], recorded: Iterable[Identity] = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        """End what plays with that marker."""
        return await self.scripted.clear(marker, recorded, grace=grace)
