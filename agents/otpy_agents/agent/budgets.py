"""Budgets: an account for each list and each assignment, and its remainder.

The ledger and what is charged to it belong to the monitors. What follows when one is spent is up to
who owns it (`otpy_agents.tree.consequences`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from otpy_agents.agent.pause import BUDGET, AgentPause
from otpy_monitors import (
    Bookkeeper,
    BudgetCorrupt,
    BudgetLedger,
    Exceeding,
    Feed,
    Kind,
    Limits,
    OnExceed,
    load_ledger,
)
from otpy_monitors.budget.ledger_json import to_plain

if TYPE_CHECKING:
    from otpy_agents.store.records import AgentRows
    from otpy_agents.worklist.assignment import Assignment, WorkList
    from otpy_monitors import LedgerStore

__all__ = ["BudgetDocument", "Budgets", "budget_pause", "kept_budgets"]

_DOCUMENT: Final = "budget"


@final
class BudgetDocument:
    """Keeps a ledger of budgets as a text in the ledger of a work list; a `LedgerStore`."""

    def __init__(self, rows: AgentRows) -> None:
        self._rows = rows

    async def load(self) -> dict[str, Any] | None:
        """Return the value saved last; None if there is none.

        Raises:
            BudgetCorrupt: It is not JSON.
        """
        text = await self._rows.get(_DOCUMENT)
        if text is None:
            return None
        try:
            plain: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise BudgetCorrupt("it", text, "JSON") from error
        return plain

    async def save(self, plain: dict[str, Any]) -> None:
        """Save `plain` in place of the saved value."""
        await self._rows.put(_DOCUMENT, json.dumps(plain))


@final
class Budgets:
    """The budgets of all projects at one workplace.

    Args:
        feed: Where what agents use is told.
        ledger: What an earlier host has left; None for an empty one.

    Attributes:
        ledger: The accounts; named by the keys of projects and agents.
        bookkeeper: Charges them with what the feed tells.
        store: Where they are kept for the next host; None for nowhere.
        on_more: Called when somebody has been granted more.
    """

    def __init__(self, feed: Feed, ledger: BudgetLedger | None = None) -> None:
        self.ledger = ledger or BudgetLedger()
        self.bookkeeper = Bookkeeper(feed, self.ledger)
        self.store: LedgerStore | None = None
        self.on_more: list[Callable[[], object]] = []

    async def save(self) -> None:
        """Store the usage and the grants at once: others are about to rely on them.

        The saver of the tree does so every few seconds, which a host that is killed may not have.

        Raises:
            LedgerError: It cannot be written down; the saver tries again.
        """
        if self.store is not None:
            self.bookkeeper.settle()
            await self.store.save(to_plain(self.ledger))

    def open(
        self, account: str, parent: str, limits: Limits, on_exceed: OnExceed | None = None
    ) -> list[str]:
        """Open an account; an account that is already open gets the limits declared now.

        What an operator has granted holds as long as the same limit is declared.

        Returns:
            Which limits are others than before, in one line each.

        Raises:
            LimitTooWide: A limit is wider than the one above it.
        """
        if account not in self.ledger:
            self.ledger.open(account, parent, limits, on_exceed)
            return []
        pots = self.ledger.accounts[account].pots
        before = {kind: (pot.limit, pot.first) for kind, pot in pots.items()}
        self.ledger.redeclare(account, limits, on_exceed)
        return [
            f"{kind}: {_shown(kind, pots[kind].limit)} from now on, {_was(kind, limit, first)}"
            for kind, (limit, first) in before.items()
            if limit != pots[kind].limit
        ]

    def declare_list(self, account: str, work: WorkList) -> list[str]:
        """Let the budget of a whole list be what that says now.

        Returns:
            Which limits are others than before, in one line each.
        """
        whole = Limits(
            tokens=work.tokens,
            cost_usd=work.cost_usd,
            seconds=work.wall_seconds,
            output_bytes=work.output_bytes,
        )
        return self.open(account, "", whole)

    def declare(self, account: str, parent: str, assignment: Assignment) -> list[str]:
        """Let the budget of an assignment be what that says now.

        Returns:
            Which limits are others than before, in one line each.

        Raises:
            LimitTooWide: A limit is wider than that of the list.
        """
        work = assignment.agent
        own = Limits(
            tokens=None if work is None else work.tokens,
            cost_usd=None if work is None else work.cost_usd,
            seconds=assignment.wall_seconds,
            output_bytes=assignment.output_bytes,
        )
        then = OnExceed(Exceeding.REAP) if work is None else work.on_exceed
        return self.open(account, parent, own, then)

    def carried_over(self, account: str) -> list[str]:
        """Return the earlier usage of an account, if it is open, line by line."""
        if account not in self.ledger:
            return []
        balances = [self.ledger.balance(account, kind) for kind in Kind]
        return [
            f"{one.known:.6g} of {one.allocated:.6g} {one.kind} spent before"
            for one in balances
            if one.allocated is not None and one.known
        ]

    def spent(self, account: str) -> str:
        """Return which budget leaves an account nothing, in one line; empty if it may go on."""
        for kind, owner in self._ended(account).items():
            one = self.ledger.balance(owner, kind)
            return f"budget of {owner!r} spent: {one.known:.6g} of {one.allocated:.6g} {kind}"
        return ""

    def spent_up(self, account: str) -> AgentPause | None:
        """Return why an account has to rest that has nothing left; None if it may go on."""
        ended = self._ended(account)
        if not ended:
            return None
        why = ", ".join(f"budget of {owner!r} spent: {kind}" for kind, owner in ended.items())
        kind, owner = next(iter(ended.items()))
        return budget_pause(account, owner, kind, why)

    def _ended(self, account: str) -> dict[Kind, str]:
        self.bookkeeper.settle(limited=True)
        return self.ledger.spent_up(account) if account in self.ledger else {}

    def left(self, account: str) -> float | None:
        """Return the rest, 0 or less, of a spent kind of an account; None if it may go on."""
        self.bookkeeper.settle()
        ended = self.ledger.spent_up(account) if account in self.ledger else {}
        remaining = (self.ledger.balance(account, kind).remaining for kind in ended)
        return min((one for one in remaining if one is not None), default=None)

    def grant(self, account: str, kind: Kind, amount: float) -> None:
        """Let an account spend more; agents that rest for it go on if they now have budget left.

        Raises:
            BudgetError: There is no such account or limit, or the account above has less.
            InvalidSpec: The amount is not a finite number of at least 0.
        """
        self.ledger.raise_limit(account, kind, amount)
        for go_on in self.on_more:
            go_on()

    def has_left(self, account: str) -> bool:
        """Whether an account may go on, as far as is charged by now."""
        return account not in self.ledger or not self.ledger.spent_up(account)


def _shown(kind: Kind, limit: int | None) -> str:
    return "no limit" if limit is None else f"{kind.shown(limit):.6g}"


def _was(kind: Kind, limit: int | None, first: int | None) -> str:
    granted = (limit or 0) - (first or 0)
    more = f", of which {kind.shown(granted):.6g} were granted" if first and granted > 0 else ""
    return f"{_shown(kind, limit)} before{more}"


def budget_pause(account: str, owner: str, kind: str, why: str) -> AgentPause:
    """Return why an account rests that, or whose owner, has spent its budget."""
    return AgentPause(by=BUDGET, why=why, account="" if owner == account else owner, kind=kind)


async def kept_budgets(rows: AgentRows, work: WorkList | None) -> Budgets:
    """Return the budgets that the ledger of a list keeps, as the next host will hold them.

    Args:
        rows: Where they are kept.
        work: The list, whose numbers may be others by now; None if it is not known.

    Raises:
        BudgetError: They cannot be read, or a limit of the list is wider than what is above it.
        LedgerError: The ledger cannot be.
    """
    document = BudgetDocument(rows)
    budgets = Budgets(Feed(), await load_ledger(document))
    budgets.store = document
    if work is not None:
        budgets.declare_list(work.name, work)
        for one in work.assignments:
            budgets.declare(f"{work.name}/{one.id}", work.name, one)
    return budgets
