"""After any history of a ledger, in any order, it agrees with the simplest way to add up."""

from __future__ import annotations

import random
from typing import ClassVar

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from otpy_monitors import BudgetLedger, Kind, Limits, LimitTooWide, OnExceed
from otpy_monitors.budget.ledger_json import from_plain, to_plain
from tests.examples import examples
from tests.monitors.budget.usage import PRICES, used

AMOUNTS = st.integers(0, 60)
KINDS = st.sampled_from([Kind.TOKENS, Kind.SECONDS])


@define(eq=False)
class Simple:
    """One account, added up the simple way: from its whole history."""

    name: str
    parent: Simple | None
    reserved: bool
    limits: dict[Kind, float]
    declared: dict[Kind, float]
    charged: dict[Kind, float] = field(factory=lambda: dict.fromkeys(Kind, 0.0))
    children: list[Simple] = field(factory=list["Simple"])

    def spent(self, kind: Kind) -> float:
        return self.charged[kind] + sum(child.spent(kind) for child in self.children)

    def delegated(self, kind: Kind) -> float:
        return sum(child.holds(kind) for child in self.children)

    def holds(self, kind: Kind) -> float:
        """Return the part that those above it must keep for it and for those below it."""
        reserve = self.limits[kind] if self.reserved and kind in self.limits else 0.0
        return max(reserve - self.spent(kind), self.delegated(kind))

    def remaining(self, kind: Kind) -> float | None:
        """Return allocated - spent - delegated, or the rest of those above it if that is less."""
        bounds: list[float] = []
        if kind in self.limits:
            bounds.append(self.limits[kind] - self.spent(kind) - self.delegated(kind))
        if self.parent is not None:
            above = self.parent.remaining(kind)
            if above is not None:
                bounds.append(above + self.holds(kind) - self.delegated(kind))
        return min(bounds, default=None)


class Histories(RuleBasedStateMachine):
    """Accounts are opened, charged, raised and closed at random, and the ledger is restarted."""

    names: ClassVar[Bundle[str]] = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = BudgetLedger(PRICES)
        self.simple: dict[str, Simple] = {}
        self.gone = dict.fromkeys(Kind, 0.0)
        self.all = dict.fromkeys(Kind, 0.0)
        self.count = 0

    @rule(target=names, tokens=st.none() | AMOUNTS, seconds=st.none() | AMOUNTS)
    def open_root(self, tokens: int | None, seconds: int | None) -> str:
        return self._open("", Limits(tokens=tokens, seconds=seconds), delegated=False) or ""

    @precondition(lambda self: self.simple)
    @rule(
        target=names,
        parent=names,
        tokens=st.none() | AMOUNTS,
        seconds=st.none() | AMOUNTS,
        delegated=st.booleans(),
    )
    def open_child(
        self, parent: str, tokens: int | None, seconds: int | None, delegated: bool
    ) -> str:
        limits = Limits(tokens=tokens, seconds=seconds)
        if parent not in self.simple:
            return parent
        return self._open(parent, limits, delegated=delegated) or parent

    def _open(self, parent: str, limits: Limits, *, delegated: bool) -> str | None:
        self.count += 1
        name = f"n{self.count}"
        given = {kind: float(limit) for kind in Kind if (limit := limits.of(kind)) is not None}
        above = self.simple[parent] if parent else None
        too_wide = above is not None and any(
            self._is_too_wide(above, kind, limit, limit if delegated else None)
            for kind, limit in given.items()
        )
        try:
            if delegated:
                self.ledger.delegate(name, parent, limits, OnExceed.parse("restart(fresh=2)"))
            else:
                self.ledger.open(name, parent, limits)
        except LimitTooWide:
            assert too_wide
            return None
        assert not too_wide
        self.simple[name] = Simple(name, above, delegated, given, {**given})
        if above is not None:
            above.children.append(self.simple[name])
        return name

    @staticmethod
    def _is_too_wide(above: Simple, kind: Kind, limit: float, aside: float | None) -> bool:
        remaining = above.remaining(kind)
        if aside is not None and remaining is not None and aside > max(0, remaining):
            return True
        node: Simple | None = above
        while node is not None:
            if kind in node.limits and limit > node.limits[kind]:
                return True
            node = node.parent
        return False

    def _too_wide(self, simple: Simple, kind: Kind, limit: float) -> bool:
        """Return whether an open account cannot have this limit."""
        if simple.parent is None:
            return False
        aside = None
        if simple.reserved:
            needed = max(limit - simple.spent(kind), simple.delegated(kind))
            aside = needed - simple.holds(kind)
        return self._is_too_wide(simple.parent, kind, limit, aside)

    @rule(name=names, kind=KINDS, amount=AMOUNTS)
    def charge(self, name: str, kind: Kind, amount: int) -> None:
        if name not in self.simple:
            return
        if kind is Kind.TOKENS:
            self.count += 1
            self.ledger.charge(used(name, f"run {self.count}", amount))
        else:
            self.ledger.charge_seconds(name, amount)
        self.simple[name].charged[kind] += amount
        self.all[kind] += amount

    @rule(name=names, kind=KINDS, amount=AMOUNTS)
    def raise_limit(self, name: str, kind: Kind, amount: int) -> None:
        simple = self.simple.get(name)
        if simple is None or kind not in simple.limits:
            return
        limit = simple.limits[kind] + amount
        refused = self._too_wide(simple, kind, limit)
        try:
            self.ledger.raise_limit(name, kind, amount)
        except LimitTooWide:
            assert refused
        else:
            assert not refused
            simple.limits[kind] = limit

    @rule(name=names, kind=KINDS, amount=st.none() | AMOUNTS)
    def redeclare(self, name: str, kind: Kind, amount: int | None) -> None:
        simple = self.simple.get(name)
        if simple is None or (simple.reserved and kind not in simple.limits):
            return
        said = {**simple.declared}
        said.pop(kind, None)
        if amount is not None:
            said[kind] = amount
        refused = (
            amount is not None and said != simple.declared and self._too_wide(simple, kind, amount)
        )
        try:
            self.ledger.redeclare(name, Limits(**{one.value: said.get(one) for one in Kind}))
        except LimitTooWide:
            assert refused
            return
        assert not refused
        if said != simple.declared:
            simple.declared = said
            simple.limits.pop(kind, None)
            if amount is not None:
                simple.limits[kind] = amount

    @rule(name=consumes(names))
    def close(self, name: str) -> None:
        simple = self.simple.get(name)
        if simple is None:
            return
        self.ledger.close(name)
        for kind in Kind:
            spent = simple.spent(kind)
            if simple.parent is None:
                self.gone[kind] += spent
            else:
                simple.parent.charged[kind] += spent
        if simple.parent is not None:
            simple.parent.children.remove(simple)
        self._forget(simple)

    def _forget(self, simple: Simple) -> None:
        del self.simple[simple.name]
        for child in simple.children:
            self._forget(child)

    @rule()
    def restart_the_host(self) -> None:
        before = to_plain(self.ledger)
        self.ledger = from_plain(before, PRICES)
        assert to_plain(self.ledger) == before

    @invariant()
    def agrees_with_the_simple_sums(self) -> None:
        assert set(self.ledger.accounts) == set(self.simple)
        for name, simple in self.simple.items():
            for kind in (Kind.TOKENS, Kind.SECONDS):
                balance = self.ledger.balance(name, kind)
                assert balance.spent == simple.spent(kind)
                assert balance.delegated == simple.delegated(kind)
                assert balance.remaining == simple.remaining(kind)
                assert balance.allocated == simple.limits.get(kind)

    @invariant()
    def nothing_is_lost_or_counted_twice(self) -> None:
        for kind in (Kind.TOKENS, Kind.SECONDS):
            roots = (one for one in self.simple.values() if one.parent is None)
            now = sum(self.ledger.balance(one.name, kind).spent or 0 for one in roots)
            assert now + self.gone[kind] == self.all[kind]

    @invariant()
    def nobody_has_more_left_than_those_above(self) -> None:
        for name, simple in self.simple.items():
            for kind in (Kind.TOKENS, Kind.SECONDS):
                left = self.ledger.balance(name, kind).remaining
                above = simple.parent
                while above is not None:
                    limit = self.ledger.balance(above.name, kind).allocated
                    if limit is not None:
                        assert left is not None
                        assert left <= limit - above.spent(kind)
                    above = above.parent

    @invariant()
    def who_draws_on_what_is_spent_has_nothing_left(self) -> None:
        """A spent account has nothing left; an unspent one at its limit has drawn nothing."""
        for account in self.ledger.accounts.values():
            for kind in (Kind.TOKENS, Kind.SECONDS):
                pot = account.pots[kind]
                left = self.ledger.balance(account.name, kind).remaining
                if pot.is_spent:
                    assert left is not None
                    assert left <= 0
                elif pot.limit is not None and pot.spent >= pot.limit:
                    assert pot.drawn == 0, "others spent what was set aside for them"
                assert 0 <= pot.drawn <= pot.spent
                assert not pot.is_spent or pot.is_nearly_spent


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(50), stateful_step_count=40)


@given(
    st.lists(
        st.tuples(st.sampled_from(["site", "a", "b", "a/1", "a/2"]), KINDS, AMOUNTS), max_size=40
    ),
    st.randoms(use_true_random=False),
)
def test_charges_come_to_the_same_in_any_order(
    charges: list[tuple[str, Kind, int]], order: random.Random
) -> None:
    """The order of reports does not matter, as agents run side by side."""
    plain: list[object] = []
    for _ in range(2):
        ledger = BudgetLedger(PRICES)
        ledger.open("site", limits=Limits(tokens=100, seconds=100))
        ledger.delegate("a", "site", Limits(tokens=60))
        ledger.open("b", "site", Limits(tokens=90))
        ledger.delegate("a/1", "a", Limits(tokens=20, seconds=30))
        ledger.open("a/2", "a")
        for number, (name, kind, amount) in charges_by_number(charges, order):
            if kind is Kind.TOKENS:
                ledger.charge(used(name, f"run {number}", amount))
            else:
                ledger.charge_seconds(name, amount)
        plain.append([ledger.balance(name, kind) for name in ledger.accounts for kind in Kind])
    assert plain[0] == plain[1]


def charges_by_number(
    charges: list[tuple[str, Kind, int]], order: random.Random
) -> list[tuple[int, tuple[str, Kind, int]]]:
    """Return the charges in a random order, each with its fixed number."""
    numbered = list(enumerate(charges))
    order.shuffle(numbered)
    return numbered
