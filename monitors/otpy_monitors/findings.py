"""What monitors report. Each is a frozen fact; the owner of the worker decides what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from attrs import frozen

from otpy_monitors.rules import Action, ViolationRule


@final
@frozen
class Stalled:
    """An agent made no progress for longer than it may (TREE-30).

    Attributes:
        path: Path of the process that owns it.
        incarnation: Which of its lives.
        quiet: Seconds since its last progress.
        limit: Seconds it may go without.
        agent: Key of the agent.
        tool: The tool that was called last and has not ended; empty if none is open.
    """

    path: str
    incarnation: int
    quiet: float
    limit: float
    agent: str = ""
    tool: str = ""

    def __str__(self) -> str:
        """Return one line."""
        tool = f", in a call of {self.tool!r}" if self.tool else ""
        return f"stalled: no progress for {self.quiet:.1f} s{tool}, limit {self.limit:g} s"


@final
@frozen
class StallWarned:
    """An agent will soon count as stalled: it is told before anything is done about it.

    Attributes:
        path: Path of the process that owns it.
        incarnation: Which of its lives.
        quiet: Seconds since its last progress.
        limit: Seconds it may go without.
        agent: Its key.
        left: Seconds until it counts as stalled.
        tool: The tool that was called last and has not ended; empty if none is open.
    """

    path: str
    incarnation: int
    quiet: float
    limit: float
    agent: str
    left: float
    tool: str = ""

    def __str__(self) -> str:
        """Return one line."""
        tool = f", in a call of {self.tool!r}" if self.tool else ""
        quiet = f"no progress for {self.quiet:.1f} s{tool}"
        return f"{quiet}; counts as stalled in {self.left:.1f} s"


@final
@frozen
class LoopStalled:
    """One step of one child blocks the event loop: nothing else in the tree moves meanwhile.

    Attributes:
        path: Path of the child; empty if the step belongs to none.
        incarnation: Which of its lives; 0 if the step belongs to no child.
        seconds: How long it has blocked the loop so far.
        stack: Where it stands, oldest call first, one line each.
    """

    path: str
    incarnation: int
    seconds: float
    stack: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line."""
        where = f" at {self.stack[-1].strip()}" if self.stack else ""
        return f"{self.path or 'no child'} blocks the event loop for {self.seconds:.2f} s{where}"


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
class Violated:
    """An agent broke a rule.

    Attributes:
        path: Path of the process that owns it.
        incarnation: Which of its lives.
        rule: The rule, with the action it asks for.
        found: The agent's activity, in one line.
        agent: Key of the agent.
        parent: Key of what the agent belongs to, which is to be told as well; empty for none.
    """

    path: str
    incarnation: int
    rule: ViolationRule
    found: str
    agent: str = ""
    parent: str = ""

    def __str__(self) -> str:
        """Return one line."""
        return f"violation of {self.rule.name!r}: {self.found}"


@final
@frozen
class RuleBroken:
    """A rule could not be applied, because checking it raised; so it counts as violated.

    Attributes:
        path: Path of the process that owns the agent.
        incarnation: Which of its lives.
        rule: The rule.
        error: The exception, in one line.
        agent: Key of the agent.
        parent: Key of what the agent belongs to; empty for none.
    """

    path: str
    incarnation: int
    rule: ViolationRule
    error: str
    agent: str
    parent: str = ""

    @property
    def action(self) -> Action:
        """The consequence: to pause, or to reap if the rule asks for that."""
        return Action.REAP if self.rule.action is Action.REAP else Action.PAUSE

    def __str__(self) -> str:
        """Return one line."""
        return f"rule {self.rule.name!r} could not be checked ({self.error}): {self.action}"


@final
@frozen
class RulesInForce:
    """The violation monitor began to apply these rules; told at each of its starts.

    Attributes:
        file: The rule file; empty for rules made in Python.
        digest: SHA-256 of the rule file, in hex; empty for rules made in Python.
        rules: Their names, in order.
    """

    file: str
    digest: str
    rules: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line."""
        count = f"{len(self.rules)} violation rule{'' if len(self.rules) == 1 else 's'}"
        source = f"{self.file}, sha256 {self.digest}" if self.file else "Python"
        return f"{count} in force, from {source}"


@final
@frozen
class RulesExposed:
    """An agent appeared that may write where the rules come from.

    The rules in force are in memory, and stay as they are; those of the next start may not.

    Attributes:
        path: Path of the process that owns the agent.
        incarnation: Which of its lives.
        file: The rule file, or the module of a predicate.
        folder: The folder of the agent's card that holds it, or a link on the way to it.
        agent: Key of the agent.
        parent: Key of what the agent belongs to; empty for none.
    """

    path: str
    incarnation: int
    file: str
    folder: str
    agent: str
    parent: str = ""

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.file} is within reach of {self.agent!r}, which may write in {self.folder}"


@final
@frozen
class Unjudged:
    """Activities went by that no rule was applied to, because the monitor was dead for too long.

    Attributes:
        count: How many.
    """

    count: int

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.count} activities were not judged: the violation monitor was away"


@final
@frozen
class Swept:
    """A chore of the hygiene daemon cleaned something up, or failed (TREE-46).

    Attributes:
        chore: Its name.
        items: The cleaned-up items, in order, one line each.
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
        kind: "tokens", "cost_usd", "seconds" or "output_bytes".
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
    """A budget is spent (TREE-28). The owner of the agents pauses them, and `giver` decides.

    Attributes:
        account: Whose.
        kind: "tokens", "cost_usd", "seconds" or "output_bytes".
        spent: How much of it, with what the accounts below it spent.
        limit: How much there is.
        giver: The account it came from, which decides; empty if an operator gave it.
        then: What follows: "escalate", "restart", "warn" or "reap". It is "restart" only if there
            is a fresh budget to restart with.
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

    @property
    def what(self) -> str:
        """The spent budget in one line, without the consequence."""
        used = f"{self.spent:.6g} of {self.limit:.6g} {self.kind}"
        return f"budget of {self.account!r} spent: {used}"

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.what}; {self.then}"


@final
@frozen
class PriceUnknown:
    """A used model is in no price table: the cost of its tokens is unknown (G-08).

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
    | StallWarned
    | LoopLag
    | LoopStalled
    | Violated
    | RuleBroken
    | RulesInForce
    | RulesExposed
    | Unjudged
    | Swept
    | BudgetNearlySpent
    | BudgetSpent
    | PriceUnknown
    | Sweeping
)
FindingHook: TypeAlias = Callable[[Finding], object]
"""Takes one finding; must not block. It belongs to the owner of the workers."""
