"""The stage on which the agents of a soak play, and its records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

from otpy_agents.testing import Script, ScriptedSandbox
from tests.agents.soak.plans import Plan

__all__ = ["Stage"]


@final
class Stage:
    """A scripted sandbox, and the books it keeps.

    Args:
        plans: The acts of its agents.

    Attributes:
        sandbox: The sandbox.
        twins: Agents that were begun while they were at work already.
    """

    def __init__(self, plans: Iterable[Plan]) -> None:
        self.sandbox = ScriptedSandbox({plan.id: self._watched(plan) for plan in plans})
        self.twins: list[str] = []

    def _watched(self, plan: Plan) -> Callable[[int], Script]:
        def begin(number: int) -> Script:
            if any(one.agent == plan.id for one in self.sandbox.alive):
                self.twins.append(plan.id)
            return plan(number)

        return begin

    @property
    def answers(self) -> Counter[str]:
        """The number of times that each agent has answered that it is done."""
        return Counter(
            agent
            for agent, lines in self._said()
            for said in lines
            if said["type"] == "result" and said["text"] == "done"
        )

    @property
    def tokens(self) -> Counter[str]:
        """The tokens that each agent has told: the last reading of each attempt."""
        spent: Counter[str] = Counter()
        for agent, lines in self._said():
            readings = [one["input"] + one["output"] for one in lines if one["type"] == "usage"]
            spent[agent] += readings[-1] if readings else 0
        return spent

    def _said(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for one in self.sandbox.played:
            yield one.agent, [json.loads(line) for line in one.lines]
