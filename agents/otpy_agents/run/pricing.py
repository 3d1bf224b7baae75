"""What tokens cost, for agents that do not say."""

from __future__ import annotations

from functools import cache
from typing import Final

from attrs import evolve

from otpy_agents.run.usage import Usage
from otpy_monitors.budget.prices import Prices

__all__ = ["priced"]

_NANO: Final = 1e-9


def priced(usage: Usage | None, model: str) -> Usage | None:
    """Return `usage` with its cost, from the price table that ships with the monitors.

    Args:
        usage: As the agent reported it; what it says of money counts before the table.
        model: The model's own name. One that has no known price leaves the cost 0.
    """
    if usage is None or not usage.unpriced:
        return usage
    price = _table().of(model)
    if price is None:
        return usage
    fresh = max(0, usage.input - usage.cached)
    cost = price.cost(input=fresh, output=usage.output, cached=usage.cached)
    return evolve(usage, cost_usd=cost * _NANO)


@cache
def _table() -> Prices:
    return Prices.shipped()
