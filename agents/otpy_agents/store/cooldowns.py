"""The cooldowns of all runs of a user: seen by siblings at once, by other hosts when they look.

Two tables are kept. The one in memory belongs to this process: a cooldown is in it, and every
listener has been called, before `put` awaits anything, so no sibling of this process can launch an
attempt in between. The one in the file belongs to all hosts: `put` writes it, and `at` reads it, so
a host that calls `at` before each launch knows what any other had written by then. Nothing is
pushed to other hosts: who is waiting needs to know only when it is about to launch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import aiosqlite

from otpy_agents.store.run_records import CooldownRecord

if TYPE_CHECKING:
    from otpy_agents.store.file import StoreFile

__all__ = ["Cooldowns"]


@final
class Cooldowns:
    """Part of a `RunStore`."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self._known: dict[tuple[str, str], CooldownRecord] = {}
        self._listeners: list[Callable[[CooldownRecord], object]] = []

    def listen(self, listener: Callable[[CooldownRecord], object]) -> Callable[[], None]:
        """Call `listener` with each cooldown that is new to this process, or longer than before.

        It is called by whoever calls `put` or `at`, and must neither block nor raise.

        Returns:
            What to call to be told no more; calling it again does nothing.
        """
        self._listeners.append(listener)

        def forget() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return forget

    async def put(self, cooldown: CooldownRecord) -> None:
        """Let an account rest, at least until then; a longer cooldown that is there stays.

        Raises:
            LedgerError: If it cannot be written; it holds in this process all the same.

        Cancellation:
            It is in the file all the same.
        """
        self._learn(cooldown)

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "INSERT INTO cooldown (agent_cli, credential, until, reason) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (agent_cli, credential)"
                " DO UPDATE SET until = excluded.until, reason = excluded.reason"
                " WHERE excluded.until > until",
                (cooldown.agent_cli, cooldown.credential, cooldown.until, cooldown.reason),
            )

        await self._file.change(work)

    async def move(self, before: CooldownRecord, after: CooldownRecord) -> None:
        """Put `after` into the place of `before`, which the clock was set in; not if that is gone.

        Raises:
            LedgerError: If it cannot be written; it holds in this process all the same.

        Cancellation:
            It is in the file all the same.
        """
        key = before.agent_cli, before.credential
        known = self._known.get(key)
        if known is None or known.until == before.until:
            self._known.pop(key, None)
            self._learn(after)

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE cooldown SET until = ?"
                " WHERE agent_cli = ? AND credential = ? AND until = ?",
                (after.until, *key, before.until),
            )

        await self._file.change(work)

    async def at(self, now: float) -> tuple[CooldownRecord, ...]:
        """Return the accounts that must rest at `now`, in Unix seconds, those of all hosts.

        The order is that of names.
        """
        rows = await self._file.rows(
            "SELECT agent_cli, credential, until, reason FROM cooldown WHERE until > ?", (now,)
        )
        for row in rows:
            self._learn(CooldownRecord(**row))
        self._known = {key: one for key, one in self._known.items() if one.until > now}
        return tuple(one for _, one in sorted(self._known.items()))

    def _learn(self, cooldown: CooldownRecord) -> None:
        key = cooldown.agent_cli, cooldown.credential
        known = self._known.get(key)
        if known is None or cooldown.until > known.until:
            self._known[key] = cooldown
            for listener in tuple(self._listeners):
                listener(cooldown)
