"""The branch of monitors of a workplace: agents on the feed, plain programs on the boards."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from otpy import Backoff, ChildSpec, SupervisorSpec, observe
from otpy_agents.hygiene.chores import chores_of, chores_of_runs
from otpy_agents.tree.budgets import BudgetDocument
from otpy_monitors import (
    LoopBlocked,
    budget_monitor,
    cleanup_spec,
    health_monitor,
    hygiene_supervisor,
    keep_ledger,
    violation_monitor,
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
    children: list[ChildSpec | SupervisorSpec] = [
        ChildSpec("HealthMonitor", _health, (workplace, projects), backoff=pause),
        ChildSpec("BudgetMonitor", _budget, (workplace, projects), backoff=pause),
        hygiene_supervisor([_hygiene(workplace, projects)]),
        ChildSpec("ViolationMonitor", _violations, (workplace, projects), backoff=pause),
    ]
    if workplace.host is not None:
        workplace.budgets.store = store = BudgetDocument(projects[0].ledger.agents)
        saver = (workplace.budgets.accounting, store)
        children.append(ChildSpec("LedgerKeeper", keep_ledger, saver, backoff=pause))
    return SupervisorSpec("MonitorSupervisor", children, intensity=10, period=300)


async def _health(workplace: Workplace, projects: Sequence[Project]) -> None:
    """Watch over the health of agents, and of programs."""
    report = workplace.on_finding

    def blocked(fact: observe.LoopBlocked) -> None:
        report(LoopBlocked(fact.path, fact.incarnation, fact.seconds, fact.stack))

    await _together(
        watch_health(workplace.feed, report),
        *([observe.watch_loop(blocked)] if workplace.watch_loop else []),
        *(_programs(project, health_monitor(project.board, report)) for project in projects),
    )


async def _budget(workplace: Workplace, projects: Sequence[Project]) -> None:
    """Watch over the budgets of agents, and of programs."""
    report = workplace.on_finding
    await _together(
        watch_budgets(workplace.budgets.accounting, report),
        *(
            _programs(
                project,
                budget_monitor(
                    project.board,
                    project.acting.on_finding,
                    spent=project.spent,
                    max_seconds=project.work.wall_seconds,
                    max_output_bytes=project.work.output_bytes,
                ),
            )
            for project in projects
        ),
    )


async def _violations(workplace: Workplace, projects: Sequence[Project]) -> None:
    """Watch over what agents and programs must not do."""
    report = workplace.on_finding
    await _together(
        watch_violations(workplace.feed, report, book=workplace.rules),
        *(
            violation_monitor(project.board, report, rules=project.work.rules)
            for project in projects
        ),
    )


async def _programs(project: Project, daemon: Coroutine[Any, Any, None]) -> None:
    """Run a daemon that polls, as soon as there is a plain program to poll for."""
    try:
        await project.has_programs.wait()
        await daemon
    finally:
        daemon.close()


async def _together(*daemons: Coroutine[Any, Any, None]) -> None:
    """Run daemons side by side; all end with the first that fails."""
    async with asyncio.TaskGroup() as group:
        for daemon in daemons:
            group.create_task(daemon)


def _hygiene(workplace: Workplace, projects: Sequence[Project]) -> ChildSpec:
    """Return the spec of the cleanup daemon."""
    found: dict[str, Chore] = {}
    for project in projects:
        several = f"{project.key}: " if found else ""
        found |= {f"{several}{name}": chore for name, chore in chores_of(project).items()}
    if workplace.store is not None:
        found |= chores_of_runs(workplace.store, projects)
    return cleanup_spec(found, workplace.on_finding, dry_run=workplace.hygiene_dry_run)
