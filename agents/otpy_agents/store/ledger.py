"""The history of assignments and attempts: one SQLite file beside the work list.

Rules of this file: every change is one transaction that begins with `BEGIN IMMEDIATE` and is on the
disk when its call returns; one host at a time, guarded by `HostLock`; a row for a worker is written
before the worker exists, so that no process can be ours without the ledger knowing of it.

**Cancellation.** A call that is cancelled completes its transaction and raises `CancelledError`
afterwards. The change was made, exactly once; only its answer is lost. A worker begun that way is
closed by the next `begin_attempt` or `finish` of its assignment, or by the next host.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar, final

import aiosqlite
import psutil
from attrs import frozen

from otpy_agents.clock import CLOCK, Clock
from otpy_agents.completion import OpenedWhole
from otpy_agents.errors import AlreadyRunning, LedgerError, LedgerUnwritable
from otpy_agents.store.file import StoreFile, inserted
from otpy_agents.store.lock import HostLock
from otpy_agents.store.records import AgentRows, AssignmentRecord, Outcome, State, WorkerRecord
from otpy_agents.store.schema import LEDGER

__all__ = ["Ledger"]

T = TypeVar("T")

# Tables in the order in which they are purged, each with what makes a row of it old.
_OLD = (
    ("attempt", "ended < ?"),
    ("agent_move", "at < ?"),
    ("host", "ended < ? AND id NOT IN (SELECT host FROM attempt)"),
    ("assignment", "position IS NULL AND finished < ?"),
)


@frozen(kw_only=True)
class _End:
    """How an attempt went, as `end_attempt` was told."""

    at: float
    seconds: float
    reason: str
    exit_code: int | None
    last_line: str
    output_bytes: int


@final
class Ledger(OpenedWhole):
    """The memory of a work list across runs; an async context manager.

    Entering takes the lock, opens or makes the file and writes down this host. Leaving closes all
    three; whatever happens, also under cancellation.

    Args:
        path: The SQLite file.
        clock: Monotonic seconds, usually `loop.time`; durations are measured by it.

    Raises:
        AlreadyRunning: On entering, if another host works on the file.
        LedgerCorrupt: On entering, if it is damaged or not a ledger.
        LedgerTooNew: On entering, if a newer version wrote it.
        LedgerUnwritable: On entering or from any operation, if the disk does not take it.
        LedgerClosed: From any operation outside the block.

    Attributes:
        path: The file.
        list_id: Identity of the work list, kept in the file for ever: the environment marker by
            which its processes are found.
        host: Number of this run of the host, greater than that of every earlier one.
        agents: Where agents stand, and how they got there.
    """

    def __init__(self, path: Path, *, clock: Clock = CLOCK) -> None:
        self.path = path
        self.list_id = ""
        self.host = 0
        self._clock = clock
        self._lock = HostLock(path)
        self._file = StoreFile(path, LEDGER)
        self.agents = AgentRows(self._file, clock)
        self._begun: dict[int, float] = {}
        self._ends: dict[int, _End] = {}

    def on_astray(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with one line if the file is deleted or replaced; its lock is taken again."""

        def listen(line: str) -> None:
            with contextlib.suppress(AlreadyRunning, LedgerUnwritable):
                self._lock.renew()
            tell(line)

        self._file.on_astray = listen

    async def declare(self, digests: Mapping[str, str]) -> None:
        """Tell the ledger the current content of the list; call it before any other operation.

        New assignments become pending. One whose digest has changed is forgotten and pending again.
        One that is no longer listed is kept, but not shown.

        Args:
            digests: Fingerprint of each assignment by its id, in the order of the list.
        """

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute("UPDATE assignment SET position = NULL")
            for table, key in (("agent", "assignment"), ("assignment", "id")):
                changed = "SELECT id FROM assignment WHERE id = ? AND digest != ?"
                await database.executemany(
                    f"DELETE FROM {table} WHERE {key} IN ({changed})",  # noqa: S608 - our own names
                    digests.items(),
                )
            await database.executemany(
                "INSERT INTO assignment (position, id, digest) VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET position = excluded.position",
                [(position, *entry) for position, entry in enumerate(digests.items())],
            )

        await self._file.change(work)

    async def add(self, assignment: str, digest: str) -> bool:
        """Add one assignment after those of the list; an unchanged one keeps its history.

        The next `declare` takes it off the list again, unless it is listed then.

        Returns:
            Whether it is to be done: False if an unchanged one is done or reaped, which is not
            added.
        """

        async def work(database: aiosqlite.Connection) -> bool:
            over = await database.execute_fetchall(
                "SELECT 1 FROM assignment WHERE id = ? AND digest = ? AND position IS NULL"
                " AND state IN ('done', 'reaped')",
                (assignment, digest),
            )
            if over:
                return False
            changed = "SELECT id FROM assignment WHERE id = ? AND digest != ?"
            for table, key in (("agent", "assignment"), ("assignment", "id")):
                await database.execute(
                    f"DELETE FROM {table} WHERE {key} IN ({changed})",  # noqa: S608 - our own names
                    (assignment, digest),
                )
            await database.execute(
                "INSERT INTO assignment (position, id, digest)"
                " SELECT coalesce(max(position), -1) + 1, ?, ? FROM assignment WHERE true"
                " ON CONFLICT (id) DO UPDATE SET position ="
                " coalesce(assignment.position, excluded.position)",
                (assignment, digest),
            )
            return True

        return await self._file.change(work)

    async def take_off(self, assignment: str) -> None:
        """Take off the list what was added to it; it is kept, but not shown."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE assignment SET position = NULL WHERE id = ?", (assignment,)
            )

        await self._file.change(work)

    async def begin_attempt(self, assignment: str, incarnation: int) -> int:
        """Write down that a worker is about to be started, and return the number of the attempt.

        Args:
            assignment: A declared id.
            incarnation: From 1; anything above counts as a restart.

        Raises:
            LookupError: If the assignment was not declared.
        """

        async def work(database: aiosqlite.Connection) -> int:
            await self._close_attempts(database, assignment, f"superseded by {incarnation}")
            changed = await database.execute(
                "UPDATE assignment SET state = ?, reason = '', finished = NULL, told = 0,"
                " attempts = attempts + 1, restarts = restarts + ?,"
                " first_started = coalesce(first_started, ?) WHERE id = ? AND position NOT NULL",
                (State.WORKING, int(incarnation > 1), self._clock(), assignment),
            )
            if changed.rowcount != 1:
                message = f"got assignment {assignment!r}, wanted one that was declared"
                raise LookupError(message)
            return await inserted(
                database,
                "INSERT INTO attempt (host, assignment, incarnation, started) VALUES (?, ?, ?, ?)",
                (self.host, assignment, incarnation, self._clock()),
            )

        begun = self._clock.steady()
        attempt = await self._change(work)
        self._begun[attempt] = begun
        return attempt

    async def record_spawn(self, attempt: int, pid: int, pgid: int, create_time: float) -> None:
        """Write down which process an attempt is, so that the next host can find it (G-03)."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE attempt SET pid = ?, pgid = ?, create_time = ? WHERE id = ?",
                (pid, pgid, create_time, attempt),
            )

        await self._file.change(work)

    async def end_attempt(
        self,
        attempt: int,
        reason: str,
        *,
        exit_code: int | None = None,
        last_line: str = "",
        output_bytes: int = 0,
    ) -> None:
        """Write down that a worker and its group are gone.

        An attempt that has ended already is left as it is. What the disk does not take is written
        with the next beginning, end or outcome of any assignment.

        Args:
            attempt: From `begin_attempt`.
            reason: How it ended, for example `exit code 1`.
            exit_code: None if a signal ended it.
            last_line: Its last line of output; pass it through `Redaction` first.
            output_bytes: How much it wrote.
        """
        self._ends[attempt] = _End(
            at=self._clock(),
            seconds=self._worked(attempt),
            reason=reason,
            exit_code=exit_code,
            last_line=last_line,
            output_bytes=output_bytes,
        )

        async def work(_: aiosqlite.Connection) -> None:
            """Write nothing beside the ends."""

        await self._change(work)

    async def finish(self, assignment: str, state: State, reason: str = "") -> None:
        """Write down how an assignment came out.

        Args:
            assignment: A declared id.
            state: Its last state; `PENDING` gives it back to the next run.
            reason: Why; required reading for `REAPED` (TREE-49).
        """

        async def work(database: aiosqlite.Connection) -> None:
            await self._close_attempts(database, assignment, reason or state)
            finished = None if state in {State.PENDING, State.WORKING} else self._clock()
            await database.execute(
                "UPDATE assignment SET state = ?, reason = ?, finished = ?, told = 0 WHERE id = ?",
                (state, reason, finished, assignment),
            )

        await self._change(work)

    async def conclude(self, outcomes: Mapping[str, Outcome]) -> None:
        """Write down how assignments came out, and that this was told; all or none.

        One that is done or reaped already, as its last life wrote it down, stays that.

        Args:
            outcomes: How each came out, by its id.
        """

        async def work(database: aiosqlite.Connection) -> None:
            for name, outcome in outcomes.items():
                await self._close_attempts(database, name, outcome.reason or outcome.state)
            now = self._clock()
            await database.executemany(
                "UPDATE assignment SET state = ?, reason = ?, finished = ?"
                " WHERE id = ? AND state NOT IN ('done', 'reaped')",
                [(one.state, one.reason, now, name) for name, one in outcomes.items()],
            )
            await database.executemany(
                "UPDATE assignment SET told = 1 WHERE id = ?", [(name,) for name in outcomes]
            )

        await self._change(work)

    async def retry(self, assignment: str) -> bool:
        """Give an assignment that was reaped, or failed, back to the next run or to this one.

        How often it was tried and restarted stays, and so does what it has used; what its agent
        failed of is forgotten.

        Returns:
            Whether it was one.
        """

        async def work(database: aiosqlite.Connection) -> bool:
            changed = await database.execute(
                "UPDATE assignment SET state = ?, finished = NULL, told = 0"
                " WHERE id = ? AND state IN (?, ?) AND position NOT NULL",
                (State.PENDING, assignment, State.REAPED, State.FAILED),
            )
            if changed.rowcount:
                await database.execute("DELETE FROM agent WHERE assignment = ?", (assignment,))
            return changed.rowcount == 1

        return await self._file.change(work)

    async def close_interrupted(self, reason: str = "interrupted: its host ended") -> int:
        """End the attempts of earlier hosts and make their assignments pending again.

        Call it at boot, after the processes in `live_attempts` have been ended, and at the end of
        a run, for assignments that were cut.

        Returns:
            How many attempts there were.
        """

        async def work(database: aiosqlite.Connection) -> int:
            ended = await database.execute(
                "UPDATE attempt SET ended = ?, reason = ? WHERE ended IS NULL AND host < ?",
                (self._clock(), reason, self.host),
            )
            await database.execute(
                "UPDATE host SET ended = ? WHERE ended IS NULL AND id < ?",
                (self._clock(), self.host),
            )
            await database.execute(
                "UPDATE assignment SET state = ?, reason = ? WHERE state = ? AND id NOT IN"
                " (SELECT assignment FROM attempt WHERE ended IS NULL)",
                (State.PENDING, reason, State.WORKING),
            )
            return ended.rowcount

        return await self._file.change(work)

    async def settle(self, attempt: int, exit_code: int | None, reason: str) -> None:
        """Write down how a worker of an earlier host ended by itself; before `close_interrupted`.

        One that has succeeded finishes its assignment, which its host had no time to write.

        Args:
            attempt: From `last_attempts`.
            exit_code: None if a signal ended it.
            reason: How it ended, for example `exit code 1`.
        """

        async def work(database: aiosqlite.Connection) -> None:
            of = "id = (SELECT assignment FROM attempt WHERE id = ?)"
            await database.execute(
                "UPDATE attempt SET ended = ?, reason = ? WHERE id = ? AND ended IS NULL",
                (self._clock(), reason, attempt),
            )
            await database.execute(
                f"UPDATE assignment SET exit_code = ? WHERE {of}",  # noqa: S608 - our own text
                (exit_code, attempt),
            )
            if exit_code == 0:
                await database.execute(
                    f"UPDATE assignment SET state = ?, reason = '', finished = ? WHERE state = ? AND {of}",  # noqa: S608, E501
                    (State.DONE, self._clock(), State.WORKING, attempt),
                )

        await self._file.change(work)

    async def last_attempts(self) -> tuple[WorkerRecord, ...]:
        """Return the last attempt at each assignment that is in work, of dead hosts too."""
        rows = await self._file.rows(
            "SELECT max(attempt.id) AS id, host, assignment, incarnation, pid, pgid, create_time,"
            " started FROM attempt JOIN assignment ON assignment.id = assignment"
            " WHERE state = 'working' GROUP BY assignment ORDER BY attempt.id"
        )
        return tuple(WorkerRecord(**row) for row in rows)

    async def live_attempts(self) -> tuple[WorkerRecord, ...]:
        """Return the attempts without a recorded end, of dead hosts too, oldest first."""
        rows = await self._file.rows(
            "SELECT id, host, assignment, incarnation, pid, pgid, create_time, started"
            " FROM attempt WHERE ended IS NULL ORDER BY id"
        )
        return tuple(WorkerRecord(**row) for row in rows)

    async def finished_ids(self) -> frozenset[str]:
        """Return the listed assignments that need no work any more: done or reaped."""
        rows = await self._file.rows(
            "SELECT id FROM assignment WHERE position NOT NULL AND state IN ('done', 'reaped')"
        )
        return frozenset(str(row["id"]) for row in rows)

    async def state(self, assignment: str) -> State | None:
        """Return where a listed assignment stands; None if there is none of that id."""
        rows = await self._file.rows(
            "SELECT state FROM assignment WHERE id = ? AND position NOT NULL", (assignment,)
        )
        return State(rows[0]["state"]) if rows else None

    async def untold(self) -> tuple[AssignmentRecord, ...]:
        """Return the listed assignments that are done or reaped, which no host has told yet."""
        final = {record.id: record for record in await self.summary() if record.state.final}
        rows = await self._file.rows("SELECT id FROM assignment WHERE told = 0")
        return tuple(final[row["id"]] for row in rows if row["id"] in final)

    async def record_told(self, assignments: Iterable[str]) -> None:
        """Write down that the ends of assignments have been told, so that no host repeats them."""
        names = [(assignment,) for assignment in assignments]

        async def work(database: aiosqlite.Connection) -> None:
            await database.executemany("UPDATE assignment SET told = 1 WHERE id = ?", names)

        if names:
            await self._file.change(work)

    async def was_begun(self, assignment: str) -> bool:
        """Whether an attempt at an assignment, as it is declared now, was ever begun."""
        rows = await self._file.rows(
            "SELECT 1 FROM assignment WHERE id = ? AND attempts > 0", (assignment,)
        )
        return bool(rows)

    async def summary(self) -> tuple[AssignmentRecord, ...]:
        """Return the status of each listed assignment, in the order of the list."""
        rows = await self._file.rows(
            "SELECT id, digest, state, reason, restarts, attempts, first_started, finished,"
            " seconds, output_bytes, exit_code, last_line FROM assignment WHERE position NOT NULL"
            " ORDER BY position"
        )
        return tuple(AssignmentRecord(**row) for row in rows)

    async def forget_all(self) -> None:
        """Make every assignment pending as if nothing had been done; the identity stays.

        End the processes in `live_attempts` first: their rows go too.
        """

        async def work(database: aiosqlite.Connection) -> None:
            for table in ("attempt", "agent", "agent_move", "document"):
                await database.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
            await database.execute("DELETE FROM assignment WHERE position IS NULL")
            await database.execute(
                "UPDATE assignment SET state = 'pending', reason = '', restarts = 0, attempts = 0,"
                " first_started = NULL, finished = NULL, seconds = 0, output_bytes = 0,"
                " exit_code = NULL, last_line = '', told = 0"
            )

        await self._file.change(work)

    async def count_old(self, older_than: float) -> int:
        """Return how many rows `purge` would delete now, or a few less: 0 if it would none."""
        limit = self._clock() - older_than
        counts = [
            await self._file.rows(f"SELECT COUNT(*) AS n FROM {table} WHERE {old}", (limit,))  # noqa: S608
            for table, old in _OLD
        ]
        return sum(row["n"] for rows in counts for row in rows)

    async def purge(self, older_than: float) -> int:
        """Delete obsolete rows; safe to be interrupted and run again (TREE-46).

        These are attempts that ended, moves of agents, hosts without attempts that ended, and
        finished assignments that are no longer listed, each if it happened
        more than `older_than` seconds ago by the wall clock. What is known of listed assignments
        stays.

        Returns:
            How many rows were deleted.
        """
        limit = self._clock() - older_than

        async def work(database: aiosqlite.Connection) -> int:
            deleted = 0
            for table, old in _OLD:
                statement = f"DELETE FROM {table} WHERE {old}"  # noqa: S608
                deleted += (await database.execute(statement, (limit,))).rowcount
            return deleted

        return await self._file.change(work)

    async def _open(self) -> None:
        self._lock.acquire()
        await self._file.open()

        async def work(database: aiosqlite.Connection) -> int:
            return await inserted(
                database,
                "INSERT INTO host (pid, create_time, started) VALUES (?, ?, ?)",
                (os.getpid(), psutil.Process().create_time(), self._clock()),
            )

        self.host = await self._file.change(work)
        (identity,) = await self._file.rows("SELECT list_id FROM identity")
        self.list_id = str(identity["list_id"])

    async def _close(self) -> None:
        """Sign off, close the file, then give the lock back."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "UPDATE host SET ended = ? WHERE id = ?", (self._clock(), self.host)
            )

        try:
            # Without this row the next host takes us for killed, which it copes with; an error here
            # would hide the one that ended the run.
            with contextlib.suppress(LedgerError):
                await self._file.change(work)
        finally:
            try:
                await self._file.close()
            finally:
                self._lock.release()

    async def _change(self, work: Callable[[aiosqlite.Connection], Awaitable[T]]) -> T:
        """Run `work` as one transaction, after the ends that the disk has not taken yet."""
        ends = dict(self._ends)

        async def all_of_it(database: aiosqlite.Connection) -> T:
            for attempt, end in ends.items():
                await _write_end(database, attempt, end)
            return await work(database)

        answer = await self._file.change(all_of_it)
        for attempt in ends:
            self._ends.pop(attempt, None)
        return answer

    async def _close_attempts(
        self, database: aiosqlite.Connection, assignment: str, reason: str
    ) -> None:
        """End attempts whose caller was cancelled before it learnt of them."""
        await database.execute(
            "UPDATE attempt SET ended = ?, reason = ?"
            " WHERE assignment = ? AND host = ? AND ended IS NULL",
            (self._clock(), reason, assignment, self.host),
        )

    def _worked(self, attempt: int) -> float:
        """Return the seconds since the attempt was begun by this host; 0 if it was not."""
        begun = self._begun.pop(attempt, None)
        return 0.0 if begun is None else self._clock.steady() - begun


async def _write_end(database: aiosqlite.Connection, attempt: int, end: _End) -> None:
    ended = await database.execute(
        "UPDATE attempt SET ended = ?, seconds = ?, reason = ? WHERE id = ? AND ended IS NULL",
        (end.at, end.seconds, end.reason, attempt),
    )
    if ended.rowcount == 1:
        await database.execute(
            "UPDATE assignment SET seconds = seconds + ?, output_bytes = output_bytes + ?,"
            " exit_code = ?, last_line = ?"
            " WHERE id = (SELECT assignment FROM attempt WHERE id = ?)",
            (end.seconds, end.output_bytes, end.exit_code, end.last_line, attempt),
        )
