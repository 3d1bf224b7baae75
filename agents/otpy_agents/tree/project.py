"""What everything that works on one list shares: its files, its board, its budget, its events."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from otpy_agents.store.records import AssignmentRecord, State
from otpy_agents.tree.pool import MortalPool
from otpy_monitors import Board, Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from otpy import ExitReason
    from otpy_agents.run.process import WorkerProcess
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.tree.assignment import WorkList

    Listener = Callable[[str, str, Mapping[str, str | float | bool | None]], None]


@final
class Project:
    """One run of one work list. A plain object: what is supervised is handed it.

    Attributes:
        work: The list.
        ledger: What is known of it, on disk.
        board: Where workers can be seen.
        pool: What becomes of mortals.
        work_root: Folder of the private work directories, beside the ledger.
        jake_error: What Jake died of last; None if he never did.
    """

    def __init__(
        self,
        work: WorkList,
        ledger: Ledger,
        records: tuple[AssignmentRecord, ...],
        listener: Listener,
    ) -> None:
        """Make the project of a run.

        Args:
            work: The list.
            ledger: Open, and told of the list.
            records: Its summary before anything is begun.
            listener: Called as `listener(name, id, detail)` with every event.
        """
        self.work = work
        self.ledger = ledger
        self.board = Board()
        self.pool = MortalPool(self.tell, self.warn)
        self.work_root = work.state.with_suffix(".work")
        self.jake_error: Exception | None = None
        self._listener = listener
        self._before = {record.id: record for record in records}
        self._spent = {r.id: Spent(r.seconds, r.output_bytes) for r in records}
        self._running: dict[str, Callable[[], Spent]] = {}
        self._ends: dict[str, str] = {}
        self._written: set[str] = set()

    def tell(self, name: str, id: str, **detail: str | float | bool | None) -> None:
        """Tell the listener that something happened; empty details are left out."""
        self._listener(name, id, {key: value for key, value in detail.items() if value != ""})

    # --- files -----------------------------------------------------------------------------------

    def work_directory(self, assignment: str) -> Path:
        """Return the private work directory of an assignment; it is made on first use."""
        directory = self.work_root / assignment
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def notes(self, assignment: str) -> Path:
        """Return the file by which messages reach the worker; its name is `OTPY_NOTES` there."""
        return self.work_directory(assignment) / "NOTES"

    def warn(self, assignment: str, message: str) -> None:
        """Send a message into a worker: append a line to its notes (TREE-47)."""
        with self.notes(assignment).open("a", encoding="utf-8") as file:
            file.write(f"{message}\n")

    # --- memory ----------------------------------------------------------------------------------

    def last_exit(self, assignment: str, reason: ExitReason | None) -> str | None:
        """Return why the life before this one ended: under this host, or under the last one.

        A pool that was restarted knows nothing of earlier lives (`reason` is None); we do.
        """
        if reason is not None:
            return str(reason)
        if assignment in self._ends:
            return self._ends[assignment]
        before = self._before.get(assignment)
        if before is None or not before.attempts or before.state is State.FAILED:
            return None
        return before.reason or "its host ended"

    def life_ended(self, assignment: str, reason: str) -> None:
        """Remember why a life ended, for the note to the next one."""
        self._ends[assignment] = reason

    async def write_endings(self) -> None:
        """Write down how assignments came out, as far as that has not been done."""
        final = await self.ledger.finished_ids()
        for name, ending in list(self.pool.endings.items()):
            if name not in final and name not in self._written:
                await self.ledger.finish(name, ending.state, ending.reason)
                self._written.add(name)

    # --- budget ----------------------------------------------------------------------------------

    @contextmanager
    def running(self, assignment: str, worker: WorkerProcess) -> Generator[Callable[[], Spent]]:
        """Charge what a worker uses, while the block lasts, to its assignment.

        Yields:
            A function that returns what the assignment has used so far, over all its attempts.
        """
        clock = asyncio.get_running_loop().time
        began, before = clock(), self._spent.get(assignment, Spent())

        def spent() -> Spent:
            seconds = before.seconds + clock() - began
            return Spent(seconds, before.output_bytes + worker.output_bytes)

        self._running[assignment] = spent
        try:
            yield spent
        finally:
            self._spent[assignment] = spent()
            del self._running[assignment]

    def spent(self) -> Spent:
        """Return what all assignments of the list have used together."""
        now = {**self._spent, **{name: spent() for name, spent in self._running.items()}}
        return Spent(
            sum(spent.seconds for spent in now.values()),
            sum(spent.output_bytes for spent in now.values()),
        )
