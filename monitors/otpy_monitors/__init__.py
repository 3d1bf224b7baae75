"""Daemons that watch workers and report what they see. They never steer (TREE-48).

| you want | you use |
|---|---|
| the whole branch | `monitor_supervisor` |
| to show a worker to it | `Board`, `Vitals` |
| to hear what it finds | `Finding`: `Stalled`, `LoopLag`, `OverBudget`, `Violated`, `Swept` |
| one daemon | `health_monitor`, `budget_monitor`, `violation_monitor`, `cleanup_daemon` |
"""

from __future__ import annotations

from otpy_monitors.board import Board as Board
from otpy_monitors.board import Vitals as Vitals
from otpy_monitors.board_health import health_monitor as health_monitor
from otpy_monitors.board_violation import violation_monitor as violation_monitor
from otpy_monitors.board_violation import violations as violations
from otpy_monitors.budget import Spent as Spent
from otpy_monitors.budget import budget_monitor as budget_monitor
from otpy_monitors.findings import Finding as Finding
from otpy_monitors.findings import FindingHook as FindingHook
from otpy_monitors.findings import LoopLag as LoopLag
from otpy_monitors.findings import OverBudget as OverBudget
from otpy_monitors.findings import Rule as Rule
from otpy_monitors.findings import Stalled as Stalled
from otpy_monitors.findings import Subject as Subject
from otpy_monitors.findings import Swept as Swept
from otpy_monitors.findings import Violated as Violated
from otpy_monitors.hygiene import Chore as Chore
from otpy_monitors.hygiene import cleanup_daemon as cleanup_daemon
from otpy_monitors.hygiene import hygiene_supervisor as hygiene_supervisor
from otpy_monitors.rules import Action as Action
from otpy_monitors.supervisor import monitor_supervisor as monitor_supervisor

__all__ = [
    "Action",
    "Board",
    "Chore",
    "Finding",
    "FindingHook",
    "LoopLag",
    "OverBudget",
    "Rule",
    "Spent",
    "Stalled",
    "Subject",
    "Swept",
    "Violated",
    "Vitals",
    "budget_monitor",
    "cleanup_daemon",
    "health_monitor",
    "hygiene_supervisor",
    "monitor_supervisor",
    "violation_monitor",
    "violations",
]
