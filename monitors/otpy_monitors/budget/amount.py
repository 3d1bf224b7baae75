"""The kind and the amount of a budget, and the consequence when it is spent."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Final, Self, final

from attrs import frozen

from otpy import InvalidSpec

__all__ = ["Balance", "Exceeding", "Kind", "Limits", "OnExceed"]


class Kind(StrEnum):
    """The counted quantity."""

    TOKENS = "tokens"
    """Tokens read and written, those from a cache included."""
    COST_USD = "cost_usd"
    """US dollars."""
    SECONDS = "seconds"
    """Time in which an agent was there and did not wait."""
    OUTPUT_BYTES = "output_bytes"
    """Bytes of output, whatever they say."""

    def whole(self, amount: float) -> int:
        """Return `amount` in the whole units it is kept in.

        They are tokens, nano-dollars, microseconds and bytes.
        """
        return round(amount * _UNITS[self])

    def shown(self, units: int) -> float:
        """Return whole units as people write them."""
        return units / _UNITS[self] if _UNITS[self] > 1 else units


# Whole numbers add up to the same sum in any order; a ledger of floats would not.
_UNITS: Final = {
    Kind.TOKENS: 1,
    Kind.COST_USD: 10**9,
    Kind.SECONDS: 10**6,
    Kind.OUTPUT_BYTES: 1,
}


@final
@frozen(kw_only=True)
class Limits:
    """How much may be spent; None for what only the accounts above limit.

    Attributes:
        tokens: Tokens.
        cost_usd: US dollars.
        seconds: Seconds.
        output_bytes: Bytes of output.

    Raises:
        InvalidSpec: A limit is not a finite number of at least 0.
    """

    tokens: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    output_bytes: float | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        for kind in Kind:
            limit = self.of(kind)
            if limit is not None and not (0 <= limit < math.inf):
                msg = f"limit of {kind} is {limit!r}, wanted a finite number of at least 0"
                raise InvalidSpec(msg)

    def of(self, kind: Kind) -> float | None:
        """Return the limit of one kind."""
        amount: float | None = getattr(self, kind.value)
        return amount


class Exceeding(StrEnum):
    """What follows when a budget is spent (C-12)."""

    ESCALATE = "escalate"
    """The agents that live on it pause at a turn boundary, and the budget's giver decides."""
    RESTART = "restart"
    """They are restarted with a fresh budget, a number of times; then as `ESCALATE`."""
    WARN = "warn"
    """It is told, and they go on."""
    REAP = "reap"
    """They are ended and not restarted."""


@final
@frozen
class OnExceed:
    """What follows when the budget of an account is spent, as data.

    Written and read as `escalate`, `restart(fresh=2)`, `warn` or `reap`.

    Attributes:
        action: What.
        fresh: With `RESTART`, how many fresh budgets there are, each as large as the first.

    Raises:
        InvalidSpec: `fresh` is given to another action, or is below 1 for `RESTART`.
    """

    action: Exceeding = Exceeding.ESCALATE
    fresh: int = 0

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        if (self.action is Exceeding.RESTART) != (self.fresh > 0) or self.fresh < 0:
            wanted = "at least 1 for restart and 0 for the others"
            msg = f"on_exceed {self.action.value!r}: fresh is {self.fresh!r}, wanted {wanted}"
            raise InvalidSpec(msg)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what `text` says.

        Raises:
            InvalidSpec: It says nothing that is known.
        """
        if text in {Exceeding.ESCALATE, Exceeding.WARN, Exceeding.REAP}:
            return cls(Exceeding(text))
        found = re.fullmatch(r"restart\(fresh=([0-9]{1,6})\)", text)
        if found is None:
            msg = f"on_exceed is {text!r}, wanted escalate, restart(fresh=NUMBER), warn or reap"
            raise InvalidSpec(msg)
        return cls(Exceeding.RESTART, int(found[1]))

    def __str__(self) -> str:
        """Return it as `parse` reads it."""
        fresh = f"(fresh={self.fresh})" if self.action is Exceeding.RESTART else ""
        return f"{self.action.value}{fresh}"


@final
@frozen(kw_only=True)
class Balance:
    """How an account stands in one kind: `allocated - spent - delegated`, bounded from above.

    Attributes:
        account: Its name.
        kind: The counted quantity.
        allocated: Its limit; None if only the accounts above limit it.
        spent: By it, its children, and those that are closed. None if it is not known, because
            some of it has no price; then it is `known` or more.
        known: The known usage.
        delegated: The amount set aside for children and not spent by them.
        remaining: The amount it may still spend or hand on, given the accounts above;
            below 0 if it spent more than it had; None if nothing limits it.
        unpriced_tokens: Tokens whose price is not known; only of `COST_USD`.
    """

    account: str
    kind: Kind
    allocated: float | None
    spent: float | None
    known: float
    delegated: float
    remaining: float | None
    unpriced_tokens: int = 0

    def __str__(self) -> str:
        """Return one line."""
        spent = f"{self.known:.6g}" if self.spent is not None else f"{self.known:.6g} or more"
        limit = "" if self.allocated is None else f" of {self.allocated:.6g}"
        held = f", {self.delegated:.6g} delegated" if self.delegated else ""
        left = "" if self.remaining is None else f", {self.remaining:.6g} left"
        return f"{self.account}: {spent}{limit} {self.kind.value} spent{held}{left}"
