"""What becomes of a changeset when its agent is restarted: a table (TREE-38)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from attrs import evolve, frozen

__all__ = ["FATES", "Fate", "FateRule", "Fates"]


class Fate(StrEnum):
    """What the next life of an agent finds."""

    KEEP = "keep"
    """Everything as the last one left it."""
    DISCARD = "discard"
    """A fresh work tree; what was there is on a branch until hygiene deletes that."""


@frozen
class FateRule:
    """One line of the table.

    Attributes:
        reason: Why the agent is restarted, in one word.
        fate: What follows.
        why: Why it does, for people.
    """

    reason: str
    fate: Fate
    why: str


FATES: Final = (
    FateRule("budget", Fate.KEEP, "the work is good as far as it goes"),
    FateRule("stall", Fate.DISCARD, "who goes in circles has spoilt the work"),
    FateRule("verification", Fate.DISCARD, "the work has been found wrong"),
    FateRule("tests_failed", Fate.KEEP, "the agent is told what to mend"),
    FateRule("gang", Fate.DISCARD, "the whole group was on a wrong path"),
    FateRule("crash", Fate.KEEP, "the agent failed, not its work"),
    FateRule("session", Fate.KEEP, "the session was broken, not the work"),
    FateRule("deadline", Fate.KEEP, "too slow is not wrong"),
    FateRule("rate_limit", Fate.KEEP, "it had to wait"),
    FateRule("network", Fate.KEEP, "it had to wait"),
    FateRule("host", Fate.KEEP, "the agent did nothing wrong"),
    FateRule("operator", Fate.KEEP, "a person can discard it"),
    FateRule("violation", Fate.KEEP, "a person must see it"),
)
"""The default table."""


@frozen
class Fates:
    """The table: what becomes of a changeset, by the reason of the restart.

    Attributes:
        rules: One for each reason.
    """

    rules: tuple[FateRule, ...] = FATES

    def of(self, reason: str) -> Fate:
        """Return the fate for a reason; a reason that is not in the table keeps the work."""
        found = {rule.reason: rule.fate for rule in self.rules}
        return found.get(reason, Fate.KEEP)

    def extended(self, *rules: FateRule) -> Fates:
        """Return a table with more rules, each in place of the one for the same reason."""
        merged = {rule.reason: rule for rule in (*self.rules, *rules)}
        return evolve(self, rules=tuple(merged.values()))

    def table(self) -> str:
        """Return the table as text for people."""
        rows = [("reason", "work", "because"), *((r.reason, r.fate, r.why) for r in self.rules)]
        rows.append(("any other", Fate.KEEP, "keeping can be undone"))
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(
            f"{reason.ljust(widths[0])}  {fate.ljust(widths[1])}  {why}"
            for reason, fate, why in rows
        )
