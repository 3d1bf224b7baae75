"""Daemons that watch workers and report what they see. They never steer (TREE-48).

| you want | you use |
|---|---|
| the whole branch | `monitor_supervisor` |
| to show a worker to it | `Board`, `Vitals` |
| to hear what it finds | `Finding` and the facts it is one of |
| to give budgets | `Ledger`, `Accounting`, `budget_daemon`, `ledger_saver` |
| to have rubbish deleted | `Chore`, `Deletion`, `rotate_logs`, `hygiene_supervisor` |
| one daemon | `health_monitor`, `budget_monitor`, `violation_monitor`, `cleanup_daemon` |
"""

from __future__ import annotations

from otpy_monitors.board import Board as Board
from otpy_monitors.board import Vitals as Vitals
from otpy_monitors.budget import AccountExists as AccountExists
from otpy_monitors.budget import Accounting as Accounting
from otpy_monitors.budget import Balance as Balance
from otpy_monitors.budget import BudgetCorrupt as BudgetCorrupt
from otpy_monitors.budget import BudgetError as BudgetError
from otpy_monitors.budget import BudgetTooNew as BudgetTooNew
from otpy_monitors.budget import Exceeding as Exceeding
from otpy_monitors.budget import InvalidPrices as InvalidPrices
from otpy_monitors.budget import Kind as Kind
from otpy_monitors.budget import Ledger as Ledger
from otpy_monitors.budget import LedgerStore as LedgerStore
from otpy_monitors.budget import Limits as Limits
from otpy_monitors.budget import LimitTooWide as LimitTooWide
from otpy_monitors.budget import NoAccount as NoAccount
from otpy_monitors.budget import NoFreshBudget as NoFreshBudget
from otpy_monitors.budget import NoLimit as NoLimit
from otpy_monitors.budget import OnExceed as OnExceed
from otpy_monitors.budget import Price as Price
from otpy_monitors.budget import Prices as Prices
from otpy_monitors.budget import Spent as Spent
from otpy_monitors.budget import budget_daemon as budget_daemon
from otpy_monitors.budget import budget_monitor as budget_monitor
from otpy_monitors.budget import ledger_saver as ledger_saver
from otpy_monitors.budget import load_ledger as load_ledger
from otpy_monitors.findings import Action as Action
from otpy_monitors.findings import BudgetNearlySpent as BudgetNearlySpent
from otpy_monitors.findings import BudgetSpent as BudgetSpent
from otpy_monitors.findings import Finding as Finding
from otpy_monitors.findings import FindingHook as FindingHook
from otpy_monitors.findings import LoopLag as LoopLag
from otpy_monitors.findings import OverBudget as OverBudget
from otpy_monitors.findings import PriceUnknown as PriceUnknown
from otpy_monitors.findings import Rule as Rule
from otpy_monitors.findings import Stalled as Stalled
from otpy_monitors.findings import Subject as Subject
from otpy_monitors.findings import Sweeping as Sweeping
from otpy_monitors.findings import Swept as Swept
from otpy_monitors.findings import Violated as Violated
from otpy_monitors.health import health_monitor as health_monitor
from otpy_monitors.hygiene import Chore as Chore
from otpy_monitors.hygiene import Deletion as Deletion
from otpy_monitors.hygiene import cleanup_daemon as cleanup_daemon
from otpy_monitors.hygiene import cleanup_spec as cleanup_spec
from otpy_monitors.hygiene import hygiene_supervisor as hygiene_supervisor
from otpy_monitors.logs import rotate_logs as rotate_logs
from otpy_monitors.supervisor import monitor_supervisor as monitor_supervisor
from otpy_monitors.violation import violation_monitor as violation_monitor
from otpy_monitors.violation import violations as violations

__all__ = [
    "AccountExists",
    "Accounting",
    "Action",
    "Balance",
    "Board",
    "BudgetCorrupt",
    "BudgetError",
    "BudgetNearlySpent",
    "BudgetSpent",
    "BudgetTooNew",
    "Chore",
    "Deletion",
    "Exceeding",
    "Finding",
    "FindingHook",
    "InvalidPrices",
    "Kind",
    "Ledger",
    "LedgerStore",
    "LimitTooWide",
    "Limits",
    "LoopLag",
    "NoAccount",
    "NoFreshBudget",
    "NoLimit",
    "OnExceed",
    "OverBudget",
    "Price",
    "PriceUnknown",
    "Prices",
    "Rule",
    "Spent",
    "Stalled",
    "Subject",
    "Sweeping",
    "Swept",
    "Violated",
    "Vitals",
    "budget_daemon",
    "budget_monitor",
    "cleanup_daemon",
    "cleanup_spec",
    "health_monitor",
    "hygiene_supervisor",
    "ledger_saver",
    "load_ledger",
    "monitor_supervisor",
    "rotate_logs",
    "violation_monitor",
    "violations",
]
