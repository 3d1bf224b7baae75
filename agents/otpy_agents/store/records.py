"""The records of a ledger: frozen values, one class for each kind of row; and rows of agents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, final

import aiosqlite
from attrs import field, frozen

from otpy_agents.store.file import StoreFile

__all__ = [
    "AgentRow",
    "AgentRows",
    "AssignmentRecord",
    "MoveRow",
    "Outcome",
    "State",
    "WorkerRecord",
]


class State(StrEnum):
    """Where an assignment stands (TREE-25)."""

    PENDING = "pending"
    """Not begun, or begun by a host that died in the middle."""
    WORKING = "working"
    """A worker runs, or is about to be started again."""
    DONE = "done"
    """Its worker succeeded; it is never done again. Final."""
    REAPED = "reaped"
    """It was given up, for the reason recorded (TREE-49). Final."""
    FAILED = "failed"
    """It could not be started at all; the next run tries again."""

    @property
    def final(self) -> bool:
        """Whether a later run leaves the assignment alone."""
        return self in {State.DONE, State.REAPED}


@frozen
class Outcome:
    """How an assignment came out.

    Attributes:
        state: Done, reaped or failed.
        reason: Why, in one line; empty if there is nothing to say.
    """

    state: State
    reason: str = field(default="")


@frozen(kw_only=True)
class AssignmentRecord:
    """The record of one assignment. Times are Unix seconds, spans seconds.

    Attributes:
        id: As in the work list.
        digest: Fingerprint of the definition that was worked on.
        state: Where it stands.
        reason: Why it stands there; empty if there is nothing to say.
        restarts: Workers started after the first one of a host.
        attempts: Workers started, by all hosts.
        first_started: When the first worker was started; None if none was.
        finished: When it came to an end; None if it has not.
        seconds: Working time of all attempts together, delays between them not counted.
        output_bytes: Output of all attempts together.
        exit_code: Of the last worker; None if it was ended by a signal or has not ended.
        last_line: Last line of output.
    """

    id: str
    digest: str
    state: State = field(converter=State)
    reason: str
    restarts: int
    attempts: int
    first_started: float | None
    finished: float | None
    seconds: float
    output_bytes: int
    exit_code: int | None
    last_line: str


@frozen(kw_only=True)
class WorkerRecord:
    """One worker that was begun and whose end has not been recorded.

    Attributes:
        id: Number of the row, for `Ledger.end_attempt`.
        host: Number of the host's run that began it; increases with each run.
        assignment: Id of the assignment.
        incarnation: Which worker of the assignment under that host, from 1.
        pid: Its process; None if the host died before it could say.
        pgid: Its process group; None as above.
        create_time: Start of the process in Unix seconds; None as above.
        started: When it was begun, in Unix seconds.
    """

    id: int
    host: int
    assignment: str
    incarnation: int
    pid: int | None
    pgid: int | None
    create_time: float | None
    started: float


@frozen(kw_only=True)
class AgentRow:
    """Where an agent stands.

    Attributes:
        assignment: Its assignment.
        state: The state, as its machine names it.
        why: Why it stands there; empty if there is nothing to say.
        failures: How often each failure came, under all hosts (C-16).
        run: The run that works for it, or has ended and was not taken in; empty for none.
        pauses: Why it rests, as `AgentPause` has it; empty if it does not.
        reply: A person's answer that it has not been told; empty for none.
    """

    assignment: str
    state: str
    why: str = ""
    failures: Mapping[str, int] = field(factory=dict[str, int], hash=False)
    run: str = ""
    pauses: tuple[Mapping[str, str], ...] = field(default=(), hash=False)
    reply: str = ""


@frozen(kw_only=True)
class MoveRow:
    """One move of an agent.

    Attributes:
        assignment: Its assignment.
        source: Where it stood.
        happening: What happened.
        target: Where it stands since.
        why: Why; empty if there is nothing to say.
        at: When it was told, in Unix seconds; None for now.
    """

    assignment: str
    source: str
    happening: str
    target: str
    why: str = ""
    at: float | None = None


@final
class AgentRows:
    """The part of a ledger that is about agents; errors and cancellation are those of the ledger.

    Args:
        file: The file of the ledger.
        clock: Unix seconds.
    """

    def __init__(self, file: StoreFile, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock

    async def record(self, host: int, moves: Iterable[MoveRow]) -> None:
        """Write moves down, in order, and where the agents stand after them."""
        listed = tuple(moves)

        async def work(database: aiosqlite.Connection) -> None:
            for move in listed:
                values = (move.source, move.happening, move.target, move.why)
                await database.execute(
                    "INSERT INTO agent_move (host, assignment, at, source, happening, target, why)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (host, move.assignment, self._clock() if move.at is None else move.at, *values),
                )
                await database.execute(
                    "INSERT INTO agent (assignment, state, why) VALUES (?, ?, ?)"
                    " ON CONFLICT (assignment) DO UPDATE SET"
                    " state = excluded.state, why = excluded.why",
                    (move.assignment, move.target, move.why),
                )

        if listed:
            await self._file.change(work)

    async def put_failures(self, assignment: str, state: str, failures: Mapping[str, int]) -> None:
        """Store how often an agent met each failure, replacing the stored counts.

        Args:
            assignment: Its assignment.
            state: Where it stands; written down only if nothing is known of that.
            failures: The number of times by the name of the failure.
        """

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "INSERT INTO agent (assignment, state, failures) VALUES (?, ?, ?)"
                " ON CONFLICT (assignment) DO UPDATE SET failures = excluded.failures",
                (assignment, state, json.dumps(failures)),
            )

        await self._file.change(work)

    async def put_run(self, assignment: str, state: str, run: str) -> None:
        """Keep which run works for an agent, until what that came to is taken in.

        Args:
            assignment: Its assignment.
            state: Where it stands; written down only if nothing is known of that.
            run: Id of the run; empty for none.
        """

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "INSERT INTO agent (assignment, state, run) VALUES (?, ?, ?)"
                " ON CONFLICT (assignment) DO UPDATE SET run = excluded.run",
                (assignment, state, run),
            )

        await self._file.change(work)

    async def put_rest(
        self, assignment: str, state: str, pauses: Sequence[Mapping[str, str]], reply: str
    ) -> None:
        """Keep why an agent rests, and what it was answered, replacing what was kept.

        Args:
            assignment: Its assignment.
            state: Where it stands; written down only if nothing is known of that.
            pauses: As in `AgentRow`.
            reply: As in `AgentRow`.
        """

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute(
                "INSERT INTO agent (assignment, state, pauses, reply) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (assignment) DO UPDATE SET"
                " pauses = excluded.pauses, reply = excluded.reply",
                (assignment, state, json.dumps(list(pauses)), reply),
            )

        await self._file.change(work)

    async def all(self) -> tuple[AgentRow, ...]:
        """Return where each agent stands, of assignments that are not listed too."""
        rows = await self._file.rows(
            "SELECT assignment, state, why, failures, run, pauses, reply FROM agent"
            " ORDER BY assignment"
        )
        return tuple(_agent(row) for row in rows)

    async def moves(self, assignment: str) -> tuple[MoveRow, ...]:
        """Return the moves of an agent, oldest first."""
        rows = await self._file.rows(
            "SELECT assignment, source, happening, target, why, at FROM agent_move"
            " WHERE assignment = ? ORDER BY id",
            (assignment,),
        )
        return tuple(MoveRow(**row) for row in rows)

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name, replacing an earlier one."""

        async def work(database: aiosqlite.Connection) -> None:
            await database.execute("INSERT OR REPLACE INTO document VALUES (?, ?)", (name, text))

        await self._file.change(work)

    async def get(self, name: str) -> str | None:
        """Return the text kept under a name; None if there is none."""
        rows = await self._file.rows("SELECT text FROM document WHERE name = ?", (name,))
        return str(rows[0]["text"]) if rows else None


def _agent(row: Mapping[str, Any]) -> AgentRow:
    parsed: dict[str, Any] = {
        "failures": json.loads(row["failures"]),
        "pauses": tuple(json.loads(row["pauses"])),
    }
    return AgentRow(**{**row, **parsed})
