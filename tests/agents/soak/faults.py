"""The faults of a soak: kills at random times, and kills at the worst moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Final, TypeAlias, final

import otpy
from otpy import OtpyError, Process
from otpy_agents.errors import AgentRefused
from otpy_agents.tree.project import Project
from otpy_monitors import Kind
from tests.agents.soak.stage import Stage

__all__ = ["Faults"]

_Deed: TypeAlias = Callable[[], object]

_ABOVE: Final = (("MortalPool",), ("RunHost",), ("RunHost", "runs"), ("MonitorSupervisor",))
_MONITORS: Final = (
    *("HealthMonitor", "BudgetMonitor", "ViolationMonitor", "LedgerKeeper", "HygieneSupervisor"),
)
_TURNS: Final = 40  # turns of the loop after its event within which a kill strikes
_AIM: Final = 0.02  # share of all events that a kill is aimed at


@final
class Faults:
    """Does harm to the tree of a project, and plays its operator.

    Its deeds are as rare as the tree must bear: Jake may crash ten times an hour, a monitor ten
    times in five minutes, and the branches of the application three times in five seconds.

    Args:
        seed: Of chance.
        project: The project.
        root: Its tree.
        stage: The stage on which its agents play.
        busy: The number of agents at work at once; more of them see more harm.

    Attributes:
        done: The number of deeds of each kind.
    """

    def __init__(
        self, seed: str, project: Project, root: otpy.Supervisor, stage: Stage, busy: int
    ) -> None:
        self.done: Counter[str] = Counter()
        self._seed = seed
        self._aim = Random(f"{seed}/aim")
        self._project, self._root, self._stage = project, root, stage
        self._busy = busy
        self._rested: dict[str, float] = {}

    async def go_on(self) -> None:
        """Do harm until it is cancelled."""
        each = 3600 / self._busy  # seconds between two deeds that strike each agent once an hour
        async with asyncio.TaskGroup() as group:
            for name, seconds, deed in (
                ("mortal killed", each * 4, self._kill_mortal),
                ("task of a run killed", each * 3, self._kill_task),
                ("attempt killed", each * 10, self._kill_attempt),
                ("run killed", each * 12, self._kill_run),
                ("Jake killed", 600.0, self._kill_jake),
                ("monitor killed", 100.0, self._kill_monitor),
                ("branch killed", 1800.0, self._kill_branch),
                ("operator paused one", each * 6, self._pause),
                ("operator warned one", each * 9, self._warn),
            ):
                group.create_task(self._every(name, seconds, deed))
            group.create_task(self._bad_times())

    async def _every(self, name: str, seconds: float, deed: Callable[[Random], object]) -> None:
        chance = Random(f"{self._seed}/{name}")
        while True:
            await asyncio.sleep(chance.expovariate(1 / seconds))
            self._do(name, lambda: deed(chance))

    def _do(self, name: str, deed: _Deed) -> None:
        with contextlib.suppress(OtpyError):  # its target has just ended
            if deed():
                self.done[name] += 1

    async def _bad_times(self) -> None:
        """Let every start fail for some minutes, every now and then."""
        chance = Random(f"{self._seed}/bad times")
        try:
            while True:
                await asyncio.sleep(chance.uniform(600, 3000))
                self._stage.sandbox.unavailable = "it has a bad time"
                await asyncio.sleep(chance.uniform(10, 400))
                self._stage.sandbox.unavailable = ""
        finally:
            self._stage.sandbox.unavailable = ""

    # --- at the worst moment ----------------------------------------------------------------------

    def heard(self, name: str, id: str) -> None:
        """Take an event of an agent; sometimes strike the agent a few turns of the loop later."""
        if self._aim.random() > _AIM or name == "mortal.output":
            return
        deed = self._aim.choice(
            [
                lambda: self._struck(self._project.pool.process(id)),
                lambda: self._struck(self._child_of_run(id, "task")),
                lambda: self._struck(self._child_of_run(id, "attempts")),
                lambda: self._kill_jake(self._aim),
                lambda: self._kill_branch(self._aim),
            ]
        )
        self._later(self._aim.randrange(_TURNS), lambda: self._do(f"aimed at {name}", deed))

    def _later(self, turns: int, deed: _Deed) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, turns - 1, deed)
        else:
            deed()

    # --- deeds: they return whether there was anything to be done ---------------------------------

    def _struck(self, process: Process | None) -> bool:
        if process is not None:
            process.kill()
        return process is not None

    def _at(self, *ids: str) -> Process:
        return self._root.whereis("/".join((self._root.path, *ids)))

    def _may_again(self, name: str, seconds: float) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._rested.get(name, -seconds) < seconds:
            return False
        self._rested[name] = now
        return True

    def _mortals(self) -> list[Process]:
        pool = self._project.pool
        found = (pool.process(name) for name in pool.posts)
        return [process for process in found if process is not None]

    def _kill_mortal(self, chance: Random) -> bool:
        mortals = self._mortals()
        return bool(mortals) and self._struck(chance.choice(mortals))

    def _child_of_run(self, assignment: str, *ids: str) -> Process | None:
        post = self._project.pool.posts.get(assignment)
        if post is None or post.run is None:
            return None
        return self._at("RunHost", "runs", post.run.id, *ids)

    def _any_of_run(self, chance: Random, *ids: str) -> Process | None:
        posts = [post for post in self._project.pool.posts.values() if post.run is not None]
        return self._child_of_run(chance.choice(posts).assignment.id, *ids) if posts else None

    def _kill_task(self, chance: Random) -> bool:
        return self._struck(self._any_of_run(chance, "task"))

    def _kill_attempt(self, chance: Random) -> bool:
        attempts = self._any_of_run(chance, "attempts")
        branch = None if attempts is None else attempts.supervisor
        made = () if branch is None else branch.snapshot().children
        return bool(made) and self._struck(
            self._root.whereis(f"{branch.path}/{made[0].id}" if branch is not None else "")
        )

    def _kill_run(self, chance: Random) -> bool:
        return self._struck(self._any_of_run(chance))

    def _kill_jake(self, chance: Random) -> bool:
        if not self._may_again("Jake", 400):
            return False
        ids = ("JakeSupervisor", "Jake") if chance.random() < 0.8 else ("JakeSupervisor",)
        return self._struck(self._at(*ids))

    def _kill_monitor(self, chance: Random) -> bool:
        if not self._may_again("monitor", 40):
            return False
        return self._struck(self._at("MonitorSupervisor", chance.choice(_MONITORS)))

    def _kill_branch(self, chance: Random) -> bool:
        if not self._may_again("branch", 600):
            return False
        return self._struck(self._at(*chance.choice(_ABOVE)))

    # --- the operator -----------------------------------------------------------------------------

    def _pause(self, chance: Random) -> bool:
        mortals = self._mortals()
        if not mortals:
            return False
        self._project.pool.pause(chance.choice(mortals).id, "a person wants it")
        return True

    def _warn(self, chance: Random) -> bool:
        mortals = self._mortals()
        if not mortals:
            return False
        self._project.pool.warn(chance.choice(mortals).id, "take care")
        return True

    async def attend(self) -> None:
        """Give agents what they wait for, sooner or later, until it is cancelled."""
        chance = Random(f"{self._seed}/operator")
        while True:
            await asyncio.sleep(chance.uniform(20, 300))
            for name in list(self._waiting()):
                with contextlib.suppress(AgentRefused):
                    self._serve(name)

    def _waiting(self) -> Iterator[str]:
        for mortal in self._project.pool.mortals():
            if mortal.paused is not None and mortal.outcome is None:
                yield mortal.name

    def _serve(self, name: str) -> None:
        pool, pause = self._project.pool, self._project.pool.mortal(name).paused
        match pause.by if pause is not None else "":
            case "question":
                pool.answer(name, "The first.")
                self.done["operator answered"] += 1
            case "budget":
                self._project.grant(name, Kind.TOKENS, 10_000)
                self.done["operator granted"] += 1
            case _:
                pool.resume(name)
                self.done["operator resumed"] += 1
