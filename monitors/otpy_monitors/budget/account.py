"""One account of a ledger, and the sums that pass from each to its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from otpy_monitors.budget.amount import Kind, OnExceed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otpy_monitors.budget.readings import Reading

__all__ = ["Account", "Pot", "apply", "left"]

RUNS_KEPT: Final = 100
"""Runs of an account whose readings are kept, the latest. A CLI reports on its last run only."""


@frozen
class _Upward:
    """The amounts of a pot that the pot above counts."""

    spent: int
    hold: int
    taken: int


@define(eq=False)
class Pot:
    """One kind in one account, in whole units.

    Attributes:
        limit: What may be spent; None for no limit of its own.
        first: The limit it was opened with, which is the size of a fresh budget.
        reserved: Whether the parent set the limit aside for it alone.
        own: Spent by the account itself.
        carried: Spent by children that are closed.
        below: Spent by open children, and theirs.
        held: Set aside for open children and not yet spent by them.
        taken: What open children spent that was not set aside for them.
        warned: Whether it was told that this is nearly spent.
    """

    limit: int | None = None
    first: int | None = None
    reserved: bool = False
    own: int = 0
    carried: int = 0
    below: int = 0
    held: int = 0
    taken: int = 0
    warned: bool = False

    @property
    def spent(self) -> int:
        """By the account and all below it, those that are closed included."""
        return self.own + self.carried + self.below

    @property
    def remaining(self) -> int | None:
        """The rest that is neither spent nor set aside; None without a limit."""
        return None if self.limit is None else self.limit - self.spent - self.held

    @property
    def drawn(self) -> int:
        """The spent amount that had not been set aside for a child."""
        return self.own + self.carried + self.taken

    @property
    def hold(self) -> int:
        """The amount that the account above must keep for this one."""
        reserve = self.limit if self.reserved and self.limit is not None else 0
        return max(reserve - self.spent, self.held)

    @property
    def upward(self) -> _Upward:
        """The amounts of this pot that the pot above counts."""
        taken = self.drawn
        if self.reserved and self.limit is not None:
            taken = self.spent + self.hold - self.limit
        return _Upward(self.spent, self.hold, taken)

    @property
    def is_spent(self) -> bool:
        """Whether its users must stop: nothing remains, and something was drawn.

        An account that has set all aside for its children, and draws on nothing, goes on.
        """
        remaining = self.remaining
        return remaining is not None and remaining <= 0 < self.drawn

    @property
    def is_nearly_spent(self) -> bool:
        """Whether nine tenths of the part that was not set aside are drawn."""
        remaining = self.remaining
        return remaining is not None and 0 < self.drawn * 10 >= (self.drawn + remaining) * 9


def _pots() -> dict[Kind, Pot]:
    return {kind: Pot() for kind in Kind}


@define(eq=False)
class Account:
    """A node of the tree of accounts.

    Attributes:
        name: Unique among the open accounts.
        parent: The account it belongs to; None for one that an operator opened.
        on_exceed: What follows when its budget is spent.
        fresh_had: Fresh budgets it has had.
        unpriced: Tokens of its own, and of closed children, whose price is not known.
        pots: One for each kind.
        children: Open accounts below it, by name.
        runs: Readings of counters that count one run, by its id.
    """

    name: str
    parent: Account | None = None
    on_exceed: OnExceed = field(factory=OnExceed)
    fresh_had: int = 0
    unpriced: int = 0
    pots: dict[Kind, Pot] = field(factory=_pots)
    children: dict[str, Account] = field(factory=dict[str, "Account"])
    runs: dict[str, Reading] = field(factory=dict[str, "Reading"])

    def upward(self) -> Iterator[Account]:
        """Yield this account and those above it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    def downward(self) -> Iterator[Account]:
        """Yield this account and those below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.downward()

    def note_run(self, run: str, reading: Reading) -> None:
        """Keep where the counter of a run stands, and forget that of a run long over."""
        self.runs.pop(run, None)
        self.runs[run] = reading
        if len(self.runs) > RUNS_KEPT:
            del self.runs[next(iter(self.runs))]


def apply(account: Account, kind: Kind, change: Callable[[Pot], None]) -> None:
    """Change one pot, and pass on to those above it what that means to them."""
    pot = account.pots[kind]
    before = pot.upward
    change(pot)
    while account.parent is not None:
        after = pot.upward
        if after == before:
            return
        account = account.parent
        pot = account.pots[kind]
        above = pot.upward
        pot.below += after.spent - before.spent
        pot.held += after.hold - before.hold
        pot.taken += after.taken - before.taken
        before = above


def left(
    account: Account, kind: Kind, *, counts: Callable[[Account], bool]
) -> tuple[int | None, Account | None]:
    """Return the remainder of an account, and the account that bounds it.

    That is what it has, and never more than those above it leave to it: what they kept for it and
    what they have not set aside for anybody.

    Args:
        account: Which.
        kind: Of what.
        counts: Tells whose limits count.
    """
    bound: int | None = None
    cause: Account | None = None
    for node in reversed(list(account.upward())):
        pot = node.pots[kind]
        if bound is not None:
            bound += pot.hold - pot.held
        remaining = pot.remaining
        if remaining is not None and counts(node) and (bound is None or remaining <= bound):
            bound, cause = remaining, node
    return bound, cause
