"""`MonitorSupervisor`: a child for each daemon, one_for_one, because they share nothing (C-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otpy import Backoff, ChildSpec, InvalidSpec, SupervisorSpec
from otpy_monitors.budget import keep_ledger, watch_budgets
from otpy_monitors.health import watch_blocks, watch_health
from otpy_monitors.hygiene import EVERY, cleanup_spec, hygiene_supervisor
from otpy_monitors.rules import RuleBook
from otpy_monitors.violation import INBOX, watch_violations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otpy_monitors.budget import Bookkeeper, LedgerStore
    from otpy_monitors.feed import Feed
    from otpy_monitors.findings import FindingHook
    from otpy_monitors.hygiene import Chore


def monitor_supervisor(
    feed: Feed,
    report: FindingHook,
    *,
    rules: RuleBook | None = None,
    bookkeeper: Bookkeeper | None = None,
    ledger_store: LedgerStore | None = None,
    chores: Mapping[str, Chore],
    every: float = EVERY,
    dry_run: bool = False,
    watch_loop: bool = False,
) -> SupervisorSpec:
    """Return the spec of the branch of monitors (TREE-42).

    Every daemon is a permanent child and may be killed at any moment: agents do not notice, and the
    next incarnation rereads the feed. They report, and never act (TREE-48). Their
    restarts are delayed a little and counted widely, so that a broken monitor is seen in the log
    long before its supervisor gives up.

    Health and violations are judged by what is told to the feed from this call on.

    Args:
        feed: Where agents are heard.
        report: Gets every finding.
        rules: What agents must not do; None for no rules.
        bookkeeper: What charges the ledger whose budgets are watched; None for no budgets.
        ledger_store: Where that ledger is kept; needs a bookkeeper.
        chores: Of the hygiene daemon, by name, in order.
        every: Seconds between two rounds of chores.
        dry_run: Whether chores only report what they would delete.
        watch_loop: Whether steps that block the event loop are reported, which takes a thread.

    Raises:
        InvalidSpec: There is a `ledger_store` without a bookkeeper.
    """
    feed.inbox(INBOX)  # what agents do before the daemon has started waits for it there
    pause = Backoff.exponential(0.5, max=30.0, reset_after=60.0)
    book = RuleBook(()) if rules is None else rules
    children: list[ChildSpec | SupervisorSpec] = [
        ChildSpec("HealthMonitor", watch_health, (feed, report), backoff=pause)
    ]
    if bookkeeper is not None:
        budgets = ChildSpec("BudgetMonitor", watch_budgets, (bookkeeper, report), backoff=pause)
        children.append(budgets)
        if ledger_store is not None:  # a child of its own: a slow disk must not delay a report
            saved = (bookkeeper, ledger_store)
            children.append(ChildSpec("LedgerKeeper", keep_ledger, saved, backoff=pause))
    elif ledger_store is not None:
        msg = "MonitorSupervisor: bookkeeper is None, wanted one, for the ledger store"
        raise InvalidSpec(msg)
    children += [
        hygiene_supervisor([cleanup_spec(chores, report, every=every, dry_run=dry_run)]),
        ChildSpec(
            "ViolationMonitor", watch_violations, (feed, report), {"book": book}, backoff=pause
        ),
    ]
    if watch_loop:
        children.append(ChildSpec("LoopMonitor", watch_blocks, (report,), backoff=pause))
    return SupervisorSpec("MonitorSupervisor", children, intensity=10, period=300)
