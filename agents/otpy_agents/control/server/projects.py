"""The projects of a host, as a branch of a tree (C-29)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import otpy
from otpy import ChildSpec, DynamicSupervisor, Strategy, Supervisor, SupervisorSpec
from otpy.errors import NotRunning
from otpy_agents.agent.runs import HostedRuns
from otpy_agents.completion import wait_beside
from otpy_agents.control.loop.protocol import EndLoop
from otpy_agents.control.server.performer import Say
from otpy_agents.control.server.project import ControlProject
from otpy_agents.control.server.settings import ControlSettings
from otpy_agents.control.state import InHand
from otpy_agents.control.stores import ControlStore
from otpy_agents.run.host.host import RunHost
from otpy_agents.store import RunStore

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

__all__ = ["ControlProjects", "open_projects"]

_PLANE: Final = "ControlPlane"
_POOL: Final = "Projects"


async def _nobody_is_asked(_: InHand) -> bool:
    return False


@final
class ControlProjects:
    """The projects that a host works on; made by `open_projects`.

    Its branch is `ControlPlane`: the host of runs, `Projects`, which holds a supervisor for each
    project, and `opener`, which starts them, also after a restart of these.
    """

    def __init__(self, runs: RunStore) -> None:
        self._host = RunHost(runs)
        self._runs = HostedRuns(self._host, runs)
        self._projects: list[ControlProject] = []
        self._added = asyncio.Event()
        self._root: asyncio.Future[Supervisor | DynamicSupervisor] = (
            asyncio.get_running_loop().create_future()
        )

    def spec(self) -> SupervisorSpec:
        """Return the branch: for `otpy.start`, or among the `branches` of `open_app`; once."""
        return SupervisorSpec(
            _PLANE,
            [
                self._host.spec(),
                DynamicSupervisor.spec(_POOL),
                ChildSpec("opener", self._open),
            ],
            strategy=Strategy.REST_FOR_ONE,
        )

    def work_on(
        self,
        opens: Callable[[], AbstractAsyncContextManager[ControlStore]],
        settings: ControlSettings,
        *,
        confirm: Callable[[InHand], Awaitable[bool]] = _nobody_is_asked,
        say: Say = lambda _tag, _line: None,
    ) -> ControlProject:
        """Work on a project as soon as the tree runs; `wait` waits for its end.

        Args:
            opens: Opens the store of its state and queue.
            settings: What the operator decides.
            confirm: Asks the operator before a dispatch, in the mode MANUAL; by default he does
                not want it.
            say: Is given a tag and a line for the application log (CTL-49).
        """
        project = ControlProject(opens, self._runs, settings, confirm, say)
        self._projects.append(project)
        self._added.set()
        return project

    async def wait(self, project: ControlProject) -> EndLoop:
        """Wait until the loop of a project has ended, and return how; cancelling disturbs nothing.

        Raises:
            NotRunning: The tree has ended before.
        """
        root = await asyncio.shield(self._root)
        await wait_beside(root, project.over.wait())
        if project.ended is None:
            raise NotRunning(_PLANE)
        return project.ended

    async def _open(self, *, task_status: TaskStatus[None]) -> None:
        """Start each project, and again when the pool has lost its children by a restart."""
        parent = cast("Supervisor", otpy.current().parent)
        if not self._root.done():
            self._root.set_result(otpy.current().root)
        pool = cast("DynamicSupervisor", parent.child(_POOL).supervisor)
        task_status.started()
        begun: set[ControlProject] = set()
        while True:
            self._added.clear()
            for project in [one for one in self._projects if one not in begun]:
                begun.add(project)
                if project.ended is None:
                    await pool.start_child(project.spec())
            await self._added.wait()


@asynccontextmanager
async def open_projects(state: Path) -> AsyncGenerator[ControlProjects]:
    """Open the resources of projects, for the length of a block in which their tree runs.

    Args:
        state: The store of runs; see `RunStore`.

    Raises:
        LedgerError: It cannot be used.
    """
    async with RunStore(state) as runs:
        yield ControlProjects(runs)
