"""Agents that spend, a store that remembers, and the findings of a daemon about them."""

from __future__ import annotations

import asyncio
import json
from typing import final

from otpy_monitors import Bookkeeper, BudgetLedger, Feed, Finding, Kind
from otpy_monitors.activity import (
    AgentAppeared,
    AgentCard,
    AgentGone,
    RestBegan,
    RestEnded,
)
from otpy_monitors.budget.ledger_json import Plain
from tests.monitors.budget.usage import PRICES, used


@final
class Office:
    """A feed, a ledger charged by it, and the findings, each with its time."""

    def __init__(self, ledger: BudgetLedger | None = None) -> None:
        self.feed = Feed()
        self.ledger = BudgetLedger(PRICES) if ledger is None else ledger
        self.bookkeeper = Bookkeeper(self.feed, self.ledger)
        self.found: list[Finding] = []
        self.times: list[float] = []

    def report(self, finding: Finding) -> None:
        self.found.append(finding)
        self.times.append(self.now)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def appear(self, agent: str, parent: str = "") -> None:
        card = AgentCard(agent=agent, path=f"app/{agent}", parent=parent)
        self.feed.tell(AgentAppeared(self.now, card))

    def go(self, agent: str) -> None:
        self.feed.tell(AgentGone(agent, self.now, "done"))

    def wait(self, agent: str) -> None:
        self.feed.tell(RestBegan(agent, self.now, "a person"))

    def wait_no_more(self, agent: str) -> None:
        self.feed.tell(RestEnded(agent, self.now))

    def use(self, agent: str, tokens: int, run: str = "", model: str = "model") -> None:
        """Use this many more tokens; with `run`, use this many in total in that run."""
        self.feed.tell(used(agent, run, tokens, model=model, at=self.now))

    def spent(self, account: str, kind: Kind = Kind.TOKENS) -> float | None:
        self.bookkeeper.settle()
        return self.ledger.balance(account, kind).spent


@final
class Memory:
    """A store that keeps the text of what was saved, and may be slow or broken.

    Attributes:
        saved: Each text, with the time at which it was kept.
    """

    def __init__(self, takes: float = 0.0) -> None:
        self.saved: list[tuple[float, str]] = []
        self.takes = takes
        self.error: Exception | None = None

    async def load(self) -> Plain | None:
        return json.loads(self.saved[-1][1]) if self.saved else None

    async def save(self, plain: Plain) -> None:
        text = json.dumps(plain)
        await asyncio.sleep(self.takes)
        if self.error is not None:
            raise self.error
        self.saved.append((asyncio.get_running_loop().time(), text))
