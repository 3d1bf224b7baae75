"""Usage as agents tell it, and prices that are easy to add up."""

from __future__ import annotations

from otpy_monitors import Price, Prices
from otpy_monitors.activity import UsageSeen

PRICES = Prices(entries=[Price(models=("model",), input=2.0, output=10.0, cached=0.5)])


def used(
    agent: str,
    run: str = "run",
    tokens: int = 0,
    *,
    output: int = 0,
    cached: int = 0,
    model: str = "model",
    cumulative: bool = False,
    cost: float | None = None,
    at: float = 0.0,
) -> UsageSeen:
    """Return one reading; `tokens` are those read and not from a cache."""
    return UsageSeen(
        agent=agent,
        at=at,
        run=run,
        model=model,
        input_tokens=tokens,
        output_tokens=output,
        cached_tokens=cached,
        cumulative=cumulative,
        cost_usd=cost,
    )
