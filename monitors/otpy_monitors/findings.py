"""What monitors report. Each is a frozen fact; whoever owns the worker decides what follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias, final

from attrs import frozen


class Action(StrEnum):
    """What a violation leads to (TREE-47)."""

    LOG = "log"
    """It is written to the log."""
    NOTIFY = "notify"
    """The parent and the user are told."""
    PAUSE = "pause"
    """The worker's process group is frozen."""
    WARN = "warn"
    """A message goes into the worker."""
    REAP = "reap"
    """The worker is ended and not restarted."""


class Subject(StrEnum):
    """What the pattern of a rule is searched in."""

    COMMAND = "command"
    """The arguments of the worker, joined by blanks."""
    PATH = "path"
    """Its working directory."""


@final
@frozen
class Rule:
    """One violation rule.

    Attributes:
        name: Unique among the rules; appears in reasons and logs.
        pattern: Searched, not matched from the start.
        on: Where it is searched.
        action: What follows if it is found.
    """

    name: str
    pattern: re.Pattern[str]
    on: Subject
    action: Action


@final
@frozen
class Stalled:
    """A worker made no progress for longer than it may (TREE-30).

    Attributes:
        path: Path of the process that owns it.
        incarnation: Which of its lives.
        quiet: Seconds since its last progress.
        limit: Seconds it may go without.
    """

    path: str
    incarnation: int
    quiet: float
    limit: float

    def __str__(self) -> str:
        """Return one line."""
        return f"stalled: no progress for {self.quiet:.1f} s, limit {self.limit:g} s"


@final
@frozen
class LoopLag:
    """Something blocked the event loop: every worker's supervisor was late by as much.

    Attributes:
        seconds: How late a timer fired.
        limit: How late it may fire.
    """

    seconds: float
    limit: float

    def __str__(self) -> str:
        """Return one line."""
        return f"event loop blocked for {self.seconds:.2f} s, limit {self.limit:g} s"


@final
@frozen
class OverBudget:
    """A budget is used up, or nearly (TREE-28).

    Attributes:
        path: Path of the process that owns the worker; empty for all workers together.
        what: "wall seconds" or "output bytes".
        used: How much of it.
        limit: How much there is.
        warning: Whether this is only the warning at nine tenths of it.
    """

    path: str
    what: str
    used: float
    limit: float
    warning: bool = False

    def __str__(self) -> str:
        """Return one line."""
        share = "nearly used up" if self.warning else "used up"
        whose = "" if self.path else " of the whole list"
        return f"budget{whose} {share}: {self.used:.6g} of {self.limit:.6g} {self.what}"


@final
@frozen
class Violated:
    """A worker broke a rule.

    Attributes:
        path: Path of the process that owns it.
        incarnation: Which of its lives.
        rule: The rule, with the action it asks for.
        found: What its pattern found.
    """

    path: str
    incarnation: int
    rule: Rule
    found: str

    def __str__(self) -> str:
        """Return one line."""
        return f"violation of {self.rule.name!r}: {self.rule.on.value} holds {self.found!r}"


@final
@frozen
class Swept:
    """A chore of the hygiene daemon cleaned something up, or failed (TREE-46).

    Attributes:
        chore: Its name.
        items: What it cleaned up, in order, one line each.
        error: Why it did not finish; empty if it did.
    """

    chore: str
    items: tuple[str, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        """Return one line."""
        done = f": {', '.join(self.items)}" if self.items else ""
        failed = f" failed: {self.error}" if self.error else ""
        return f"hygiene: {self.chore}{done}{';' if done and failed else ''}{failed}"


@final
@frozen
class BudgetNearlySpent:
    """Nine tenths of a budget are spent (TREE-44).

    Attributes:
        account: Whose.
        kind: "tokens", "cost_usd" or "seconds".
        spent: How much of it, with what the accounts below it spent.
        limit: How much there is.
        giver: The account it came from; empty if an operator gave it.
    """

    account: str
    kind: str
    spent: float
    limit: float
    giver: str

    def __str__(self) -> str:
        """Return one line."""
        used = f"{self.spent:.6g} of {self.limit:.6g} {self.kind}"
        return f"budget of {self.account!r} nearly spent: {used}"


@final
@frozen
class BudgetSpent:
    """A budget is spent (TREE-28). Whoever owns the agents pauses them, and `giver` decides.

    Attributes:
        account: Whose.
        kind: "tokens", "cost_usd" or "seconds".
        spent: How much of it, with what the accounts below it spent.
        limit: How much there is.
        giver: The account it came from, which decides; empty if an operator gave it.
        then: What follows: "escalate", "restart" or "warn". It is "restart" only if there is a
            fresh budget to restart with.
        stopped: The account and those below it to which it leaves nothing. One that lives on what
            was set aside for it is not among them.
    """

    account: str
    kind: str
    spent: float
    limit: float
    giver: str
    then: str
    stopped: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line."""
        used = f"{self.spent:.6g} of {self.limit:.6g} {self.kind}"
        return f"budget of {self.account!r} spent: {used}; {self.then}"


@final
@frozen
class PriceUnknown:
    """Tokens of a model were used that is in no price table: what they cost is not known (G-08).

    Attributes:
        model: Its name.
    """

    model: str

    def __str__(self) -> str:
        """Return one line."""
        return f"no price is known of model {self.model!r}: its tokens count, its cost does not"


@final
@frozen
class Sweeping:
    """A chore of the hygiene daemon is about to delete something.

    Attributes:
        chore: Its name.
        what: What, in one line.
        dry_run: Whether it is only said, and not done.
    """

    chore: str
    what: str
    dry_run: bool = False

    def __str__(self) -> str:
        """Return one line."""
        return f"hygiene: {self.chore} {'would delete' if self.dry_run else 'deletes'} {self.what}"


Finding: TypeAlias = (
    Stalled
    | LoopLag
    | OverBudget
    | Violated
    | Swept
    | BudgetNearlySpent
    | BudgetSpent
    | PriceUnknown
    | Sweeping
)
FindingHook: TypeAlias = Callable[[Finding], object]
"""Takes one finding; must not block. It belongs to whoever owns the workers."""
