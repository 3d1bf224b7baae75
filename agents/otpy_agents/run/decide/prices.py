"""What tokens cost, for agents that do not say, and which agents no budget of dollars holds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, final

from attrs import evolve, frozen

from otpy_agents.attempt.usage import Usage
from otpy_agents.run.decide.chain import AgentInstance
from otpy_monitors.budget.prices import Prices

__all__ = ["Unheld", "priced", "unheld"]

_TELL_COSTS: Final = frozenset({"claude", "command"})
_TELL_MODELS: Final = frozenset({"copilot", "gemini"})
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


@final
@frozen
class Unheld:
    """An agent that a budget of dollars may not hold, as far as is known before it begins.

    Attributes:
        agent_id: The agent.
        model: Its model; empty if the configuration of its CLI decides.
    """

    agent_id: str
    model: str

    def __str__(self) -> str:
        """Return it in one line, with what to set."""
        known = "set `model` to one whose price is known"
        if self.model:
            why = f"the price of its model {self.model!r} is unknown"
            return f"{self.agent_id} is not held by the budget: {why}; {known}"
        return f"{self.agent_id} may not be held by the budget: it names no model; {known}"


def unheld(agents: Iterable[AgentInstance]) -> tuple[Unheld, ...]:
    """Return those whose price is not known before their first request (G-08).

    Known is that of a model in the price table, and that of a CLI that says itself what it costs.
    Without a named model it is also enough that the CLI tells which one it uses.
    """
    return tuple(
        Unheld(agent.agent_id, agent.model or "")
        for agent in agents
        if not _is_priced(agent.agent_cli, agent.model or "")
    )


def _is_priced(cli: str, model: str) -> bool:
    if cli in _TELL_COSTS:
        return True
    return cli in _TELL_MODELS if not model else _table().of(model) is not None


@cache
def _table() -> Prices:
    return Prices.shipped()
