"""`MonitorSupervisor`: the four daemons, one_for_one, because they share nothing (C-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy import Backoff, ChildSpec, InvalidSpec, SupervisorSpec
from otpy_monitors.board_health import health_monitor
from otpy_monitors.board_violation import violation_monitor
from otpy_monitors.budget import budget_monitor
from otpy_monitors.health import watch_health
from otpy_monitors.hygiene import EVERY, cleanup_spec, hygiene_supervisor
from otpy_monitors.rules import RuleBook
from otpy_monitors.violation import INBOX, watch_violations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otpy_monitors.board import Board
    from otpy_monitors.budget import Spent
    from otpy_monitors.feed import Feed
    from otpy_monitors.findings import FindingHook, Rule
    from otpy_monitors.health import LoopWatch
    from otpy_monitors.hygiene import Chore


def monitor_supervisor(
    board: Board,
    report: FindingHook,
    *,
    spent: Callable[[], Spent],
    max_seconds: float | None = None,
    max_output_bytes: int | None = None,
    rules: Sequence[Rule] | RuleBook = (),
    chores: Mapping[str, Chore],
    every: float = EVERY,
    feed: Feed | None = None,
    loop_watch: LoopWatch | None = None,
) -> SupervisorSpec:
    """Return the spec of the branch of monitors (TREE-42).

    Every daemon is permanent and may be killed at any moment: workers do not notice, and the next
    incarnation looks at the board, or the feed, afresh. They report, and act on nothing (TREE-48).
    Their restarts are delayed a little and counted widely, so that a broken monitor is seen in the
    log long before its supervisor gives up.

    With a feed, health and violations are judged by what is told there from this call on, and the
    board serves the budget alone.

    Args:
        board: Where workers can be seen.
        report: Gets every finding.
        spent: Returns what all workers together have used.
        max_seconds: Budget of working time of all together, in seconds.
        max_output_bytes: Budget of output of all together.
        rules: Violation rules, in order; a `RuleBook` with a feed, a sequence of `Rule` without.
        chores: Of the hygiene daemon, by name, in order.
        every: Seconds between two rounds of chores.
        feed: Where agents are heard; None for workers that are only seen on the board.
        loop_watch: What tells the health monitor of steps that block the loop; needs a feed.

    Raises:
        InvalidSpec: If the rules are not those that the board, or the feed, calls for, or there is
            a `loop_watch` without a feed.
    """
    pause = Backoff.exponential(0.5, max=30.0, reset_after=60.0)
    budgets = {"spent": spent, "max_seconds": max_seconds, "max_output_bytes": max_output_bytes}
    if feed is None:
        if isinstance(rules, RuleBook) or loop_watch is not None:
            msg = "MonitorSupervisor: feed is None, wanted one, for the rule book or the loop watch"
            raise InvalidSpec(msg)
        health = ChildSpec("HealthMonitor", health_monitor, (board, report), backoff=pause)
        violation = ChildSpec(
            "ViolationMonitor",
            violation_monitor,
            (board, report),
            {"rules": tuple(rules)},
            backoff=pause,
        )
    else:
        feed.inbox(INBOX)  # what agents do before the daemon has started waits for it there
        health = ChildSpec(
            "HealthMonitor", watch_health, (feed, report), {"loop_watch": loop_watch}, backoff=pause
        )
        violation = ChildSpec(
            "ViolationMonitor",
            watch_violations,
            (feed, report),
            {"book": _book(rules)},
            backoff=pause,
        )
    return SupervisorSpec(
        "MonitorSupervisor",
        [
            health,
            ChildSpec("BudgetMonitor", budget_monitor, (board, report), budgets, backoff=pause),
            hygiene_supervisor([cleanup_spec(chores, report, every=every)]),
            violation,
        ],
        intensity=10,
        period=300,
    )


def _book(rules: Sequence[Rule] | RuleBook) -> RuleBook:
    if isinstance(rules, RuleBook):
        return rules
    if rules:
        msg = f"MonitorSupervisor: rules is {rules!r}, wanted a RuleBook, because there is a feed"
        raise InvalidSpec(msg)
    return RuleBook(())
