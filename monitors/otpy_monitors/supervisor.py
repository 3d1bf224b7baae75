"""`MonitorSupervisor`: the four daemons, one_for_one, because they share nothing (C-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy import Backoff, ChildSpec, SupervisorSpec
from otpy_monitors.budget import budget_monitor
from otpy_monitors.health import health_monitor
from otpy_monitors.hygiene import EVERY, cleanup_spec, hygiene_supervisor
from otpy_monitors.violation import violation_monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otpy_monitors.board import Board
    from otpy_monitors.budget import Spent
    from otpy_monitors.findings import FindingHook, Rule
    from otpy_monitors.hygiene import Chore


def monitor_supervisor(
    board: Board,
    report: FindingHook,
    *,
    spent: Callable[[], Spent],
    max_seconds: float | None = None,
    max_output_bytes: int | None = None,
    rules: Sequence[Rule] = (),
    chores: Mapping[str, Chore],
    every: float = EVERY,
) -> SupervisorSpec:
    """Return the spec of the branch of monitors (TREE-42).

    Every daemon is permanent and may be killed at any moment: workers do not notice, and the next
    incarnation looks at the board afresh. They report, and act on nothing (TREE-48). Their restarts
    are delayed a little and counted widely, so that a broken monitor is seen in the log long before
    its supervisor gives up.

    Args:
        board: Where workers can be seen.
        report: Gets every finding.
        spent: Returns what all workers together have used.
        max_seconds: Budget of working time of all together, in seconds.
        max_output_bytes: Budget of output of all together.
        rules: Violation rules, in order.
        chores: Of the hygiene daemon, by name, in order.
        every: Seconds between two rounds of chores.
    """
    pause = Backoff.exponential(0.5, max=30.0, reset_after=60.0)
    budgets = {"spent": spent, "max_seconds": max_seconds, "max_output_bytes": max_output_bytes}
    return SupervisorSpec(
        "MonitorSupervisor",
        [
            ChildSpec("HealthMonitor", health_monitor, (board, report), backoff=pause),
            ChildSpec("BudgetMonitor", budget_monitor, (board, report), budgets, backoff=pause),
            hygiene_supervisor([cleanup_spec(chores, report, every=every)]),
            ChildSpec(
                "ViolationMonitor",
                violation_monitor,
                (board, report),
                {"rules": tuple(rules)},
                backoff=pause,
            ),
        ],
        intensity=10,
        period=300,
    )
