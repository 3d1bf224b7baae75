"""More of a budget, as an operator types it: for a tree that runs, and for one that does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from otpy import OtpyError
from otpy_agents.errors import CommandRefused
from otpy_monitors import Kind

if TYPE_CHECKING:
    from otpy_monitors import BudgetLedger

__all__ = ["amounts_of", "grant_each"]

_GRANTS: Final = (
    ("tokens", Kind.TOKENS, 1),
    ("usd", Kind.COST_USD, 1),
    ("minutes", Kind.SECONDS, 60),
    ("bytes", Kind.OUTPUT_BYTES, 1),
)


def amounts_of(arguments: Mapping[str, object]) -> dict[Kind, float]:
    """Return how much of what the arguments of a command grant.

    Raises:
        CommandRefused: Nothing.
    """
    wanted: dict[Kind, float] = {}
    for name, kind, size in _GRANTS:
        amount = arguments.get(name)
        if isinstance(amount, int | float) and not isinstance(amount, bool) and amount > 0:
            wanted[kind] = amount * size
    if not wanted:
        raise CommandRefused("grant: got no amount above 0, wanted tokens, usd, minutes or bytes")
    return wanted


def grant_each(
    wanted: Mapping[Kind, float],
    grant: Callable[[Kind, float], object],
    ledger: BudgetLedger,
    account: str,
) -> str:
    """Grant each amount, and return what is left now.

    Args:
        wanted: How much of what.
        grant: Grants an amount of a kind.
        ledger: Where the account is.
        account: Whose it is.

    Raises:
        CommandRefused: One cannot be granted; those before it were.
    """
    granted: list[str] = []
    for kind, amount in wanted.items():
        try:
            grant(kind, amount)
        except OtpyError as error:
            before = f"; {' and '.join(granted)} granted before" if granted else ""
            raise CommandRefused(f"grant: {error}{before}") from None
        left = ledger.balance(account, kind).remaining or 0
        granted.append(f"{amount:g} {kind} more ({left:g} left)")
    return ", ".join(granted)
