"""`MonitorSupervisor`: the four daemons, one_for_one, because they share nothing (C-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy import Backoff, ChildSpec, InvalidSpec, SupervisorSpec
from otpy_monitors.board_health import health_monitor
from otpy_monitors.board_violation import violation_monitor
from otpy_monitors.budget import Spent, budget_monitor, keep_ledger, watch_budgets
from otpy_monitors.health import watch_health
from otpy_monitors.hygiene import EVERY, cleanup_spec, hygiene_supervisor
from otpy_monitors.rules import RuleBook
from otpy_monitors.violation import INBOX, watch_violations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otpy_monitors.board import Board
    from otpy_monitors.budget import Accounting, LedgerStore
    from otpy_monitors.feed import Feed
    from otpy_monitors.findings import FindingHook, Rule
    from otpy_monitors.health import LoopWatch
    from otpy_monitors.hygiene import Chore


def monitor_supervisor(
    board: Board,
    report: FindingHook,
    *,
    spent: Callable[[], Spent] = Spent,
    max_seconds: float | None = None,
    max_output_bytes: int | None = None,
    rules: Sequence[Rule] | RuleBook = (),
    chores: Mapping[str, Chore],
    every: float = EVERY,
    feed: Feed | None = None,
    loop_watch: LoopWatch | None = None,
    accounting: Accounting | None = None,
    ledger_store: LedgerStore | None = None,
    dry_run: bool = False,
) -> SupervisorSpec:
    """Return the spec of the branch of monitors (TREE-42).

    Every daemon is permanent and may be killed at any moment: workers do not notice, and the next
    incarnation looks at the board, or the feed, afresh. They report, and act on nothing (TREE-48).
    Their restarts are delayed a little and counted widely, so that a broken monitor is seen in the
    log long before its supervisor gives up.

    With a feed, health and violations are judged by what is told there from this call on. With an
    accounting, budgets are those of its ledger. The board serves what is left.

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
        accounting: What charges the ledger whose budgets are watched; None for those above.
        ledger_store: Where that ledger is kept; needs an accounting.
        dry_run: Whether chores only report what they would delete.

    Raises:
        InvalidSpec: If the rules are not those that the board, or the feed, calls for, there is a
            `loop_watch` without a feed, or a `ledger_store` without an accounting.
    """
    pause = Backoff.exponential(0.5, max=30.0, reset_after=60.0)
    if feed is None:
        if isinstance(rules, RuleBook) or loop_watch is not None:
            msg = "MonitorSupervisor: feed is None, wanted one, for the rule book or the loop watch"
            raise InvalidSpec(msg)
        health: ChildSpec = ChildSpec(
            "HealthMonitor", health_monitor, (board, report), backoff=pause
        )
        violation: ChildSpec = ChildSpec(
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
    if accounting is None:
        if ledger_store is not None:
            msg = "MonitorSupervisor: accounting is None, wanted one, for the ledger store"
            raise InvalidSpec(msg)
        limits = {"max_seconds": max_seconds, "max_output_bytes": max_output_bytes}
        budgets = [
            ChildSpec(
                "BudgetMonitor",
                budget_monitor,
                (board, report),
                {"spent": spent, **limits},
                backoff=pause,
            )
        ]
    else:
        budgets = _budgets(accounting, report, ledger_store, pause)
    return SupervisorSpec(
        "MonitorSupervisor",
        [
            health,
            *budgets,
            hygiene_supervisor([cleanup_spec(chores, report, every=every, dry_run=dry_run)]),
            violation,
        ],
        intensity=10,
        period=300,
    )


def _budgets(
    accounting: Accounting, report: FindingHook, store: LedgerStore | None, pause: Backoff
) -> list[ChildSpec]:
    """Return the daemon that reports, and beside it the one that saves, which a disk may delay."""
    monitor = ChildSpec("BudgetMonitor", watch_budgets, (accounting, report), backoff=pause)
    if store is None:
        return [monitor]
    return [monitor, ChildSpec("LedgerKeeper", keep_ledger, (accounting, store), backoff=pause)]


def _book(rules: Sequence[Rule] | RuleBook) -> RuleBook:
    if isinstance(rules, RuleBook):
        return rules
    if rules:
        msg = f"MonitorSupervisor: rules is {rules!r}, wanted a RuleBook, because there is a feed"
        raise InvalidSpec(msg)
    return RuleBook(())
