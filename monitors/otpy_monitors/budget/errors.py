"""Every error of the budgets, under `OtpyError`.

```
BudgetError
├── AccountExists     (ValueError)     an account of that name is open
├── NoAccount         (LookupError)    no account of that name is open
├── LimitTooWide      (ValueError)     a limit beyond what the parent has to give
├── NoLimit           (ValueError)     there is no limit that could be raised
├── NoFreshBudget     (RuntimeError)   the fresh budgets of an account are used up
├── InvalidPrices     (ValueError)     a price table that cannot be read
├── BudgetCorrupt     (ValueError)     what was stored is not a ledger
└── BudgetTooNew      (ValueError)     a newer otpy_monitors stored this ledger
```
"""

from __future__ import annotations

from typing import final

from otpy import OtpyError

__all__ = [
    "AccountExists",
    "BudgetCorrupt",
    "BudgetError",
    "BudgetTooNew",
    "InvalidPrices",
    "LimitTooWide",
    "NoAccount",
    "NoFreshBudget",
    "NoLimit",
]


class BudgetError(OtpyError):
    """What budgets raise on purpose."""


@final
class AccountExists(BudgetError, ValueError):
    """An account of that name is open already.

    Attributes:
        account: The name.
    """

    def __init__(self, account: str) -> None:
        super().__init__(f"account {account!r} is open already")
        self.account = account


@final
class NoAccount(BudgetError, LookupError):
    """No account of that name is open: it was never opened, or is closed.

    Attributes:
        account: The name.
    """

    def __init__(self, account: str) -> None:
        super().__init__(f"no account {account!r} is open: it never was, or is closed")
        self.account = account


@final
class LimitTooWide(BudgetError, ValueError):
    """A limit may only narrow the one above it, and an account cannot pass on more than it has.

    Attributes:
        account: The account the limit was meant for.
        kind: The limited quantity: tokens, cost_usd or seconds.
        got: The limit asked for.
        wanted: The widest that is possible.
        giver: The account that sets that bound.
    """

    def __init__(self, account: str, kind: str, got: float, wanted: float, giver: str) -> None:
        super().__init__(
            f"account {account!r}: {kind} is {got:.12g}, "
            f"wanted at most {wanted:.12g}, which is what {giver!r} can give"
        )
        self.account = account
        self.kind = kind
        self.got = got
        self.wanted = wanted
        self.giver = giver


@final
class NoLimit(BudgetError, ValueError):
    """The account has no limit of that kind, so there is none to raise.

    Attributes:
        account: The account.
        kind: tokens, cost_usd or seconds.
    """

    def __init__(self, account: str, kind: str) -> None:
        super().__init__(f"account {account!r} has no limit of {kind}: there is none to raise")
        self.account = account
        self.kind = kind


@final
class NoFreshBudget(BudgetError, RuntimeError):
    """The account has had all the fresh budgets it may have.

    Attributes:
        account: The account.
        had: Fresh budgets it has had.
    """

    def __init__(self, account: str, had: int) -> None:
        super().__init__(f"account {account!r} has had {had} fresh budgets, and may have no more")
        self.account = account
        self.had = had


@final
class InvalidPrices(BudgetError, ValueError):
    """A price table cannot be read; the message names the file, the entry and the wanted form."""


@final
class BudgetCorrupt(BudgetError, ValueError):
    """The stored value is not a ledger.

    Attributes:
        place: Where in it.
    """

    def __init__(self, place: str, got: object, wanted: str) -> None:
        super().__init__(f"stored ledger: {place} is {got!r:.100}, wanted {wanted}")
        self.place = place


@final
class BudgetTooNew(BudgetError, ValueError):
    """A newer otpy_monitors stored this ledger.

    Attributes:
        got: Version of what was stored.
        wanted: The newest that can be read.
    """

    def __init__(self, got: int, wanted: int) -> None:
        super().__init__(f"stored ledger: version is {got}, wanted at most {wanted}")
        self.got = got
        self.wanted = wanted
