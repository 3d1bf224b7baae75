"""The whole tree: `AppSupervisor` over `JakeSupervisor`, `MortalPool`, `MonitorSupervisor`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import otpy
from otpy import ChildSpec, DynamicSpec, DynamicSupervisor, SupervisorSpec
from otpy_agents.errors import InvalidTreeSetting
from otpy_agents.run.process import WorkerProcess
from otpy_agents.tree.jake import jake_supervisor
from otpy_agents.tree.monitors import monitors_of
from otpy_agents.tree.pool import POOL, pool_spec

if TYPE_CHECKING:
    from otpy_agents.tree.project import Project


def app_supervisor(
    project: Project,
    *others: Project,
    chaos: float = 0.0,
    operator: SupervisorSpec | None = None,
) -> SupervisorSpec:
    """Return the spec of the tree in which projects work their lists off (TREE-14, TREE-15).

    Started left to right, stopped right to left: the monitors go first, then the mortals, all at
    once, then Jake, who would begin new ones, and last the host of the runs that they had made.

    Args:
        project: The first project, whose Jake and pool are branches of the application itself.
        others: More projects at the same workplace; each has a branch of its own, in which its own
            Jake and pool are (TREE-24).
        chaos: Workers to be killed at random, per second; 0 for none.
        operator: What listens for an operator; it is the first to be there and the last to go, so
            that one can also see the tree stop.

    Raises:
        InvalidTreeSetting: Two projects have one name, or they are not all at one workplace.
    """
    workplace, work = project.workplace, project.work
    _check(project, others)
    children: list[SupervisorSpec | DynamicSpec | ChildSpec] = []
    if operator is not None:
        children.append(operator)
    if workplace.host is not None:
        children.append(workplace.host.spec())
    children += [
        *(project_supervisor(other) for other in others),
        jake_supervisor(project),
        pool_spec(work.parallel),
        monitors_of(workplace, (project, *others)),
    ]
    if chaos > 0:
        children.append(ChildSpec("Chaos", rampage, (project, chaos)))
    return SupervisorSpec("AppSupervisor", children)


def project_supervisor(project: Project) -> SupervisorSpec:
    """Return the branch of one more project: its own Jake, its own pool, one for one."""
    return SupervisorSpec(project.key, [jake_supervisor(project), pool_spec(project.work.parallel)])


def _check(project: Project, others: Sequence[Project]) -> None:
    names = [one.key for one in (project, *others)]
    for name in names:
        if names.count(name) > 1:
            raise InvalidTreeSetting("projects", f"{name!r} twice", "one name each")
    if any(one.workplace is not project.workplace for one in others):
        raise InvalidTreeSetting("projects", "several workplaces", "one for all of them")


async def rampage(project: Project, rate: float) -> None:
    """Kill a random worker, with its whole process group, `rate` times a second on average."""
    root = otpy.current().root
    while True:
        await asyncio.sleep(random.expovariate(rate))
        pool = root.child(POOL).supervisor
        assert isinstance(pool, DynamicSupervisor)  # noqa: S101 - its spec says so
        children = await pool.which_children()
        processes = [c.process for c in children if isinstance(c.process, otpy.Process)]
        workers = [p for p in processes if isinstance(p.value, WorkerProcess)]
        if workers:
            victim = random.choice(workers)
            assert isinstance(victim.value, WorkerProcess)  # noqa: S101 - chosen above
            victim.value.kill_group()
            project.tell("chaos.killed", victim.id, pid=victim.value.pid)
