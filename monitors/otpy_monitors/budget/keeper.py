"""Keeps a ledger in a store, beside the daemon that reports: a slow disk delays no report."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from otpy_monitors.budget.ledger_json import to_plain

if TYPE_CHECKING:
    from otpy_monitors.budget.bookkeeper import Bookkeeper
    from otpy_monitors.budget.ledger_json import LedgerStore

__all__ = ["EVERY", "TIME_EVERY", "keep_ledger"]

EVERY: Final = 5.0
"""Seconds from one save to the next, at least."""

TIME_EVERY: Final = 60.0
"""Seconds after which time is saved that passed while nothing else happened."""


async def keep_ledger(bookkeeper: Bookkeeper, store: LedgerStore) -> None:
    """Save the ledger when it changes, at once after a quiet time and else every 5 s.

    What a host that is killed loses is at most the last 5 seconds of usage, which agents tell again
    if their readings go on, and a minute of time. A store that fails ends it, and its supervisor
    starts it again: the ledger is not in here.

    Cancellation:
        What was not saved is saved; it ends after that.
    """
    changed = asyncio.Event()
    changed.set()  # whatever an earlier life did not save
    with bookkeeper.ledger.watched(lambda _account: changed.set()):
        try:
            while True:
                await _change(changed, bookkeeper)
                await _save(changed, bookkeeper, store)
                await asyncio.sleep(EVERY)
        except asyncio.CancelledError:
            bookkeeper.settle()
            if changed.is_set():
                await _save(changed, bookkeeper, store)
            raise


async def _change(changed: asyncio.Event, bookkeeper: Bookkeeper) -> None:
    """Wait for a change; time that passes is one, once a minute."""
    while not changed.is_set():
        try:
            async with asyncio.timeout(TIME_EVERY if bookkeeper.running else None):
                await changed.wait()
        except TimeoutError:
            bookkeeper.settle()


async def _save(changed: asyncio.Event, bookkeeper: Bookkeeper, store: LedgerStore) -> None:
    bookkeeper.settle()
    changed.clear()
    try:
        await store.save(to_plain(bookkeeper.ledger))
    except BaseException:
        changed.set()  # cut or failed: nobody knows what of it was kept
        raise
