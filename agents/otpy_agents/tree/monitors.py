"""The branch of monitors of a workplace: agents on the feed, plain programs on the boards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from otpy import Backoff, ChildSpec, SupervisorSpec, observe
from otpy_agents.hygiene.chores import chores_of, chores_of_runs
from otpy_agents.tree.budgets import BudgetDocument
from otpy_monitors import (
    LoopBlocked,
    cleanup_spec,
    hygiene_supervisor,
    keep_ledger,
    watch_budgets,
    watch_health,
    watch_violations,
)
from otpy_monitors.violation import INBOX

if TYPE_CHECKING:
    from otpy_agents.tree.project import Project
    from otpy_agents.tree.workplace import Workplace
    from otpy_monitors import Chore

__all__ = ["monitors_of"]


def monitors_of(workplace: Workplace, projects: Sequence[Project]) -> SupervisorSpec:
    """Return the spec of `MonitorSupervisor` for projects that work at one place (TREE-42).

    The four daemons, one_for_one, each permanent; and the saver of the budgets, which a host that
    comes later goes on with.
    """
    workplace.feed.inbox(INBOX)  # what agents do before the daemon has started waits for it there
    pause = Backoff.exponential(0.5, max=30.0, reset_after=60.0)
    report, budgets = workplace.on_finding, workplace.budgets
    children: list[ChildSpec | SupervisorSpec] = [
        ChildSpec("HealthMonitor", watch_health, (workplace.feed, report), backoff=pause),
        ChildSpec("BudgetMonitor", watch_budgets, (budgets.accounting, report), backoff=pause),
        hygiene_supervisor([_hygiene(workplace, projects)]),
        ChildSpec(
            "ViolationMonitor",
            watch_violations,
            (workplace.feed, report),
            {"book": workplace.rules},
            backoff=pause,
        ),
    ]
    budgets.store = BudgetDocument(projects[0].ledger.agents)
    saver = (budgets.accounting, budgets.store)
    children.append(ChildSpec("LedgerKeeper", keep_ledger, saver, backoff=pause))
    if workplace.watch_loop:
        children.append(ChildSpec("LoopMonitor", _watch_loop, (workplace,), backoff=pause))
    return SupervisorSpec("MonitorSupervisor", children, intensity=10, period=300)


async def _watch_loop(workplace: Workplace) -> None:
    """Report steps that block the event loop."""

    def blocked(fact: observe.LoopBlocked) -> None:
        finding = LoopBlocked(fact.path, fact.incarnation, fact.seconds, fact.stack)
        workplace.on_finding(finding)

    await observe.watch_loop(blocked)


def _hygiene(workplace: Workplace, projects: Sequence[Project]) -> ChildSpec:
    """Return the spec of the cleanup daemon."""
    found: dict[str, Chore] = {}
    for project in projects:
        several = f"{project.key}: " if found else ""
        found |= {f"{several}{name}": chore for name, chore in chores_of(project).items()}
    if workplace.store is not None:
        found |= chores_of_runs(workplace.store, projects)
    return cleanup_spec(found, workplace.on_finding, dry_run=workplace.hygiene_dry_run)
