"""The branch of monitors of a workplace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.errors import LedgerUnwritable
from otpy_agents.hygiene.chores import chores_of, chores_of_agents, chores_of_runs
from otpy_agents.hygiene.leftovers import left_over_steps
from otpy_agents.workspace import StepTrees
from otpy_monitors import monitor_supervisor

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from otpy import SupervisorSpec
    from otpy_agents.agent.budgets import Budgets
    from otpy_agents.agent.desk import Desk
    from otpy_agents.agent.memory import Disk
    from otpy_agents.agent.workplace import Workplace
    from otpy_agents.tree.project import Project
    from otpy_monitors import Chore, Finding

__all__ = ["labels_of", "monitors_of", "on_finding", "project_chores"]


def monitors_of(workplace: Workplace, projects: Sequence[Project]) -> SupervisorSpec:
    """Return the spec of `MonitorSupervisor` for projects that work at one place (TREE-42).

    What is spent is kept in the ledger of the first, and a host that comes later goes on with it.
    """
    memory = projects[0].desk.memory
    workplace.budgets.store = document = BudgetDocument(memory.ledger.agents)
    return monitor_supervisor(
        workplace.feed,
        partial(on_finding, projects),
        rules=workplace.rules,
        bookkeeper=workplace.budgets.bookkeeper,
        ledger_store=_PatientDocument(document, workplace.budgets, memory.disk),
        chores=_chores(workplace, projects),
        dry_run=workplace.hygiene_dry_run,
        watch_loop=workplace.watch_loop,
    )


@final
class _PatientDocument:
    """The same document for its keeper, which waits for the disk as every writer does."""

    def __init__(self, document: BudgetDocument, budgets: Budgets, disk: Disk) -> None:
        self._document = document
        self._budgets = budgets
        self._disk = disk

    async def load(self) -> dict[str, Any] | None:
        """Return the value saved last; None if there is none."""
        return await self._document.load()

    async def save(self, plain: dict[str, Any]) -> None:
        """Save the ledger as soon as the disk takes it; a keeper that ends waits for no disk.

        It is saved as it is then: others may have saved newer numbers than `plain` meanwhile.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            with contextlib.suppress(LedgerUnwritable):
                await self._document.save(plain)
        else:
            await self._disk.until_written(self._budgets.save)


def on_finding(projects: Sequence[Project], finding: Finding) -> None:
    """Hand a finding of a monitor to the project it is about; to the first if about none."""
    mine = [one for one in projects if one.acting.concerns(finding)]
    for project in mine or projects[:1]:
        project.acting.on_finding(finding)


def _chores(workplace: Workplace, projects: Sequence[Project]) -> dict[str, Chore]:
    """Return the chores of all projects, those of others than the first by its name, too."""
    found: dict[str, Chore] = {}
    for project in projects:
        several = f"{project.key}: " if found else ""
        found |= {f"{several}{name}": chore for name, chore in project_chores(project).items()}
    if workplace.store is not None:
        desks = [project.desk for project in projects]
        found |= chores_of_runs(workplace.store, partial(labels_of, desks))
    return found


def project_chores(project: Project) -> dict[str, Chore]:
    """Return the chores of one project by name, in order."""
    work, desk = project.work, project.desk
    memory, keeping, workplace = desk.memory, desk.keeping, desk.workplace
    works = (one.agent for one in work.assignments)
    trees = dict.fromkeys(one.changeset for one in works if one is not None and one.changeset)
    found = chores_of(
        work,
        memory.ledger,
        desk.folders.root,
        {repository.name: keeping.changesets(repository) for repository in trees if repository},
    )
    for repository in filter(None, trees):
        steps = left_over_steps(StepTrees(repository))
        found[f"left-over steps in {repository.name}"] = steps
    if workplace.store is not None:
        found |= chores_of_agents(
            workplace.store,
            memory.ledger.list_id,
            workplace.sandboxes,
            keeping.sessions,
            partial(_agents, desk),
        )
    return found


def _agents(desk: Desk) -> AbstractSet[str]:
    return {desk.account(one.id) for one in desk.memory.listed.values() if one.agent is not None}


async def labels_of(desks: Sequence[Desk]) -> AbstractSet[str]:
    """Return the labels of the runs of all assignments that are not over."""
    found: set[str] = set()
    for desk in desks:
        over = await desk.memory.ledger.finished_ids()
        listed = desk.memory.listed.values()
        found |= {desk.memory.label(one) for one in listed if one.id not in over}
    return found
