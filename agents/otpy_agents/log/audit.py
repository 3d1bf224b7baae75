"""Checks that a log is unaltered, from its first event to its last (G-14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aiosqlite

from otpy_agents.errors import LogTampered
from otpy_agents.log.chain import Chain
from otpy_agents.log.queries import page_after

__all__ = ["audited"]


async def audited(database: aiosqlite.Connection) -> int:
    """Check the chain of hashes over all events that ever were; return how many there are.

    Raises:
        LogTampered: One was changed, removed, or put elsewhere.
    """
    chain = Chain()
    while page := await page_after(database, chain.position):
        await _take(database, chain, page[-1]["position"], list(map(dict, page)))
    await _take(database, chain, None, [])
    found = await database.execute_fetchall("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
    ever = next((int(row["seq"]) for row in found), 0)
    if ever != chain.position:
        raise LogTampered(chain.position + 1, "the end of the log", f"events up to {ever}")
    return ever


async def _take(
    database: aiosqlite.Connection,
    chain: Chain,
    until: int | None,
    page: Sequence[Mapping[str, Any]],
) -> None:
    """Feed the chain a page of events, and the archived events between or behind them."""
    query = "SELECT position, hash FROM archived WHERE position > ? AND position <= ?"
    last = 2**62 if until is None else until
    gaps = await database.execute_fetchall(query, (chain.position, last))
    archived = {int(row["position"]): bytes(row["hash"]) for row in gaps}
    kept = {int(row["position"]): row for row in page}
    for position in sorted({*archived, *kept}):
        if position in kept:
            chain.take(kept[position])
        else:
            chain.skip(position, archived[position])
