"""The whole tree: `AppSupervisor` over `JakeSupervisor`, `MortalPool`, `MonitorSupervisor`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import otpy
from otpy import ChildSpec, DynamicSupervisor, OtpyError, SupervisorSpec
from otpy.specs import DynamicSpec
from otpy_agents.errors import InvalidTreeSetting
from otpy_agents.process.process import WorkerProcess
from otpy_agents.tree.jake import jake_supervisor
from otpy_agents.tree.monitors import monitors_of
from otpy_agents.tree.pool import POOL, pool_spec

if TYPE_CHECKING:
    from otpy_agents.run.host.handle import RunHandle
    from otpy_agents.tree.project import Project


def app_supervisor(
    project: Project,
    *others: Project,
    chaos: float = 0.0,
    operator: SupervisorSpec | None = None,
) -> SupervisorSpec:
    """Return the spec of the tree in which projects complete their lists (TREE-14, TREE-15).

    Started left to right, stopped right to left: the monitors go first, then the mortals, all at
    once, then Jake, who would begin new ones, and last the host of the runs that they had made.

    Args:
        project: The first project, whose Jake and pool are branches of the application itself.
        others: More projects at the same workplace; each has a branch of its own, in which its own
            Jake and pool are (TREE-24).
        chaos: Workers, and attempts of agents, to be killed at random, per second; 0 for none.
        operator: What listens for an operator; it is the first to be there and the last to go, so
            that one can also see the tree stop.

    Raises:
        InvalidTreeSetting: Two projects have one name, or they are not all at one workplace.
    """
    workplace = project.workplace
    _check(project, others)
    children: list[SupervisorSpec | DynamicSpec | ChildSpec] = []
    if operator is not None:
        children.append(operator)
    if workplace.host is not None:
        children.append(workplace.host.spec())
    children += [
        *(project_supervisor(other) for other in others),
        jake_supervisor(project),
        pool_spec(),
        monitors_of(workplace, (project, *others)),
    ]
    if chaos > 0:
        children.append(ChildSpec("Chaos", rampage, ((project, *others), chaos)))
    return SupervisorSpec("AppSupervisor", children)


def project_supervisor(project: Project) -> SupervisorSpec:
    """Return the branch of one more project: its own Jake, its own pool, one for one."""
    return SupervisorSpec(project.key, [jake_supervisor(project), pool_spec()])


def _check(project: Project, others: Sequence[Project]) -> None:
    names = [one.key for one in (project, *others)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidTreeSetting("projects", f"{name!r} twice", "one name each")
    if any(one.workplace is not project.workplace for one in others):
        raise InvalidTreeSetting("projects", "several workplaces", "one for all of them")


async def rampage(projects: Sequence[Project], rate: float) -> None:
    """Kill something that works for a project `rate` times a second on average, at random.

    It is a worker, with its whole process group, or the attempt of an agent. What follows is what
    follows from a crash.

    Args:
        projects: The first one's pool is a branch of the root.
        rate: Kills per second; a turn in which nothing runs is lost.
    """
    while True:
        await asyncio.sleep(random.expovariate(rate))
        victims = [*await _workers(projects), *_attempts(projects)]
        if victims:
            random.choice(victims)()


async def _workers(projects: Sequence[Project]) -> list[Callable[[], None]]:
    """Return for each worker what kills it, and tells so."""
    root = otpy.current().root
    found: list[Callable[[], None]] = []
    for number, project in enumerate(projects):
        branch = () if number == 0 else (project.key,)
        try:
            pool = root.whereis("/".join((root.path, *branch, POOL))).supervisor
        except OtpyError:
            continue  # it is between two lives, or its project is given up
        assert isinstance(pool, DynamicSupervisor)  # noqa: S101 - its spec says so
        for child in await pool.which_children():
            process = child.process
            worker = process.value if isinstance(process, otpy.Process) else None
            if isinstance(worker, WorkerProcess) and worker.pid:  # else it has yet to begin
                found.append(partial(_kill_worker, project, child.id, worker))
    return found


def _kill_worker(project: Project, name: str, worker: WorkerProcess) -> None:
    worker.kill_group()
    project.desk.tell("chaos.killed", name, pid=worker.pid)


def _attempts(projects: Sequence[Project]) -> list[Callable[[], None]]:
    """Return for each run that may have an attempt what kills that, and tells so."""
    host = projects[0].workplace.host
    runs: Iterable[RunHandle] = () if host is None else host.handles.values()
    return [
        partial(_kill_attempt, project, assignment.id, run)
        for run in runs
        for project in projects
        for assignment in project.assignments
        if run.identity is not None and run.order.label == project.desk.memory.label(assignment)
    ]


def _kill_attempt(project: Project, name: str, run: RunHandle) -> None:
    if run.crash_attempt():
        project.desk.tell("chaos.killed", name, run=run.id)
