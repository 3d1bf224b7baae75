"""The cooldowns of accounts, as all runs know them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otpy_agents.run.decide.cooldown import Cooldown, CooldownTable, VendorAccount

ACCOUNTS = [
    VendorAccount("claude"),
    VendorAccount("claude", "team"),
    VendorAccount("codex", "team"),
]
COOLDOWNS = st.builds(Cooldown, st.sampled_from(ACCOUNTS), st.floats(0, 100))


def table_of(cooldowns: list[Cooldown]) -> CooldownTable:
    table = CooldownTable()
    for one in cooldowns:
        table = table.with_cooldown(one)
    return table


@given(st.lists(COOLDOWNS), st.lists(COOLDOWNS), st.floats(0, 100))
def test_the_longest_cooldown_of_an_account_stands(
    mine: list[Cooldown], theirs: list[Cooldown], now: float
) -> None:
    """It holds in any order, over any tables, and after expired cooldowns are pruned."""
    table = table_of(mine).merged(table_of(theirs))
    for account in ACCOUNTS:
        known = [one.until for one in (*mine, *theirs) if one.account == account]
        longest = max(known, default=0.0)
        assert table.until(account) == longest
        assert table.pruned(now).until(account) == (longest if longest > now else 0.0)
    assert len({entry.account for entry in table.entries}) == len(table.entries)


def test_a_part_of_it_concerns_some_accounts() -> None:
    """A run keeps the cooldowns of its own chain."""
    table = table_of([Cooldown(account, 5) for account in ACCOUNTS])
    assert table.only(ACCOUNTS[:1]).entries == (Cooldown(ACCOUNTS[0], 5),)
