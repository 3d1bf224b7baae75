"""The budget daemons: one tells of budgets nearly and wholly spent, one keeps the ledger.

Neither steers. They are two, so that a slow disk delays no report.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from otpy_monitors.budget.account import left
from otpy_monitors.budget.amount import Exceeding, Kind
from otpy_monitors.budget.ledger_json import to_plain
from otpy_monitors.findings import BudgetNearlySpent, BudgetSpent, PriceUnknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otpy_monitors.budget.account import Account
    from otpy_monitors.budget.bookkeeper import Bookkeeper
    from otpy_monitors.budget.ledger_json import LedgerStore
    from otpy_monitors.findings import FindingHook

__all__ = ["EVERY", "TIME_EVERY", "keep_ledger", "watch_budgets"]


async def watch_budgets(bookkeeper: Bookkeeper, report: FindingHook) -> None:
    """Report budgets that come to their end, and models whose price is not known (TREE-44).

    It is woken by what is charged, and has one timer, for the budget of time that ends first;
    while nothing is charged and no such budget runs, it costs nothing. Runs until it is cancelled.

    After a kill and a restart it reports spent budgets again, because the fate of the previous
    report is unknown; the hook must accept a repeated report. A nearly spent budget and a missing
    price are told once.

    Args:
        bookkeeper: The bookkeeper of the ledger. It outlives this daemon, so no charge is missed.
        report: Gets `BudgetNearlySpent`, `BudgetSpent` and `PriceUnknown`.
    """
    reporter = _Reporter(bookkeeper, report)
    ledger = bookkeeper.ledger
    changed: dict[str, None] = dict.fromkeys(ledger.accounts)
    wake = asyncio.Event()

    def hear(account: str) -> None:
        changed[account] = None
        wake.set()

    loop = asyncio.get_running_loop()
    seen: tuple[int, int] | None = None
    due: float | None = None
    with ledger.watched(hear):
        while True:
            if seen != (ledger.revision, bookkeeper.revision) or _passed(due, loop.time()):
                bookkeeper.settle(limited=True)
                seen = ledger.revision, bookkeeper.revision
                delay = bookkeeper.next_end()
                due = None if delay is None else loop.time() + delay
            names = list(changed)
            changed.clear()
            wake.clear()
            reporter.check(names)
            try:
                async with asyncio.timeout_at(due):
                    await wake.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(0)  # whatever else is charged in this turn is dealt with as one


def _passed(due: float | None, now: float) -> bool:
    return due is not None and now >= due


@final
class _Reporter:
    """The reports of one life of the daemon.

    Attributes:
        told: For each budget that is spent, its limit, and those named as having to stop. A limit
            that was raised makes another budget, even if it is spent again before the next look.
    """

    def __init__(self, bookkeeper: Bookkeeper, report: FindingHook) -> None:
        self.told: dict[tuple[str, Kind], tuple[int | None, set[str]]] = {}
        self._ledger = bookkeeper.ledger
        self._report = report

    def check(self, changed: Iterable[str]) -> None:
        """Report news about the changed accounts, and those above them."""
        accounts = self._ledger.accounts
        for name in changed:
            if name in accounts:
                for account in accounts[name].upward():
                    for kind, pot in account.pots.items():
                        if pot.limit is not None or (account.name, kind) in self.told:
                            self._check(account, kind, name)
        for key in [key for key in self.told if key[0] not in accounts]:
            del self.told[key]
        for model, is_told in list(self._ledger.unpriced_models.items()):
            if not is_told:
                self._report(PriceUnknown(model))
                self._ledger.note_unpriced(model)

    def _check(self, account: Account, kind: Kind, drawer: str) -> None:
        pot, key = account.pots[kind], (account.name, kind)
        if pot.is_spent:
            was, told = self.told.get(key, (None, set[str]()))
            is_new = drawer not in told and self._must_stop(drawer, account, kind)
            if was != pot.limit or is_new:
                self._tell_spent(account, kind)
                self._ledger.note_warned(account.name, kind)
            return
        self.told.pop(key, None)
        if pot.is_nearly_spent and not pot.warned:
            limit = kind.shown(pot.limit or 0)
            spent = kind.shown(pot.spent)
            self._report(BudgetNearlySpent(account.name, kind.value, spent, limit, _giver(account)))
            self._ledger.note_warned(account.name, kind)

    def _tell_spent(self, account: Account, kind: Kind) -> None:
        pot = account.pots[kind]
        below = [one.name for one in account.downward()]
        stopped = [name for name in below if self._must_stop(name, account, kind)]
        then = account.on_exceed.action
        if then is Exceeding.RESTART and not self._ledger.may_renew(account.name):
            then = Exceeding.ESCALATE
        finding = BudgetSpent(
            account=account.name,
            kind=kind.value,
            spent=kind.shown(pot.spent),
            limit=kind.shown(pot.limit or 0),
            giver=_giver(account),
            then=then.value,
            stopped=tuple(stopped),
        )
        self._report(finding)
        self.told[account.name, kind] = pot.limit, {*stopped}

    def _must_stop(self, name: str, account: Account, kind: Kind) -> bool:
        """Return whether this account leaves `name` nothing to spend, and means it to stop."""
        if account.on_exceed.action is Exceeding.WARN:
            return False
        found = self._ledger.accounts[name]
        bound, cause = left(found, kind, counts=lambda one: one is account)
        return bound is not None and bound <= 0 and cause is account


def _giver(account: Account) -> str:
    return "" if account.parent is None else account.parent.name


EVERY: Final = 5.0
"""Seconds from one save to the next, at least."""

TIME_EVERY: Final = 60.0
"""Seconds after which time is saved that passed while nothing else happened."""


async def keep_ledger(bookkeeper: Bookkeeper, store: LedgerStore) -> None:
    """Save the ledger when it changes, at once after a quiet time and else every 5 s.

    What a host that is killed loses is at most the last 5 seconds of usage, which agents tell again
    if their readings go on, and a minute of time. A store that fails ends it, and its supervisor
    starts it again: the ledger is not in here.

    Cancellation:
        What was not saved is saved; it ends after that.
    """
    changed = asyncio.Event()
    changed.set()  # whatever an earlier life did not save
    with bookkeeper.ledger.watched(lambda _account: changed.set()):
        try:
            while True:
                await _change(changed, bookkeeper)
                await _save(changed, bookkeeper, store)
                await asyncio.sleep(EVERY)
        except asyncio.CancelledError:
            bookkeeper.settle()
            if changed.is_set():
                await _save(changed, bookkeeper, store)
            raise


async def _change(changed: asyncio.Event, bookkeeper: Bookkeeper) -> None:
    """Wait for a change; time that passes is one, once a minute."""
    while not changed.is_set():
        try:
            async with asyncio.timeout(TIME_EVERY if bookkeeper.running else None):
                await changed.wait()
        except TimeoutError:
            bookkeeper.settle()


async def _save(changed: asyncio.Event, bookkeeper: Bookkeeper, store: LedgerStore) -> None:
    bookkeeper.settle()
    changed.clear()
    try:
        await store.save(to_plain(bookkeeper.ledger))
    except BaseException:
        changed.set()  # cut or failed: it is unknown what was kept
        raise
