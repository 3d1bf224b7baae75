"""All runs of a user: one SQLite file that any number of hosts work on at the same time.

Rules of this file: every change is one short transaction that begins with `BEGIN IMMEDIATE` and is
on the disk when its call returns; a run belongs to one host, and who writes to it shows a `Lease`;
what a run's state and its attempts hold is JSON that is not looked into here.

**Cancellation.** A call that is cancelled completes its transaction and raises `CancelledError`
afterwards. The change was made, exactly once; only its answer is lost. A run created or taken over
that way belongs to this host, which may take it over once more to get its lease.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import final

import aiosqlite

from otpy_agents.clock import CLOCK
from otpy_agents.completion import OpenedWhole, to_completion
from otpy_agents.errors import LedgerError, LedgerUnwritable, RunExists, RunHeld
from otpy_agents.store.cooldowns import Cooldowns
from otpy_agents.store.file import StoreFile
from otpy_agents.store.hosts import HostRecord, Hosts, socket_of
from otpy_agents.store.run_records import AttemptBegun, AttemptEnded, Lease, RunRecord, StoredRun
from otpy_agents.store.run_rows import (
    OLD,
    RECORD,
    check_begun,
    check_lease,
    chosen_runs,
    first,
    holder_of,
    stored,
    write_attempt,
)
from otpy_agents.store.runs_schema import RUNS

__all__ = ["RunStore"]


@final
class RunStore(OpenedWhole):
    """The store of runs; an async context manager.

    Entering opens or makes the file, and its folder, and writes down this host. Leaving signs the
    host off, so that others may take over what it left unfinished, and closes the file; whatever
    happens, also under cancellation.

    Args:
        path: The SQLite file; see `default_state`.
        as_host: Whether runs will be worked on. A program that only looks, or cleans up, is no
            host: it may not create a run nor take one over.
        clock: Unix seconds.

    Raises:
        LedgerCorrupt: On entering, if the file is damaged or of another kind.
        LedgerTooNew: On entering, if a newer version wrote it.
        LedgerUnwritable: On entering or from any operation, if the disk does not take it, or
            another process holds the file for more than five seconds.
        LedgerClosed: From any operation outside the block.

    Attributes:
        path: The file, absolute.
        host: Number of this host, never given twice; 0 if it is none.
        cooldowns: Accounts that must rest.
    """

    def __init__(
        self,
        path: Path,
        *,
        as_host: bool = True,
        clock: Callable[[], float] = CLOCK,
    ) -> None:
        self.path = path.absolute()
        self.host = 0
        self._as_host = as_host
        self._clock = clock
        self._file = StoreFile(self.path, RUNS)
        self._hosts = Hosts(self._file, self.path, clock)
        self.cooldowns = Cooldowns(self._file)

    @property
    def files(self) -> Path:
        """Folder beside the file: private files of attempts, in one folder for each run."""
        return self.path.with_name(f"{self.path.name}.files")

    @property
    def socket(self) -> Path:
        """Where this host listens for its operator, or will; others read it from its row."""
        return socket_of(self.path, self.host)

    def on_astray(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with one line if the file is deleted or replaced while it is open."""
        self._file.on_astray = tell

    # --- writing ----------------------------------------------------------------------------------

    async def create(
        self,
        run: str,
        state: str,
        *,
        version: int,
        status: str,
        agent: str,
        prompt: str,
        cwd: str,
        label: str = "",
    ) -> Lease:
        """Store a new run, which this host works on.

        Args:
            run: A new id, from `new_run_id`.
            state: Its first state, as JSON.
            version: Version of the state.
            status: Where it stands, in words, for lists.
            agent: Who works on it, for lists.
            prompt: The prompt, for lists; clean it of secrets first.
            cwd: Where, for lists.
            label: Who ordered it, to find it by.

        Returns:
            What `save` asks for.

        Raises:
            RunExists: If the id is taken.
        """

        async def work(database: aiosqlite.Connection) -> Lease:
            if await first(database, "SELECT id FROM run WHERE id = ?", (run,)):
                raise RunExists(run)
            now = self._clock()
            values = (run, self._own(), version, state, status, agent, prompt, cwd, label, now, now)
            await database.execute(
                "INSERT INTO run (id, host, version, state, status, agent, prompt, cwd, label,"
                " created, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            return Lease(run, 1)

        return await self._file.change(work)

    async def save(
        self,
        lease: Lease,
        state: str,
        *,
        version: int,
        status: str,
        agent: str,
        attempts: Sequence[AttemptBegun | AttemptEnded] = (),
        exit_code: int | None = None,
    ) -> None:
        """Store the new state of a run together with the attempts that it begins and ends.

        Call it before anything of that state is acted on.

        Args:
            lease: From `create` or `take_over`.
            state: The state, as JSON.
            version: Version of the state.
            status: Where the run stands, in words, for lists.
            agent: Who works on it, for lists.
            attempts: What is begun or has ended by this change, in order. One that has ended
                already is left as it is.
            exit_code: Given when the run has finished.

        Raises:
            RunLost: If another has taken the run over; nothing was stored.
            UnknownRun: If it was purged.
            LookupError: If an attempt has ended that was not begun.
            ValueError: If an attempt was begun before.
        """

        async def work(database: aiosqlite.Connection) -> None:
            now = self._clock()
            finished = None if exit_code is None else now
            await check_lease(database, lease)
            await database.execute(
                "UPDATE run SET state = ?, version = ?, status = ?, agent = ?, changed = ?,"
                " finished = ?, exit_code = ? WHERE id = ?",
                (state, version, status, agent, now, finished, exit_code, lease.run),
            )
            for attempt in attempts:
                await write_attempt(database, lease.run, attempt, now)

        await self._file.change(work)

    async def identify(self, lease: Lease, number: int, identity: str) -> None:
        """Store the identity by which the process or container of an attempt is found (G-03).

        Args:
            lease: From `create` or `take_over`.
            number: Of the attempt.
            identity: As JSON.

        Raises:
            RunLost: If another has taken the run over: what was just started must be ended.
            UnknownRun: If it was purged.
            LookupError: If the attempt was not begun.
        """

        async def work(database: aiosqlite.Connection) -> None:
            await check_lease(database, lease)
            changed = await database.execute(
                "UPDATE attempt SET identity = ? WHERE run = ? AND number = ?",
                (identity, lease.run, number),
            )
            check_begun(changed.rowcount, lease.run, number)

        await self._file.change(work)

    async def take_over(self, run: str) -> StoredRun:
        """Take a run from its dead host, or again from this one; exactly one host gets it.

        All later writes of an earlier holder are refused. A restarted task of this host calls it
        too, to shut out its former life.

        Returns:
            The run, with a new lease.

        Raises:
            RunHeld: If another host works on it, and lives.
            UnknownRun: If there is none.
        """

        async def work(database: aiosqlite.Connection) -> StoredRun:
            own = self._own()
            holder = await holder_of(database, run)
            if holder.id != own and holder.lives():
                raise RunHeld(run, holder.pid)
            await database.execute(
                "UPDATE run SET host = ?, fence = fence + 1, changed = ? WHERE id = ?",
                (own, self._clock(), run),
            )
            return await stored(database, run)

        return await self._file.change(work)

    async def take_turn(self, cursor: str) -> int:
        """Return 0 for the first caller of all hosts, 1 for the next, and so on (G-09).

        Args:
            cursor: Whose turns are counted.
        """

        async def work(database: aiosqlite.Connection) -> int:
            await database.execute(
                "INSERT INTO cursor VALUES (?, 1)"
                " ON CONFLICT (name) DO UPDATE SET position = position + 1",
                (cursor,),
            )
            row = await first(database, "SELECT position FROM cursor WHERE name = ?", (cursor,))
            return int(row["position"]) - 1

        return await self._file.change(work)

    async def purge(self, older_than: float, *, only: Collection[str] | None = None) -> int:
        """Delete obsolete rows; safe to be interrupted and run again (TREE-46).

        These are runs that finished, with all that belongs to them, cooldowns that are over and
        dead hosts without runs, each if that was more than `older_than` seconds ago.

        Args:
            older_than: Seconds.
            only: Of the runs, delete none but these; None for all.

        Returns:
            How many runs were deleted.
        """
        limit = self._clock() - older_than

        async def work(database: aiosqlite.Connection) -> int:
            chosen, values = chosen_runs(only)
            deleted = await database.execute(
                f"DELETE FROM run WHERE finished < ?{chosen}",  # noqa: S608 - our own words
                (limit, *values),
            )
            for table, old in OLD:
                await database.execute(f"DELETE FROM {table} WHERE {old}", (limit,))  # noqa: S608
            return deleted.rowcount

        await to_completion(self._hosts.sign_off_the_dead())
        return await self._file.change(work)

    async def forget(self, runs: Collection[str]) -> int:
        """Delete these runs, as far as they have finished, with all that belongs to them.

        Returns:
            How many there were.
        """
        listed = list(runs)

        async def work(database: aiosqlite.Connection) -> int:
            chosen, values = chosen_runs(listed)
            deleted = await database.execute(
                f"DELETE FROM run WHERE finished IS NOT NULL{chosen}",  # noqa: S608 - our own words
                values,
            )
            return deleted.rowcount

        return await self._file.change(work)

    async def count_old(self, older_than: float) -> int:
        """Return how many rows beside those of runs `purge` would delete now, or a few less."""
        limit = self._clock() - older_than
        counts = [
            await self._file.rows(f"SELECT COUNT(*) AS n FROM {table} WHERE {old}", (limit,))  # noqa: S608
            for table, old in OLD
        ]
        return sum(row["n"] for rows in counts for row in rows)

    # --- reading ----------------------------------------------------------------------------------

    async def runs(
        self,
        *,
        unfinished: bool = False,
        label: str | None = None,
        finished_before: float | None = None,
    ) -> tuple[RunRecord, ...]:
        """Return all runs, newest first.

        Args:
            unfinished: Only those that have not finished.
            label: Only those with this label; None for any.
            finished_before: Only those that finished before, in Unix seconds; None for any.
        """
        rows = await self._file.rows(
            f"SELECT {RECORD} FROM run WHERE (finished IS NULL OR NOT ?)"  # noqa: S608 - our columns
            " AND (? IS NULL OR label = ?) AND (? IS NULL OR finished < ?)"
            " ORDER BY created DESC, id",
            (unfinished, label, label, finished_before, finished_before),
        )
        return tuple(RunRecord(**row) for row in rows)

    async def used(self) -> int:
        """Return the bytes of the file that hold something."""
        pages, free, size = [
            int((await self._file.rows(f"PRAGMA {name}"))[0][name])
            for name in ("page_count", "freelist_count", "page_size")
        ]
        return (pages - free) * size

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of each run, by its id, including its attempts' files."""
        rows = await self._file.rows(
            "SELECT id, length(CAST(state AS BLOB)) + (SELECT coalesce(sum("
            " coalesce(length(CAST(outcome AS BLOB)), 0)), 0) FROM attempt WHERE run = run.id)"
            " AS size FROM run"
        )
        return {str(row["id"]): int(row["size"]) for row in rows}

    async def run(self, run: str) -> StoredRun:
        """Return a run with its state and its attempts.

        Raises:
            UnknownRun: If there is none.
        """
        return await self._file.read(lambda database: stored(database, run))

    async def holder(self, run: str) -> HostRecord:
        """Return the host that works on a run, or was the last to do so; it may be dead.

        Raises:
            UnknownRun: If there is none.
        """
        return await self._file.read(lambda database: holder_of(database, run))

    async def dead_runs(self) -> tuple[RunRecord, ...]:
        """Return the unfinished runs whose host is dead, oldest first: `take_over` may have them.

        A host that ended in order counts as dead too.
        """
        rows = await self._file.rows(
            f"SELECT {RECORD} FROM run WHERE finished IS NULL ORDER BY created, id"  # noqa: S608 - our columns
        )
        records = [RunRecord(**row) for row in rows]
        dead = {host.id for host in await self._hosts.all() if not host.lives()}
        return tuple(record for record in records if record.host in dead)

    # --- coming and going -------------------------------------------------------------------------

    async def _open(self) -> None:
        folder = self.path.parent
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        except OSError as error:
            raise LedgerUnwritable(self.path, error.strerror or str(error)) from error
        await self._file.open(look=not self._as_host)
        if self._as_host:
            self.host = await self._hosts.sign_on()
            await self._hosts.sign_off_the_dead()

    async def _close(self) -> None:
        """Sign off and close."""
        try:
            # Without this row the others take us for living until this process ends, which they
            # cope with; an error here would hide the one that ended the block.
            if self.host:
                with contextlib.suppress(LedgerError):
                    await self._hosts.sign_off(self.host)
        finally:
            await self._file.close()

    def _own(self) -> int:
        if not self.host:
            message = "got a store opened with as_host=False, wanted one of a host"
            raise RuntimeError(message)
        return self.host
