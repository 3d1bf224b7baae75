"""Which accounts may not be asked for a while, and until when (C-15, G-06).

A rate limit belongs to an account, not to a run: all runs that use the account see the same table.
The table is a value. Who owns the shared one, stores it and tells the runs of a change is the
shell; a run keeps the part of it that concerns its own chain.
"""

from __future__ import annotations

from collections.abc import Collection

from attrs import frozen

__all__ = ["VendorAccount", "Cooldown", "CooldownTable"]


@frozen
class VendorAccount:
    """The unit by which a vendor counts requests.

    Attributes:
        agent_cli: Name of the adapter.
        credential: Which of its logins; a name, never the secret itself.
    """

    agent_cli: str
    credential: str = ""

    def __str__(self) -> str:
        """Return it as a person would write it."""
        return f"{self.agent_cli} ({self.credential})" if self.credential else self.agent_cli


@frozen
class Cooldown:
    """One account that may not be asked yet.

    Attributes:
        account: Which.
        until: When it is free again, in Unix seconds.
        told: When that was told, in Unix seconds; of one that was ended before its time, when it
            was. 0 if unknown.
        reason: Why, in words; empty if unknown.
    """

    account: VendorAccount
    until: float
    told: float = 0.0
    reason: str = ""


@frozen
class CooldownTable:
    """The cooldowns known at one moment; each change makes another table.

    Attributes:
        entries: At most one for each account.
    """

    entries: tuple[Cooldown, ...] = ()

    def until(self, account: VendorAccount) -> float:
        """Return when `account` is free, in Unix seconds; 0 if it never was limited."""
        entry = self.of(account)
        return 0.0 if entry is None else entry.until

    def of(self, account: VendorAccount) -> Cooldown | None:
        """Return the entry of `account`; None if it never was limited."""
        return next((entry for entry in self.entries if entry.account == account), None)

    def with_cooldown(self, cooldown: Cooldown) -> CooldownTable:
        """Return the table with one more; of two for one account the longer stands.

        A vendor has more than one limit. The short one of a second run must not hide the long one
        that a first run was told.
        """
        if self.until(cooldown.account) >= cooldown.until:
            return self
        others = (entry for entry in self.entries if entry.account != cooldown.account)
        return CooldownTable((*others, cooldown))

    def moved(self, before: Cooldown, after: Cooldown) -> CooldownTable:
        """Return the table with `before`, where it is present, replaced by `after`."""
        return CooldownTable(tuple(after if one == before else one for one in self.entries))

    def merged(self, other: CooldownTable) -> CooldownTable:
        """Return what both know."""
        table = self
        for entry in other.entries:
            table = table.with_cooldown(entry)
        return table

    def only(self, accounts: Collection[VendorAccount]) -> CooldownTable:
        """Return what concerns `accounts`."""
        return CooldownTable(tuple(e for e in self.entries if e.account in accounts))

    def pruned(self, now: float) -> CooldownTable:
        """Return the table without cooldowns that are over at `now`, in Unix seconds."""
        return CooldownTable(tuple(entry for entry in self.entries if entry.until > now))
