"""Charges a ledger with a feed's activities. It outlives the daemons, which may die at any time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from otpy_monitors.activity import (
    PROGRESS,
    Activity,
    AgentAppeared,
    AgentGone,
    OutputSeen,
    RestBegan,
    RestEnded,
    UsageSeen,
)
from otpy_monitors.budget.amount import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otpy_monitors.activity import AgentCard
    from otpy_monitors.budget.account import Account, Pot
    from otpy_monitors.budget.ledger import BudgetLedger
    from otpy_monitors.feed import Feed

__all__ = ["Bookkeeper"]

_SOON: Final = 1_000  # microseconds; a timer of 0 would find nothing changed, again and again


@final
class Bookkeeper:
    """Charges usage, time and output of agents to their accounts, in the moment they are told.

    It has no task: a monitor that is dead misses nothing. An agent that has no account yet gets
    one without limits, below that of its card's `parent`, so that those above it are charged.

    Time is that in which an agent is there and does not wait; waits are told by `RestBegan`. Two
    agents side by side use up what is above them twice as fast.

    Args:
        feed: What agents do. Those already there are charged from now on.
        ledger: The ledger to charge.
        clock: Time of the feed's facts, in seconds; None for that of the running loop.

    Attributes:
        ledger: The ledger to charge.
        revision: Counts starts and stops of agents' clocks.
    """

    def __init__(
        self, feed: Feed, ledger: BudgetLedger, *, clock: Callable[[], float] | None = None
    ) -> None:
        self.ledger = ledger
        self.revision = 0
        self._feed = feed
        self._clock = asyncio.get_running_loop().time if clock is None else clock
        self._since: dict[str, float] = {}
        self._waiting: set[str] = set()
        for card in feed.cards():
            self._appeared(card, self._clock())
            if feed.waiting(card.agent) is not None:
                self._stop(card.agent, self._clock())
                self._waiting.add(card.agent)
        self._subscription = feed.subscribe(self._hear)

    def close(self) -> None:
        """Charge the time so far, and stop listening; without effect if it is closed."""
        self._subscription.close()
        for agent in list(self._since):
            self._stop(agent, self._clock())

    @property
    def running(self) -> int:
        """How many agents use up time just now."""
        return len(self._since)

    def settle(self, *, limited: bool = False) -> None:
        """Charge the time that has passed until now. Do so before you read a balance of seconds.

        Args:
            limited: Charge only those whose time has a limit, theirs or one above them: all that
                is needed to know what is spent.
        """
        now = self._clock()
        for agent, since in self._since.items():
            if limited and not self._has_limit(agent):
                continue
            charged = self._charge_time(agent, now - since)
            self._since[agent] = since + charged  # what was rounded off is charged the next time

    def next_end(self) -> float | None:
        """Return in how many seconds the next budget of time is nearly, or wholly, spent.

        Settle first. None if none will be, as things are.
        """
        ends = [end for pot, rate in self._rates() if (end := _microseconds(pot, rate)) is not None]
        return Kind.SECONDS.shown(max(min(ends), _SOON)) if ends else None

    def _rates(self) -> Iterator[tuple[Pot, int]]:
        """Yield the limited pots of seconds that are being drawn on, and by how many agents."""
        rates: dict[str, tuple[Pot, int]] = {}
        for agent in self._since:
            if agent in self.ledger:
                for account in _drawn_by(self.ledger.accounts[agent]):
                    pot, rate = rates.get(account.name, (account.pots[Kind.SECONDS], 0))
                    rates[account.name] = pot, rate + 1
        yield from rates.values()

    # --- what the feed tells ---------------------------------------------------------------------

    def _hear(self, activity: Activity) -> None:
        agent, at = activity.agent, activity.at
        match activity:
            case AgentAppeared(card=card):
                self._appeared(card, at)
            case AgentGone():
                self._stop(agent, at)
                self._waiting.discard(agent)
            case RestBegan() if agent in self._since:
                self._stop(agent, at)
                self._waiting.add(agent)
            case RestEnded():
                self._go_on(agent, at)
            case _:
                if agent in self._waiting and isinstance(activity, PROGRESS):
                    self._go_on(agent, at)
        if isinstance(activity, UsageSeen | OutputSeen):
            if agent not in self.ledger:
                self.ledger.open(agent)
            self.ledger.charge(activity)

    def _appeared(self, card: AgentCard, at: float) -> None:
        self._stop(card.agent, at)  # an earlier life is over, even if that was not told
        self._waiting.discard(card.agent)
        if card.agent not in self.ledger:
            if card.parent and card.parent not in self.ledger:
                self.ledger.open(card.parent)
            self.ledger.open(card.agent, card.parent)
        self._start(card.agent, at)

    def _go_on(self, agent: str, at: float) -> None:
        if agent in self._waiting:
            self._waiting.discard(agent)
            self._start(agent, at)

    def _start(self, agent: str, at: float) -> None:
        self._since[agent] = at
        self.revision += 1
        self._charge_time(agent, 0.0)  # listeners of the ledger hear that time runs

    def _stop(self, agent: str, at: float) -> None:
        since = self._since.pop(agent, None)
        if since is not None:
            self.revision += 1
            self._charge_time(agent, at - since)

    def _has_limit(self, agent: str) -> bool:
        account = self.ledger.accounts.get(agent)
        return account is not None and next(_drawn_by(account), None) is not None

    def _charge_time(self, agent: str, seconds: float) -> float:
        if agent not in self.ledger:  # its account was closed first, and with it the matter
            return seconds
        return self.ledger.charge_seconds(agent, seconds)


def _drawn_by(account: Account) -> Iterator[Account]:
    """Yield the accounts whose time runs with this one's: up to the first with time set aside."""
    for above in account.upward():
        pot = above.pots[Kind.SECONDS]
        remaining = pot.remaining
        if remaining is not None:
            yield above
            if pot.reserved and remaining > 0:
                return


def _microseconds(pot: Pot, rate: int) -> int | None:
    """Return when a pot that `rate` agents draw on will be nearly, or wholly, spent."""
    remaining = pot.remaining
    if remaining is None or pot.is_spent:
        return None
    if not pot.is_nearly_spent:
        remaining -= (pot.drawn + remaining) // 10
    return -(-remaining // rate)
