"""Budgets: what each agent, and each subtree of agents, may spend and has spent.

| you want | you use |
|---|---|
| accounts and limits | `BudgetLedger`, `Limits`, `Kind`, `Balance` |
| what follows when one is spent | `OnExceed`, `Exceeding` |
| prices | `Prices`, `Price` |
| to charge what agents tell a feed | `Bookkeeper` |
| to hear of budgets that end | `watch_budgets` |
| to keep the ledger over a restart | `keep_ledger`, `load_ledger`, `LedgerStore` |
"""

from __future__ import annotations

from otpy_monitors.budget.amount import Balance as Balance
from otpy_monitors.budget.amount import Exceeding as Exceeding
from otpy_monitors.budget.amount import Kind as Kind
from otpy_monitors.budget.amount import Limits as Limits
from otpy_monitors.budget.amount import OnExceed as OnExceed
from otpy_monitors.budget.bookkeeper import Bookkeeper as Bookkeeper
from otpy_monitors.budget.daemon import keep_ledger as keep_ledger
from otpy_monitors.budget.daemon import watch_budgets as watch_budgets
from otpy_monitors.budget.errors import AccountExists as AccountExists
from otpy_monitors.budget.errors import BudgetCorrupt as BudgetCorrupt
from otpy_monitors.budget.errors import BudgetError as BudgetError
from otpy_monitors.budget.errors import BudgetTooNew as BudgetTooNew
from otpy_monitors.budget.errors import InvalidPrices as InvalidPrices
from otpy_monitors.budget.errors import LimitTooWide as LimitTooWide
from otpy_monitors.budget.errors import NoAccount as NoAccount
from otpy_monitors.budget.errors import NoFreshBudget as NoFreshBudget
from otpy_monitors.budget.errors import NoLimit as NoLimit
from otpy_monitors.budget.ledger import BudgetLedger as BudgetLedger
from otpy_monitors.budget.ledger_json import LedgerStore as LedgerStore
from otpy_monitors.budget.ledger_json import load_ledger as load_ledger
from otpy_monitors.budget.prices import Price as Price
from otpy_monitors.budget.prices import Prices as Prices
