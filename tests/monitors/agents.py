"""Agents of a feed that follow a test's script."""

from __future__ import annotations

from otpy_monitors import (
    Action,
    Activity,
    AgentAppeared,
    AgentCard,
    Check,
    Finding,
    RuleBook,
    RuleState,
    Violated,
    ViolationRule,
)


def card(agent: str = "site/a", **declared: object) -> AgentCard:
    """Return the card of an agent, whose process has the same name in the pool."""
    path = f"app/pool/{agent.rpartition('/')[2]}"
    return AgentCard(agent=agent, path=path, **declared)  # type: ignore[arg-type]


def judged(rules: ViolationRule | RuleBook, *story: Activity | AgentCard) -> list[list[Finding]]:
    """Return the findings of each activity of a story; a card appears at 0."""
    book = rules if isinstance(rules, RuleBook) else RuleBook((rules,))
    state = RuleState(book, resolve=lambda path: path)
    told = [AgentAppeared(0.0, one) if isinstance(one, AgentCard) else one for one in story]
    return [list(state.step(activity)) for activity in told]


def rule(check: Check, action: Action = Action.LOG, **more: tuple[str, ...]) -> ViolationRule:
    return ViolationRule("r", check, action, **more)


def found(check: Check, *story: Activity | AgentCard) -> list[str]:
    """Return what was found wrong with each activity of a story."""
    steps = judged(rule(check), *story)
    assert all(isinstance(one, Violated) for step in steps for one in step)
    return [" | ".join(one.found for one in step if isinstance(one, Violated)) for step in steps]
