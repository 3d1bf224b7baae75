"""Budgets of agents: an account for each project and each agent, and what follows when one ends.

The ledger and what is charged to it belong to the monitors. Here is what their owner does: pause at
the boundary of a turn, restart with a fresh budget, and go on when an operator has granted more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from otpy import Crashed
from otpy_agents.errors import BudgetRenewed
from otpy_agents.tree.post import Pause
from otpy_monitors import Accounting, BudgetSpent, Exceeding, Kind, Ledger, Limits, OnExceed

if TYPE_CHECKING:
    from otpy_agents.store.agent_rows import AgentRows
    from otpy_agents.tree.pool import MortalPool
    from otpy_agents.tree.post import Post
    from otpy_monitors import Feed

__all__ = ["BUDGET", "BudgetDocument", "Budgets"]

BUDGET: Final = "budget"
"""By what an agent rests whose budget is spent."""

_DOCUMENT: Final = "budget"


@final
class BudgetDocument:
    """Keeps a ledger of budgets as a text in the ledger of a work list; a `LedgerStore`."""

    def __init__(self, rows: AgentRows) -> None:
        self._rows = rows

    async def load(self) -> dict[str, Any] | None:
        """Return what was saved last; None if nothing was."""
        text = await self._rows.get(_DOCUMENT)
        if text is None:
            return None
        plain: dict[str, Any] = json.loads(text)
        return plain

    async def save(self, plain: dict[str, Any]) -> None:
        """Keep `plain` instead of what was kept."""
        await self._rows.put(_DOCUMENT, json.dumps(plain))


@final
class Budgets:
    """The budgets of all projects at one workplace.

    Args:
        feed: Where what agents use is told.
        ledger: What an earlier host has left; None for an empty one.

    Attributes:
        ledger: The accounts; named by the keys of projects and agents.
        accounting: Charges them with what the feed tells.
    """

    def __init__(self, feed: Feed, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self.accounting = Accounting(feed, self.ledger)

    def open(
        self, account: str, parent: str, limits: Limits, on_exceed: OnExceed | None = None
    ) -> None:
        """Open an account, or widen one that an earlier host has opened with less.

        What an operator has granted meanwhile is not taken back.

        Raises:
            LimitTooWide: A limit is wider than the one above it.
        """
        if account not in self.ledger:
            self.ledger.open(account, parent, limits, on_exceed)
            return
        for kind in Kind:
            wanted = limits.of(kind)
            has = self.ledger.balance(account, kind).allocated
            if wanted is not None and has is not None and wanted > has:
                self.ledger.raise_limit(account, kind, wanted - has)

    def spent_up(self, account: str) -> str:
        """Return what an account has nothing left of, for people; empty if it may go on."""
        self.accounting.settle()
        ended = self.ledger.spent_up(account) if account in self.ledger else {}
        return ", ".join(f"budget of {owner!r} spent: {kind}" for kind, owner in ended.items())

    def grant(self, account: str, kind: Kind, amount: float) -> None:
        """Let an account spend more; those who rest for it go on if they now have something left.

        Raises:
            BudgetError: There is no such account or limit, or the account above has less.
            InvalidSpec: The amount is no finite number of at least 0.
        """
        self.ledger.raise_limit(account, kind, amount)

    def wake(self, pool: MortalPool) -> None:
        """Let agents go on that rest for a budget and have something left."""
        self.accounting.settle(limited=True)  # once for all of them
        for post in pool.posts.values():
            if post.key not in self.ledger or not self.ledger.spent_up(post.key):
                post.go_on(BUDGET)

    def on_spent(self, finding: BudgetSpent, pool: MortalPool, tell: Callable[..., None]) -> None:
        """Do what is declared for a budget that is spent (C-12)."""
        mine = {post.key: post for post in pool.posts.values() if post.key in finding.stopped}
        if finding.then == Exceeding.RESTART:
            if self.ledger.may_renew(finding.account):
                self.ledger.renew(finding.account)
            for post in mine.values():
                _restart(post, pool, str(finding))
        elif finding.then == Exceeding.ESCALATE:
            for post in mine.values():
                post.pause_for(Pause(by=BUDGET, why=str(finding)))
            if mine:
                tell("operator.notified", finding.account, detail=str(finding))


def _restart(post: Post, pool: MortalPool, why: str) -> None:
    process = pool.process(post.assignment.id)
    if process is not None:
        process.exit(Crashed(BudgetRenewed(why)))
