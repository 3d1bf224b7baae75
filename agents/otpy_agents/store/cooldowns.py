"""The cooldowns of all runs of a user: seen by siblings at once, by other hosts when they look.

Two tables are kept. The one in memory belongs to this process: a cooldown is in it, and every
listener has been called, before `put` awaits anything, so no sibling of this process can launch an
attempt in between. The one in the file belongs to all hosts: `put` writes it, and `at` reads it, so
a host that calls `at` before each launch knows what any other had written by then. Nothing is
pushed to other hosts: who waits for an account looks every few seconds.

A cooldown that is ended before its time leaves its row, with that moment: so a host that takes a
run over can tell a cooldown that was ended from one that a dead host had no time to write.
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
        self._unwritten: dict[tuple[str, str], CooldownRecord] = {}
        self._changes = 0
        self._listeners: list[Callable[[CooldownRecord], object]] = []

    def listen(self, listener: Callable[[CooldownRecord], object]) -> Callable[[], None]:
        """Call `listener` with each cooldown that is new to this process, or longer than before.

        It is called inside `put` and `at`, and must neither block nor raise.

        Returns:
            A function that ends the calls; calling it again does nothing.
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
        key = cooldown.agent_cli, cooldown.credential
        self._unwritten[key] = self._known[key]

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "INSERT INTO cooldown (agent_cli, credential, until, reason, told)"
                " VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (agent_cli, credential)"
                " DO UPDATE SET until = excluded.until, reason = excluded.reason,"
                " told = excluded.told"
                " WHERE excluded.until > until",
                (*key, cooldown.until, cooldown.reason, cooldown.told),
            )

        await self._file.change(work)
        self._unwritten.pop(key, None)
        self._changes += 1

    async def end(
        self, agent_cli: str, credential: str, now: float, *, told_by: float | None = None
    ) -> bool:
        """End the cooldown of an account before its time, for the runs of all hosts.

        Args:
            agent_cli: Name of the adapter.
            credential: Which of its logins.
            now: In Unix seconds.
            told_by: Only one that was told by then, in Unix seconds; None for any.

        Returns:
            Whether there was one.

        Raises:
            LedgerError: If it cannot be written; the cooldown stands.

        Cancellation:
            It is ended all the same.
        """
        latest = now if told_by is None else told_by

        async def work(database: aiosqlite.Connection) -> bool:
            done = await database.execute(
                "UPDATE cooldown SET until = ?, told = ?, reason = ''"
                " WHERE agent_cli = ? AND credential = ? AND until > ? AND told <= ?",
                (now, now, agent_cli, credential, now, latest),
            )
            return done.rowcount > 0

        ended = await self._file.change(work)
        self._changes += 1
        key = agent_cli, credential
        if key in self._unwritten and self._unwritten[key].told <= latest:
            del self._unwritten[key]
            ended = True
        if ended:
            self._known.pop(key, None)
        return ended

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
        if key in self._unwritten and self._unwritten[key].until == before.until:
            self._unwritten[key] = after

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE cooldown SET until = ?"
                " WHERE agent_cli = ? AND credential = ? AND until = ?",
                (after.until, *key, before.until),
            )

        await self._file.change(work)
        self._changes += 1

    async def at(self, now: float) -> tuple[CooldownRecord, ...]:
        """Return the accounts that must rest at `now`, in Unix seconds, those of all hosts.

        At 0 those that are over are among them, until they are purged. The order is that of names.
        """
        while True:
            changes = self._changes
            rows = await self._file.rows(
                "SELECT agent_cli, credential, until, reason, told FROM cooldown WHERE until > ?",
                (now,),
            )
            if changes == self._changes:  # else a sibling wrote while this was read
                break
        written = [CooldownRecord(**row) for row in rows]
        for one in written:
            self._learn(one)
        # What is in neither was ended by another host, or is over.
        known = {(one.agent_cli, one.credential): one for one in written}
        for key, one in self._unwritten.items():
            if one.until > max(now, known[key].until if key in known else 0.0):
                known[key] = one
        self._known = known
        return tuple(one for _, one in sorted(self._known.items()))

    def _learn(self, cooldown: CooldownRecord) -> None:
        key = cooldown.agent_cli, cooldown.credential
        known = self._known.get(key)
        if known is None or cooldown.until > known.until:
            self._known[key] = cooldown
            for listener in tuple(self._listeners):
                listener(cooldown)
