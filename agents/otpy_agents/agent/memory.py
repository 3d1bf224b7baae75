"""The knowledge about a list's assignments: the ledger, and the news not yet written to it.

Where the disk takes no writes, writers wait: nothing new is begun, and nothing counts as a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, final

from attrs import asdict

from otpy_agents.agent.course import Course, Courses
from otpy_agents.errors import LedgerError, LedgerUnwritable, NameAlreadyExists
from otpy_agents.store.records import AgentRow, AssignmentRecord, MoveRow, State

if TYPE_CHECKING:
    from otpy import ExitReason
    from otpy_agents.agent.post import Post
    from otpy_agents.agent.state import Move
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.worklist.assignment import Assignment, WorkList

__all__ = ["Disk", "Memory", "label_of"]


def label_of(list_id: str, assignment: Assignment) -> str:
    """Return what runs for an assignment, as it is defined now, are found by, by any host."""
    return f"{list_id}/{assignment.id}/{assignment.digest}"


@final
class Memory:
    """The knowledge about one list's assignments, on disk and not yet on disk.

    Args:
        work: The list.
        ledger: Open, and told of the list.
        records: Its summary before anything is begun.
        agents: Where its agents stood when the last host ended.
        tell: Called as `tell(name, id, **detail)` with what a person should know.

    Attributes:
        ledger: As given.
        listed: The assignments of the list, then those that were added to it, by name.
        courses: What becomes of each.
        disk: Where writers wait.
    """

    def __init__(
        self,
        work: WorkList,
        ledger: Ledger,
        records: Iterable[AssignmentRecord],
        agents: Iterable[AgentRow],
        tell: Callable[..., None],
    ) -> None:
        self.ledger = ledger
        self.listed = {one.id: one for one in work.assignments}
        self.courses = Courses(records, agents)
        self.disk = Disk(tell)
        self._places = {name: place for place, name in enumerate(self.listed)}
        self._moves: list[MoveRow] = []
        self._rests: dict[str, Post] = {}

    # --- assignments ------------------------------------------------------------------------------

    def place(self, assignment: str) -> int:
        """Return the place of an assignment in the list, from 0."""
        return self._places[assignment]

    async def list_too(self, assignment: Assignment) -> bool:
        """Add an assignment to the list for as long as this host lives, unless it is listed.

        Returns:
            Whether it was added.

        Raises:
            NameAlreadyExists: An earlier host has finished it.
            LedgerError: It could not be written down.
        """
        if assignment.id in self.listed:
            return False
        if not await self.ledger.add(assignment.id, assignment.digest):
            raise NameAlreadyExists(assignment.id)
        self._places[assignment.id] = len(self.listed)
        self.listed[assignment.id] = assignment
        return True

    async def unlist(self, assignment: str) -> None:
        """Take an assignment off the list that was added to it, and was not started."""
        del self.listed[assignment]
        with contextlib.suppress(LedgerError):  # then the next host takes it off
            await self.ledger.take_off(assignment)

    def label(self, assignment: Assignment) -> str:
        """Return what runs for an assignment, as it is defined now, are found by."""
        return label_of(self.ledger.list_id, assignment)

    async def is_open(self, assignment: str) -> bool:
        """Whether an assignment is still to be done (G-18)."""
        state = await self.ledger.state(assignment)
        return state is None or not state.final

    async def is_done(self, assignment: str) -> bool:
        """Whether an assignment was done, by this life or an earlier one."""
        return await self.ledger.state(assignment) is State.DONE

    async def is_new(self, assignment: str) -> bool:
        """Whether no attempt at an assignment, as it is defined now, is known."""
        return not await self.ledger.was_begun(assignment)

    # --- lives ------------------------------------------------------------------------------------

    def last_exit(self, assignment: str, reason: ExitReason | None) -> str | None:
        """Return why the life before this one ended: under this host, or under the last one.

        A pool that was restarted knows nothing of earlier lives (`reason` is None); we do.
        """
        return self.courses[assignment].last_end if reason is None else str(reason)

    def end_life(self, assignment: str, reason: str) -> None:
        """Remember why a life ended, for the note to the next one."""
        self.courses.change(assignment, partial(Course.end_life, why=reason))

    # --- what is written down ---------------------------------------------------------------------

    def note_move(self, assignment: str, move: Move) -> None:
        """Record that an agent moved; the next write stores it."""
        row = MoveRow(
            assignment=assignment,
            source=move.source,
            happening=move.happening,
            target=move.target,
            why=move.why,
        )
        self._moves.append(row)
        self.courses.news()  # Jake writes it down, unless the moved agent does so first

    def note_rest(self, post: Post) -> None:
        """Record that an agent rests for other causes; the next write stores them."""
        self._rests[post.assignment.id] = post
        self.courses.news()

    async def write_failures(self, post: Post) -> None:
        """Write down how often each failure came to an agent: one number for all hosts (C-16).

        Raises:
            LedgerError: That cannot be done.
        """
        name = post.assignment.id
        await self.ledger.agents.put_failures(name, post.agent.state, post.failures)

    async def write_run(self, post: Post, run: str) -> None:
        """Write down which run works for an agent; empty when all is known that it came to."""
        if post.last != run:
            post.last = run
            with contextlib.suppress(LedgerError):  # then this host knows it as long as it lives
                await self.ledger.agents.put_run(post.assignment.id, post.agent.state, run)

    async def write_moves(self) -> None:
        """Write down how agents moved, and why they rest, as far as that is not done.

        Raises:
            LedgerError: That cannot be done; the next call tries again.
        """
        moves, self._moves = self._moves, []
        try:
            await self.ledger.agents.record(self.ledger.host, moves)
        except LedgerError:
            self._moves[:0] = moves
            raise
        while self._rests:
            name, post = self._rests.popitem()
            pauses = [asdict(pause) for pause in post.lasting]
            try:
                await self.ledger.agents.put_rest(name, post.agent.state, pauses, post.reply)
            except LedgerError:
                self._rests.setdefault(name, post)
                raise
        if moves:
            self.disk.note_written()

    async def write_outcomes(self) -> None:
        """Write down how assignments came out and how agents moved, as far as that is not done.

        Raises:
            LedgerError: That cannot be done; the next call tries again.
        """
        await self.write_moves()
        outcomes = dict(self.courses.unwritten)
        if outcomes:
            await self.ledger.conclude(outcomes)
            for name in outcomes:
                self.courses.change(name, Course.write_down)
            self.disk.note_written()


T = TypeVar("T")

_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 30.0


@final
class Disk:
    """The disk of a project; a writer waits here until it can write, and a person is told once.

    Args:
        tell: Called as `tell(name, id, **detail)`.
    """

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._since: float | None = None

    async def until_written(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` again and again, after 1 to 30 seconds, until the disk takes it.

        What `work` wrote before it failed is not undone: it must bear to be done again.

        Raises:
            Exception: What `work` raises, but for `LedgerUnwritable`.

        Cancellation:
            That of `work`; between two tries nothing is left to do.
        """
        while True:
            try:
                done = await work()
            except LedgerUnwritable as error:
                await asyncio.sleep(self._refused(error))
            else:
                self.note_written()
                return done

    def _refused(self, error: LedgerUnwritable) -> float:
        """Tell it if it is news, and return after how many seconds to try again."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
            what = "what works goes on, nothing new is begun until it can be written"
            self._tell("state.unwritable", "list", reason=f"{error.path}: {error.detail}; {what}")
        return min(max(now - self._since, _FIRST_DELAY), _LAST_DELAY)

    def note_written(self) -> None:
        """Something was written: tell that too, if it could not be before."""
        if self._since is not None:
            seconds = asyncio.get_running_loop().time() - self._since
            self._since = None
            self._tell("state.written", "list", seconds=round(seconds, 1))
