"""What all projects of one host share: the feed, the host of runs, and the limit of starts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, final

from otpy_agents.agent.accounts import Accounts
from otpy_agents.agent.budgets import Budgets
from otpy_agents.agent.effort import Efforts
from otpy_agents.agent.failures import FailureTable
from otpy_agents.agent.narrator import Narrator
from otpy_agents.agent.places import StartLimit, Turns
from otpy_agents.agent.runs import HostedRuns, Runs
from otpy_agents.run.decide.policy import RetryPolicy
from otpy_agents.run.host.admission import sandbox_of
from otpy_agents.run.host.host import RunHost
from otpy_agents.run.host.order import SandboxChoice
from otpy_agents.worklist.start_rate import StartRate
from otpy_monitors import Feed, RuleBook

if TYPE_CHECKING:
    from otpy_agents.run.host.facts import Listener
    from otpy_agents.sandbox.behaviour import Sandbox
    from otpy_agents.store.runs import RunStore
    from otpy_monitors import BudgetLedger

__all__ = ["Workplace"]


@final
class Workplace:
    """One host's place of work: a plain object, passed to the supervised parts.

    Args:
        store: The open store of runs; None if no agent is to work here, only plain programs.
        sandboxes: Sandboxes by name, before those that are built in.
        sandbox: Where attempts of agents are made.
        policy: What their runs do about failures; whether they resume, their context says.
        failures: The meaning of run failures for agents.
        rate: How fast mortals of one vendor may be restarted, over all projects (G-17).
        rules: Rules on what agents and programs do; None for none.
        budget: The ledger of budgets that an earlier host has left; None for an empty one.
        watch_loop: Whether a thread looks for steps that block the event loop.
        chance: Draws a number from 0 to 1.
        listeners: More listeners for the facts of all runs.

    Attributes:
        store: As given.
        sandboxes: As given.
        feed: Where what agents do is told.
        narrator: Tells it.
        turns: Whose run waits for its account, and gets a place when that is free.
        store: As given.
        host: The host of runs, to be put into the tree; None without a store.
        runs: Where mortals have their runs made; None without a store.
        sandbox: As given.
        policy: As given.
        failures: As given.
        rules: As given.
        watch_loop: As given.
        hygiene_dry_run: Whether hygiene only tells what it would delete; set it before the start.
        budgets: Accounts of projects and agents.
        starts: How fast mortals may be restarted.
        efforts: How far each Jake who works here has come.
        tells: How a person is told something, of each list that works here.
    """

    def __init__(
        self,
        store: RunStore | None = None,
        *,
        sandboxes: Mapping[str, Sandbox] | None = None,
        sandbox: SandboxChoice | None = None,
        policy: RetryPolicy | None = None,
        failures: FailureTable | None = None,
        rate: StartRate | None = None,
        rules: RuleBook | None = None,
        budget: BudgetLedger | None = None,
        watch_loop: bool = False,
        chance: Callable[[], float] = random.random,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.store = store
        self.sandboxes: Mapping[str, Sandbox] = dict(sandboxes or {})
        self.feed = Feed()
        self.narrator = Narrator(self.feed)
        self.turns = Turns()
        self.host: RunHost | None = None
        self.runs: Runs | None = None
        if store is not None:
            self.host = RunHost(
                store,
                listeners=[
                    *(self.narrator.hear, self.turns.hear, Accounts(self._notify).hear),
                    *listeners,
                ],
                sandboxes=self.sandboxes,
                turn=self.turns.may_go_on,
            )
            self.runs = HostedRuns(self.host, store)
        self.sandbox = sandbox or SandboxChoice()
        self.policy = policy or RetryPolicy()
        self.failures = failures or FailureTable()
        self.rules = rules or RuleBook(())
        self.watch_loop = watch_loop
        self.hygiene_dry_run = False
        self.budgets = Budgets(self.feed, budget)
        self.starts = StartLimit(rate or StartRate(), chance)
        self.efforts = Efforts()
        self.tells: list[Callable[..., None]] = []
        self._tried: set[str] = set()  # names of the sandboxes that have worked

    def _notify(self, account: str, detail: str) -> None:
        """Tell a person about a problem with an account; it concerns all projects alike."""
        for tell in self.tells[:1]:
            tell("operator.notified", account, detail=detail)

    async def try_sandbox(self, choice: SandboxChoice) -> None:
        """Look once whether a sandbox works here, before the first agent is started in it.

        What comes in the way of one that has worked passes, as a rule: its runs wait for that.

        Raises:
            SandboxUnavailable: It does not.
        """
        if choice.name not in self._tried:
            await sandbox_of(choice, self.sandboxes).check()
            self._tried.add(choice.name)
