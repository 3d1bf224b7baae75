"""The branch of monitors of a workplace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from otpy_agents.agent.budgets import BudgetDocument
from otpy_agents.hygiene.chores import chores_of, chores_of_runs
from otpy_monitors import monitor_supervisor

if TYPE_CHECKING:
    from otpy import SupervisorSpec
    from otpy_agents.agent.workplace import Workplace
    from otpy_agents.tree.project import Project
    from otpy_monitors import Chore

__all__ = ["monitors_of"]


def monitors_of(workplace: Workplace, projects: Sequence[Project]) -> SupervisorSpec:
    """Return the spec of `MonitorSupervisor` for projects that work at one place (TREE-42).

    What is spent is kept in the ledger of the first, and a host that comes later goes on with it.
    """
    workplace.budgets.store = BudgetDocument(projects[0].ledger.agents)
    return monitor_supervisor(
        workplace.feed,
        workplace.on_finding,
        rules=workplace.rules,
        accounting=workplace.budgets.accounting,
        ledger_store=workplace.budgets.store,
        chores=_chores(workplace, projects),
        dry_run=workplace.hygiene_dry_run,
        watch_loop=workplace.watch_loop,
    )


def _chores(workplace: Workplace, projects: Sequence[Project]) -> dict[str, Chore]:
    """Return the chores of all projects, those of others than the first by its name, too."""
    found: dict[str, Chore] = {}
    for project in projects:
        several = f"{project.key}: " if found else ""
        found |= {f"{several}{name}": chore for name, chore in chores_of(project).items()}
    if workplace.store is not None:
        found |= chores_of_runs(workplace.store, projects)
    return found
