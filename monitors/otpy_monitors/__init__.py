"""Daemons that watch agents and report what they see. They never steer (TREE-48).

| you want | you use |
|---|---|
| the whole branch | `monitor_supervisor` |
| to tell it what an agent does | `Feed`, `AgentCard`, `Activity` |
| to say what an agent must not do | `read_rules`, `RuleBook`, `ViolationRule` |
| to hear what it finds | `Finding`: `Stalled`, `Violated`, `BudgetSpent`, `Swept` and more |
| to give budgets | `BudgetLedger`, `Bookkeeper`, `Limits`, `Prices` |
| to have rubbish deleted | `Chore`, `Deletion`, `rotate_logs` |
| to know whether a tree is ready | `tree_health`, `TreeHealth` |
| one daemon | `watch_health`, `watch_violations`, `watch_budgets`, `cleanup_daemon` |
"""

from __future__ import annotations

from otpy_monitors.activity import Activity as Activity
from otpy_monitors.activity import AgentAppeared as AgentAppeared
from otpy_monitors.activity import AgentCard as AgentCard
from otpy_monitors.activity import AgentGone as AgentGone
from otpy_monitors.activity import ChildSpawned as ChildSpawned
from otpy_monitors.activity import CommandRun as CommandRun
from otpy_monitors.activity import FilesTouched as FilesTouched
from otpy_monitors.activity import NetworkUsed as NetworkUsed
from otpy_monitors.activity import OutputSeen as OutputSeen
from otpy_monitors.activity import Progressed as Progressed
from otpy_monitors.activity import RestBegan as RestBegan
from otpy_monitors.activity import RestEnded as RestEnded
from otpy_monitors.activity import ToolCallBegan as ToolCallBegan
from otpy_monitors.activity import ToolCallEnded as ToolCallEnded
from otpy_monitors.activity import TurnEnded as TurnEnded
from otpy_monitors.activity import UsageSeen as UsageSeen
from otpy_monitors.budget import AccountExists as AccountExists
from otpy_monitors.budget import Balance as Balance
from otpy_monitors.budget import Bookkeeper as Bookkeeper
from otpy_monitors.budget import BudgetCorrupt as BudgetCorrupt
from otpy_monitors.budget import BudgetError as BudgetError
from otpy_monitors.budget import BudgetLedger as BudgetLedger
from otpy_monitors.budget import BudgetTooNew as BudgetTooNew
from otpy_monitors.budget import Exceeding as Exceeding
from otpy_monitors.budget import InvalidPrices as InvalidPrices
from otpy_monitors.budget import Kind as Kind
from otpy_monitors.budget import LedgerStore as LedgerStore
from otpy_monitors.budget import Limits as Limits
from otpy_monitors.budget import LimitTooWide as LimitTooWide
from otpy_monitors.budget import NoAccount as NoAccount
from otpy_monitors.budget import NoFreshBudget as NoFreshBudget
from otpy_monitors.budget import NoLimit as NoLimit
from otpy_monitors.budget import OnExceed as OnExceed
from otpy_monitors.budget import Price as Price
from otpy_monitors.budget import Prices as Prices
from otpy_monitors.budget import keep_ledger as keep_ledger
from otpy_monitors.budget import load_ledger as load_ledger
from otpy_monitors.budget import watch_budgets as watch_budgets
from otpy_monitors.errors import InvalidRules as InvalidRules
from otpy_monitors.errors import UnknownAgent as UnknownAgent
from otpy_monitors.feed import Feed as Feed
from otpy_monitors.feed import Inbox as Inbox
from otpy_monitors.feed import Subscription as Subscription
from otpy_monitors.findings import BudgetNearlySpent as BudgetNearlySpent
from otpy_monitors.findings import BudgetSpent as BudgetSpent
from otpy_monitors.findings import Finding as Finding
from otpy_monitors.findings import FindingHook as FindingHook
from otpy_monitors.findings import LoopLag as LoopLag
from otpy_monitors.findings import LoopStalled as LoopStalled
from otpy_monitors.findings import PriceUnknown as PriceUnknown
from otpy_monitors.findings import RuleBroken as RuleBroken
from otpy_monitors.findings import RulesExposed as RulesExposed
from otpy_monitors.findings import RulesInForce as RulesInForce
from otpy_monitors.findings import Stalled as Stalled
from otpy_monitors.findings import StallWarned as StallWarned
from otpy_monitors.findings import Sweeping as Sweeping
from otpy_monitors.findings import Swept as Swept
from otpy_monitors.findings import Unjudged as Unjudged
from otpy_monitors.findings import Violated as Violated
from otpy_monitors.health import watch_blocks as watch_blocks
from otpy_monitors.health import watch_health as watch_health
from otpy_monitors.hygiene import Chore as Chore
from otpy_monitors.hygiene import Deletion as Deletion
from otpy_monitors.hygiene import cleanup_daemon as cleanup_daemon
from otpy_monitors.hygiene import cleanup_spec as cleanup_spec
from otpy_monitors.hygiene import hygiene_supervisor as hygiene_supervisor
from otpy_monitors.logs import rotate_logs as rotate_logs
from otpy_monitors.readiness import NotReady as NotReady
from otpy_monitors.readiness import TreeHealth as TreeHealth
from otpy_monitors.readiness import tree_health as tree_health
from otpy_monitors.rules import Action as Action
from otpy_monitors.rules import Check as Check
from otpy_monitors.rules import CommandBlocked as CommandBlocked
from otpy_monitors.rules import Custom as Custom
from otpy_monitors.rules import FilesOutside as FilesOutside
from otpy_monitors.rules import NetworkForbidden as NetworkForbidden
from otpy_monitors.rules import Predicate as Predicate
from otpy_monitors.rules import RuleBook as RuleBook
from otpy_monitors.rules import SameCall as SameCall
from otpy_monitors.rules import TokenSpeed as TokenSpeed
from otpy_monitors.rules import TooManyChildren as TooManyChildren
from otpy_monitors.rules import ViolationRule as ViolationRule
from otpy_monitors.rules_file import parse_rules as parse_rules
from otpy_monitors.rules_file import read_rules as read_rules
from otpy_monitors.supervisor import monitor_supervisor as monitor_supervisor
from otpy_monitors.violation import RuleState as RuleState
from otpy_monitors.violation import watch_violations as watch_violations

__all__ = [
    "AccountExists",
    "Bookkeeper",
    "Action",
    "Activity",
    "AgentAppeared",
    "AgentCard",
    "AgentGone",
    "Balance",
    "BudgetCorrupt",
    "BudgetError",
    "BudgetNearlySpent",
    "BudgetSpent",
    "BudgetTooNew",
    "Check",
    "ChildSpawned",
    "Chore",
    "CommandBlocked",
    "CommandRun",
    "Custom",
    "Deletion",
    "Exceeding",
    "Feed",
    "FilesOutside",
    "FilesTouched",
    "Finding",
    "FindingHook",
    "Inbox",
    "InvalidPrices",
    "InvalidRules",
    "Kind",
    "BudgetLedger",
    "LedgerStore",
    "LimitTooWide",
    "Limits",
    "LoopStalled",
    "LoopLag",
    "NetworkForbidden",
    "NetworkUsed",
    "NoAccount",
    "NoFreshBudget",
    "NoLimit",
    "NotReady",
    "OnExceed",
    "OutputSeen",
    "Predicate",
    "Price",
    "PriceUnknown",
    "Prices",
    "Progressed",
    "RuleBook",
    "RuleBroken",
    "RuleState",
    "RulesExposed",
    "RulesInForce",
    "SameCall",
    "StallWarned",
    "Stalled",
    "Subscription",
    "Sweeping",
    "Swept",
    "TokenSpeed",
    "TooManyChildren",
    "ToolCallBegan",
    "ToolCallEnded",
    "TreeHealth",
    "TurnEnded",
    "Unjudged",
    "UnknownAgent",
    "UsageSeen",
    "Violated",
    "ViolationRule",
    "RestBegan",
    "RestEnded",
    "cleanup_daemon",
    "cleanup_spec",
    "hygiene_supervisor",
    "keep_ledger",
    "load_ledger",
    "monitor_supervisor",
    "parse_rules",
    "read_rules",
    "rotate_logs",
    "tree_health",
    "watch_blocks",
    "watch_budgets",
    "watch_health",
    "watch_violations",
]
