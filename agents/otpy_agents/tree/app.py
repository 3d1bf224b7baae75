"""The whole tree: `AppSupervisor` over `JakeSupervisor`, `MortalPool`, `MonitorSupervisor`."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import otpy
from otpy import ChildSpec, DynamicSpec, DynamicSupervisor, SupervisorSpec
from otpy_agents.run.process import WorkerProcess
from otpy_agents.tree.chores import chores_of
from otpy_agents.tree.jake import jake_supervisor
from otpy_agents.tree.pool import POOL, pool_spec
from otpy_monitors import monitor_supervisor

if TYPE_CHECKING:
    from otpy_agents.tree.project import Project


def app_supervisor(project: Project, *, chaos: float = 0.0) -> SupervisorSpec:
    """Return the spec of the tree that works a list off (TREE-14).

    Started left to right, stopped right to left: the monitors go first, then the mortals, all at
    once, and Jake, who would begin new ones, last.

    Args:
        project: The run of the list.
        chaos: Workers to be killed at random, per second; 0 for none.
    """
    work = project.work
    children: list[SupervisorSpec | DynamicSpec | ChildSpec] = [
        jake_supervisor(project),
        pool_spec(work.parallel),
        monitor_supervisor(
            project.board,
            project.pool.on_finding,
            spent=project.spent,
            max_seconds=work.wall_seconds,
            max_output_bytes=work.output_bytes,
            rules=work.rules,
            chores=chores_of(project),
        ),
    ]
    if chaos > 0:
        children.append(ChildSpec("Chaos", rampage, (project, chaos)))
    return SupervisorSpec("AppSupervisor", children)


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
