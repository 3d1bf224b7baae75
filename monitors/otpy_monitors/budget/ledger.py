"""The ledger: accounts in a tree, with the limits and the usage of each.

It decides and adds up; it has no clock, no loop and no file.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, final

from attrs import evolve, frozen

from otpy_monitors.activity import OutputSeen
from otpy_monitors.budget.account import Account, Pot, apply, left
from otpy_monitors.budget.amount import Balance, Exceeding, Kind, Limits, OnExceed
from otpy_monitors.budget.errors import (
    AccountExists,
    LimitTooWide,
    NoAccount,
    NoFreshBudget,
    NoLimit,
)
from otpy_monitors.budget.prices import Price, Prices
from otpy_monitors.budget.readings import NOTHING, Reading, read, since

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from otpy_monitors.activity import UsageSeen

__all__ = ["BudgetLedger", "Thread"]


@final
@frozen
class Thread:
    """Where the counter of a session stands that is resumed from run to run.

    Attributes:
        account: Who was charged with it last, or the account above that, once it is closed.
        reading: Its last reading.
    """

    account: str
    reading: Reading


@final
class BudgetLedger:
    """Accounts in a tree. What one spends, all above it have spent too.

    Args:
        prices: What tokens cost; None for the table that ships with the package.

    Attributes:
        revision: Counts changes of accounts and limits; charges leave it alone.
        threads: Counters of sessions, by session.
        unpriced_models: Models without a known price, and whether that was told.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.revision = 0
        self.threads: dict[str, Thread] = {}
        self.unpriced_models: dict[str, bool] = {}
        self._prices = Prices.shipped() if prices is None else prices
        self._price_of: dict[str, Price | None] = {}
        self._accounts: dict[str, Account] = {}
        self._hooks: list[Callable[[str], object]] = []

    def __contains__(self, account: object) -> bool:
        """Return whether an account of that name is open."""
        return account in self._accounts

    @property
    def accounts(self) -> Mapping[str, Account]:
        """The open accounts by name, parents first."""
        return self._accounts

    @contextmanager
    def watched(self, hook: Callable[[str], object]) -> Generator[None]:
        """Call `hook` with the name of each account that changes, while the block lasts.

        The name is empty for what belongs to no account. The hook must not raise, and must not
        change the ledger.
        """
        self._hooks.append(hook)
        try:
            yield
        finally:
            self._hooks.remove(hook)

    # --- accounts ------------------------------------------------------------------------------

    def open(
        self,
        account: str,
        parent: str = "",
        limits: Limits | None = None,
        on_exceed: OnExceed | None = None,
    ) -> None:
        """Open an account that may spend its parent's budget, within its own limits.

        Siblings share what the parent has: nothing is set aside, and all limits together may be
        more than there is.

        Args:
            account: Its name, unique among the open ones.
            parent: Account it belongs to; empty for none.
            limits: Its own, none wider than the one above it; None for none of its own.
            on_exceed: What follows when it is spent; None for `escalate`.

        Raises:
            AccountExists: The name is taken.
            NoAccount: There is no such parent.
            LimitTooWide: A limit is wider than the one above it.
        """
        self._open(account, parent, limits or Limits(), on_exceed, reserved=False)

    def delegate(
        self, account: str, parent: str, limits: Limits, on_exceed: OnExceed | None = None
    ) -> None:
        """Open an account and reserve its limits from the parent's: no other account spends them.

        What is limited by None is shared, as by `open`.

        Args:
            account: Its name, unique among the open ones.
            parent: Account that hands it on.
            limits: How much, none more than what remains to the parent.
            on_exceed: What follows when it is spent; None for `escalate`.

        Raises:
            AccountExists: The name is taken.
            NoAccount: There is no such parent.
            LimitTooWide: The parent has less.
        """
        self._find(parent)
        self._open(account, parent, limits, on_exceed, reserved=True)

    def _open(
        self,
        name: str,
        parent: str,
        limits: Limits,
        on_exceed: OnExceed | None,
        *,
        reserved: bool,
    ) -> None:
        if name in self._accounts or not name:
            raise AccountExists(name)
        above = self._find(parent) if parent else None
        account = Account(name, above, on_exceed or OnExceed())
        wanted = {kind: limits.of(kind) for kind in Kind}
        whole = {kind: kind.whole(limit) for kind, limit in wanted.items() if limit is not None}
        for kind, limit in whole.items():
            self._check(account, kind, limit, limit if reserved else None)
        self._accounts[name] = account
        if above is not None:
            above.children[name] = account
        for kind, limit in whole.items():
            apply(account, kind, partial(_limit, limit=limit, reserved=reserved))
        self._changed(name)

    def close(self, account: str) -> None:
        """Close an account and those below it: its spending stays with its parent.

        What was set aside for it and not spent returns there. Counters of sessions are handed up,
        because another agent may go on with the session. Charge everything first.

        Raises:
            NoAccount: It is not open.
        """
        closed = self._find(account)
        for child in list(closed.children):
            self.close(child)
        parent = closed.parent
        if parent is not None:
            for kind in Kind:
                spent = closed.pots[kind].spent
                apply(closed, kind, _empty)
                apply(parent, kind, partial(_carry, units=spent))
            parent.unpriced += closed.unpriced
            del parent.children[account]
        for session, thread in list(self.threads.items()):
            if thread.account == account:
                if parent is None:
                    del self.threads[session]
                else:
                    self.threads[session] = Thread(parent.name, thread.reading)
        del self._accounts[account]
        self._changed(account if parent is None else parent.name)

    def raise_limit(self, account: str, kind: Kind, amount: float) -> None:
        """Let an account spend more, as an operator grants it.

        Args:
            account: Which.
            kind: Of what.
            amount: How much more.

        Raises:
            NoAccount: It is not open.
            NoLimit: It has no limit of that kind.
            LimitTooWide: The limit would be wider than the one above it, or what was set aside
                would be more than remains to the parent. Raise the parent's first.
            InvalidSpec: The amount is not a finite number of at least 0.
        """
        found = self._find(account)
        limit = found.pots[kind].limit
        more = Limits(**{kind.value: amount}).of(kind) or 0
        if limit is None:
            raise NoLimit(account, kind.value)
        self._raise(found, {kind: limit + kind.whole(more)})

    def redeclare(self, account: str, limits: Limits, on_exceed: OnExceed | None = None) -> None:
        """Let the limits of an account be those that are declared by now, also lower or none.

        What was granted on top stays while the same number is declared; another takes its place.
        What was spent stays spent.

        Args:
            account: Which.
            limits: The limits declared now.
            on_exceed: What follows when it is spent; None for `escalate`.

        Raises:
            NoAccount: It is not open.
            LimitTooWide: As `raise_limit`; then nothing is changed.
        """
        found = self._find(account)
        wanted = {kind: limits.of(kind) for kind in Kind}
        whole = {kind: None if it is None else kind.whole(it) for kind, it in wanted.items()}
        new = {kind: it for kind, it in whole.items() if it != found.pots[kind].first}
        self._check_raise(found, {kind: it for kind, it in new.items() if it is not None})
        found.on_exceed = on_exceed or OnExceed()
        for kind, limit in new.items():
            apply(found, kind, partial(_redeclare, limit=limit))
        self._changed(account)

    def renew(self, account: str) -> None:
        """Give an account a fresh budget, as large as its first, if it may have one more.

        What it has spent stays spent, for it and for those above it.

        Raises:
            NoAccount: It is not open.
            NoFreshBudget: It is not to be restarted, or has had all its fresh budgets.
            LimitTooWide: Its limit would be wider than the one above it.
        """
        found = self._find(account)
        if found.fresh_had >= found.on_exceed.fresh:
            raise NoFreshBudget(account, found.fresh_had)
        self._raise(found, _fresh(found))
        found.fresh_had += 1

    def may_renew(self, account: str) -> bool:
        """Return whether `renew` would give it a fresh budget.

        Raises:
            NoAccount: It is not open.
        """
        found = self._find(account)
        if found.fresh_had >= found.on_exceed.fresh:
            return False
        try:
            self._check_raise(found, _fresh(found))
        except LimitTooWide:
            return False
        return True

    def _raise(self, account: Account, limits: Mapping[Kind, int]) -> None:
        self._check_raise(account, limits)
        for kind, limit in limits.items():
            apply(account, kind, partial(_widen, limit=limit))
        self._changed(account.name)

    def _check_raise(self, account: Account, limits: Mapping[Kind, int]) -> None:
        for kind, limit in limits.items():
            pot = account.pots[kind]
            aside = max(limit - pot.spent, pot.held) - pot.hold if pot.reserved else None
            self._check(account, kind, limit, aside)

    def _check(self, account: Account, kind: Kind, limit: int, aside: int | None) -> None:
        """Refuse a limit that is too wide; `aside` is the amount that the parent would reserve."""
        parent = account.parent
        if parent is None:
            return
        if aside is not None:
            bound, giver = left(parent, kind, counts=_always)
            if bound is not None and giver is not None and aside > max(bound, 0):
                widest = kind.shown(limit - aside + max(bound, 0))
                raise LimitTooWide(account.name, kind.value, kind.shown(limit), widest, giver.name)
        for above in parent.upward():
            widest_here = above.pots[kind].limit
            if widest_here is not None and limit > widest_here:
                got, wanted = kind.shown(limit), kind.shown(widest_here)
                raise LimitTooWide(account.name, kind.value, got, wanted, above.name)

    # --- charges -------------------------------------------------------------------------------

    def charge(self, seen: UsageSeen | OutputSeen) -> None:
        """Charge an agent with its output, or the new part of a reading, each token once (G-07).

        What the CLI says it cost counts; without that, the price table; without a price, the cost
        is not known (G-08). A CLI that says so at the end of a run only, as Claude Code does, takes
        the place of what the table had charged until then.

        Raises:
            NoAccount: The agent has no account.
        """
        account = self._find(seen.agent)
        if isinstance(seen, OutputSeen):
            self._spend(account, Kind.OUTPUT_BYTES, seen.size)
        else:
            self._charge_reading(account, seen)
        self._changed(account.name, limits=False)

    def _charge_reading(self, account: Account, seen: UsageSeen) -> None:
        now = read(seen)
        if not seen.run:
            self._charge_new(account, seen.model, now)
        elif seen.cumulative:
            thread = self.threads.get(seen.run)
            before = NOTHING if thread is None else thread.reading
            new, after = since(before, now, cumulative=True, late=seen.late)
            self._charge_new(account, seen.model, new)
            self.threads[seen.run] = Thread(account.name, after)
        else:
            before = account.runs.get(seen.run, NOTHING)
            new, after = since(before, now, cumulative=False)
            cost = self._charge_new(account, seen.model, new)
            if after.cost is None and before.cost is not None and cost is not None:
                after = evolve(after, cost=before.cost + cost)  # what the table said
            elif before.cost is None and new.cost is not None:
                account.unpriced = max(0, account.unpriced - before.tokens)
            account.note_run(seen.run, after)

    def _charge_new(self, account: Account, model: str, new: Reading) -> int | None:
        """Charge the new part of a reading; return its cost, None if it is unknown."""
        self._spend(account, Kind.TOKENS, new.tokens)
        cost = self._cost(model, new)
        if cost is None:
            account.unpriced += new.tokens
        else:
            self._spend(account, Kind.COST_USD, cost)
        return cost

    def charge_seconds(self, account: str, seconds: float) -> float:
        """Charge an account with time, at least 0 seconds.

        Returns:
            How much was charged: `seconds`, rounded to microseconds.

        Raises:
            NoAccount: It is not open.
        """
        units = max(0, Kind.SECONDS.whole(seconds))
        self._spend(self._find(account), Kind.SECONDS, units)
        self._changed(account, limits=False)
        return Kind.SECONDS.shown(units)

    def _cost(self, model: str, new: Reading) -> int | None:
        if new.cost is not None:
            return new.cost
        if new.tokens == 0:
            return 0
        if model not in self._price_of:
            self._price_of[model] = self._prices.of(model)
        price = self._price_of[model]
        if price is None:
            self.unpriced_models.setdefault(model, False)
            return None
        cost = price.cost(input=new.input, output=new.output, cached=new.cached)
        return max(0, cost)

    def _spend(self, account: Account, kind: Kind, units: int) -> None:
        if units:
            apply(account, kind, partial(_own, units=units))

    # --- what was told ---------------------------------------------------------------------------

    def note_warned(self, account: str, kind: Kind) -> None:
        """Record that the near end of this budget was told.

        Raises:
            NoAccount: It is not open.
        """
        self._find(account).pots[kind].warned = True
        self._changed(account, limits=False)

    def note_unpriced(self, model: str) -> None:
        """Record that a model's missing price was told."""
        self.unpriced_models[model] = True
        self._changed("", limits=False)

    # --- looking -------------------------------------------------------------------------------

    def balance(self, account: str, kind: Kind) -> Balance:
        """Return how an account stands in one kind.

        Raises:
            NoAccount: It is not open.
        """
        found = self._find(account)
        pot = found.pots[kind]
        unpriced = 0
        if kind is Kind.COST_USD:
            unpriced = sum(one.unpriced for one in found.downward())
        remaining, _ = left(found, kind, counts=_always)
        known = kind.shown(pot.spent)
        return Balance(
            account=account,
            kind=kind,
            allocated=None if pot.limit is None else kind.shown(pot.limit),
            spent=None if unpriced else known,
            known=known,
            delegated=kind.shown(pot.held),
            remaining=None if remaining is None else kind.shown(remaining),
            unpriced_tokens=unpriced,
        )

    def spent_up(self, account: str) -> dict[Kind, str]:
        """Return the kinds an account has nothing left of, each with the account that is spent.

        It is the account itself or one above it. One that only warns stops no agent.

        Raises:
            NoAccount: It is not open.
        """
        found = self._find(account)
        causes: dict[Kind, str] = {}
        for kind in Kind:
            bound, cause = left(found, kind, counts=_stops)
            if bound is not None and bound <= 0 and cause is not None:
                causes[kind] = cause.name
        return causes

    def _find(self, account: str) -> Account:
        try:
            return self._accounts[account]
        except KeyError:
            raise NoAccount(account) from None

    def _changed(self, account: str, *, limits: bool = True) -> None:
        self.revision += limits
        for hook in self._hooks:
            hook(account)


def _always(_account: Account) -> bool:
    return True


def _stops(account: Account) -> bool:
    return account.on_exceed.action is not Exceeding.WARN


def _fresh(account: Account) -> dict[Kind, int]:
    """Return the limits of an account after a fresh budget."""
    return {
        kind: max(pot.limit, pot.spent + pot.first)
        for kind, pot in account.pots.items()
        if pot.limit is not None and pot.first is not None
    }


def _limit(pot: Pot, limit: int, *, reserved: bool) -> None:
    pot.limit = pot.first = limit
    pot.reserved = reserved


def _redeclare(pot: Pot, limit: int | None) -> None:
    pot.limit = pot.first = limit
    pot.warned = pot.warned and pot.is_nearly_spent


def _widen(pot: Pot, limit: int) -> None:
    pot.limit = limit
    pot.warned = pot.warned and pot.is_nearly_spent


def _own(pot: Pot, units: int) -> None:
    pot.own += units


def _carry(pot: Pot, units: int) -> None:
    pot.carried += units


def _empty(pot: Pot) -> None:
    pot.own = pot.carried = 0
    pot.limit = None
