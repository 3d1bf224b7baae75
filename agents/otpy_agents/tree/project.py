"""What everything that works on one list shares: its files, its budget, its events."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final, final

from otpy_agents.agent import messages
from otpy_agents.agent.beginning import Waits, hindrance
from otpy_agents.agent.checkpoint import CHECKPOINT
from otpy_agents.agent.course import HOST_ENDED, Course
from otpy_agents.agent.courses import Courses
from otpy_agents.agent.disk import Disk
from otpy_agents.agent.effort import Effort
from otpy_agents.agent.persistence import Persistence
from otpy_agents.agent.post import Post
from otpy_agents.agent.state import AgentState, Happening, Move
from otpy_agents.agent.workplace import Workplace
from otpy_agents.errors import AgentRefused, LedgerError
from otpy_agents.run.host.walls import said_of
from otpy_agents.store.agent_rows import AgentRow, MoveRow
from otpy_agents.store.records import AssignmentRecord, Outcome, State
from otpy_agents.tree.consequences import Consequences
from otpy_agents.tree.pool import MortalPool
from otpy_agents.workspace import ChangesetOwner
from otpy_monitors import Exceeding, Limits, OnExceed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from otpy import ExitReason
    from otpy_agents.agent.verification import Complaint, Verifier
    from otpy_agents.run.host.order import SandboxChoice
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.store.sessions import SessionStore
    from otpy_agents.worklist.assignment import Assignment, WorkList
    from otpy_agents.workspace import Fates
    from otpy_monitors import Finding, Kind

    Listener = Callable[[str, str, Mapping[str, str | float | bool | None]], None]


_OPEN: Final = (
    "agents can write and reach whatever their user can; `sandbox` in [list] or [[assignment]],"
    " or `up --sandbox`, puts walls around them"
)


def label_of(list_id: str, assignment: Assignment) -> str:
    """Return what runs for an assignment, as it is defined now, are found by, by any host."""
    return f"{list_id}/{assignment.id}/{assignment.digest}"


@final
class Project:
    """One run of one work list. A plain object: what is supervised is handed it.

    Attributes:
        key: Its name among all projects.
        work: The list.
        ledger: What is known of it, on disk.
        workplace: What it shares with other projects.
        disk: Where who cannot write waits.
        pool: What becomes of mortals.
        acting: What follows from findings.
        keeping: Sessions and changesets of its agents.
        listed: The assignments of the list, then those that were added to it, by name.
        effort: How far Jake has come with it.
        work_root: Folder of the private work directories, beside the ledger.
        jake_fell: Why Jake ended last when he should not have; None if he never did.
    """

    def __init__(
        self,
        work: WorkList,
        ledger: Ledger,
        records: tuple[AssignmentRecord, ...],
        listener: Listener,
        *,
        agents: Iterable[AgentRow] = (),
        workplace: Workplace | None = None,
        verifier: Verifier | None = None,
        sessions: SessionStore | None = None,
        fates: Fates | None = None,
    ) -> None:
        """Make the project of a run, and let it work at its workplace.

        Args:
            work: The list.
            ledger: Open, and told of the list.
            records: Its summary before anything is begun.
            listener: Called as `listener(name, id, detail)` with every event.
            agents: Where its agents stood when the last host ended.
            workplace: Shared with other projects; None for one of its own, without agents.
            verifier: Looks into what an agent did that says that it is done: called with its
                assignment, its work directory and its answer, it returns what is wrong, or None.
            sessions: Where sessions of agents are kept; None to keep them as long as this lives.
            fates: What becomes of the work of an agent that is restarted; None for the default.
        """
        self.key = work.name
        self.work = work
        self.ledger = ledger
        self.workplace = workplace or Workplace()
        self.workplace.projects.append(self)
        self.disk = Disk(self.tell)
        self.listed = {one.id: one for one in work.assignments}
        self.pool = MortalPool(self, Courses(records, agents))
        self.acting = Consequences(self)
        owner = ChangesetOwner(ledger.list_id, str(ledger.path.resolve()))
        self.keeping = Persistence(self.key, owner, sessions, fates, self.tell, self.checkpoint)
        self.effort = Effort.AT_WORK
        self.work_root = work.state.with_suffix(".work")
        self.jake_fell: ExitReason | None = None
        self._listener = listener
        self._places = {name: place for place, name in enumerate(self.listed)}
        self._moves: list[MoveRow] = []
        self._verifier = verifier
        self._open_told = False
        ledger.on_astray(lambda line: self.tell("state.astray", "list", reason=line))
        self._declare_whole()

    # --- assignments ------------------------------------------------------------------------------

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """Those of the list, then those that were added to it."""
        return tuple(self.listed.values())

    def place(self, assignment: str) -> int:
        """Return the place of an assignment in the list, from 0."""
        return self._places[assignment]

    @property
    def given_up(self) -> bool:
        """Whether Jake is not started again to work."""
        return self.effort is Effort.GIVEN_UP

    @property
    def at_rest(self) -> bool:
        """Whether Jake has nothing left to do, or has given up."""
        return self.effort is not Effort.AT_WORK

    async def list_too(self, assignment: Assignment) -> None:
        """Add an assignment to the list for as long as this host lives, unless it is listed."""
        if assignment.id not in self.listed:
            await self.ledger.add(assignment.id, assignment.digest)
            self._places[assignment.id] = len(self.listed)
            self.listed[assignment.id] = assignment

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

    async def verify(self, assignment: Assignment, cwd: Path, answer: str) -> Complaint | None:
        """Return what is wrong with what an agent did; None if nothing is."""
        return None if self._verifier is None else await self._verifier(assignment, cwd, answer)

    def label(self, assignment: Assignment) -> str:
        """Return what runs for an assignment, as it is defined now, are found by."""
        return label_of(self.ledger.list_id, assignment)

    def agent_key(self, assignment: str) -> str:
        """Return the key of the agent that takes an assignment."""
        return f"{self.key}/{assignment}"

    @property
    def repositories(self) -> tuple[Path, ...]:
        """The git repositories of which agents get work trees."""
        works = (one.agent for one in self.work.assignments)
        found = (work.changeset for work in works if work is not None)
        return tuple(dict.fromkeys(path for path in found if path is not None))

    def grant(self, account: str, kind: Kind, amount: float) -> None:
        """Let the project, or one of its agents, spend more; who rests for that goes on (C-12).

        Args:
            account: Name of the agent; empty for the whole project.
            kind: Of what.
            amount: How much more.

        Raises:
            BudgetError: There is no such account or limit, or the project has less.
        """
        budgets = self.workplace.budgets
        budgets.grant(f"{self.key}/{account}" if account else self.key, kind, amount)
        self.tell("budget.granted", account or "list", kind=str(kind), amount=amount)
        for project in self.workplace.projects:
            budgets.wake(project.pool)

    def _declare(self, assignment: Assignment) -> None:
        """Let a budget be what the assignment says, and say what is not as it was."""
        work = assignment.agent
        own = Limits(
            tokens=None if work is None else work.tokens,
            cost_usd=None if work is None else work.cost_usd,
            seconds=assignment.wall_seconds,
            output_bytes=assignment.output_bytes,
        )
        then = OnExceed(Exceeding.REAP) if work is None else work.on_exceed
        key, budgets = self.agent_key(assignment.id), self.workplace.budgets
        for line in budgets.open(key, self.key, own, then):
            self.tell("budget.changed", assignment.id, detail=line)

    def _declare_whole(self) -> None:
        """Let the budget of the project be what its list says, then those of its assignments."""
        work, budgets = self.work, self.workplace.budgets
        whole = Limits(
            tokens=work.tokens,
            cost_usd=work.cost_usd,
            seconds=work.wall_seconds,
            output_bytes=work.output_bytes,
        )
        for line in budgets.open(self.key, "", whole):
            self.tell("budget.changed", "list", detail=line)
        for line in budgets.carried_over(self.key):
            self.tell("budget.carried_over", "list", detail=line)
        for assignment in work.assignments:
            self._declare(assignment)

    def concerns(self, finding: Finding) -> bool:
        """Whether a finding is about this project, or a mortal of it."""
        account: str = getattr(finding, "account", "")
        if account:
            return account == self.key or account.startswith(f"{self.key}/")
        path: str = getattr(finding, "path", "")
        return self.pool.path != "" and path.startswith(f"{self.pool.path}/")

    # --- agents -----------------------------------------------------------------------------------

    def open_post(self, assignment: Assignment) -> Post:
        """Return a new post; its agent stands where the last host has left it."""
        stood = self.pool.courses[assignment.id].stood
        self.pool.courses.change(assignment.id, Course.open_post)
        key = self.agent_key(assignment.id)
        if stood is None or AgentState(stood.state).final:
            # What came to an end and is begun all the same has another definition by now.
            stood = AgentRow(assignment=assignment.id, state=AgentState.WORKING)
        state = AgentState(stood.state)
        self._declare(assignment)
        for line in self.workplace.budgets.carried_over(key):
            self.tell("budget.carried_over", assignment.id, detail=line)

        def said(line: str) -> None:
            self.tell("mortal.output", assignment.id, line=line)

        post = Post(key, assignment, state, self._moved, said)
        post.messages += messages.kept(self._messages(assignment))
        post.failures.update(stood.failures)
        post.last = stood.run
        if state is not AgentState.WORKING:
            # What it waited for, and who looked into its work, went with its host.
            for happening in (Happening.ANSWERED, Happening.WOKEN, Happening.FAILED):
                if post.move(happening, HOST_ENDED):
                    break
        return post

    def _moved(self, move: Move) -> None:
        name = move.agent.removeprefix(f"{self.key}/")
        row = MoveRow(
            assignment=name,
            source=move.source,
            happening=move.happening,
            target=move.target,
            why=move.why,
        )
        self._moves.append(row)
        self.pool.news()  # Jake writes it down, unless whoever moved does so first
        self.tell("agent.state", name, source=move.source, state=move.target, why=move.why)

    # --- events -----------------------------------------------------------------------------------

    def tell(self, name: str, id: str, **detail: str | float | bool | None) -> None:
        """Tell the listener that something happened; empty details are left out."""
        self._listener(name, id, {key: value for key, value in detail.items() if value != ""})

    def tell_walls(self, assignment: Assignment, choice: SandboxChoice) -> None:
        """Say which walls hold around an agent; that there are none is said once, of all."""
        walls = said_of(choice)
        if walls:
            self.tell("agent.walls", assignment.id, detail=walls)
        elif not self._open_told:
            self._open_told = True
            self.tell("agent.no_walls", "list", detail=_OPEN)

    # --- files -----------------------------------------------------------------------------------

    def work_directory(self, assignment: str) -> Path:
        """Return the private work directory of an assignment; it is made on first use."""
        directory = self.work_root / assignment
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def notes(self, assignment: str) -> Path:
        """Return the file by which messages reach the worker; its name is `OTPY_NOTES` there."""
        return self.work_directory(assignment) / "NOTES"

    def checkpoint(self, assignment: str) -> Path:
        """Return the file in which an agent may say where it stands, `OTPY_CHECKPOINT` there."""
        return self.work_directory(assignment) / CHECKPOINT

    def warn(self, assignment: str, message: str) -> None:
        """Send a message into a worker: into its notes, and an agent's next prompt (TREE-47).

        Raises:
            OSError: Its notes cannot be written; an agent's next prompt says it all the same.
        """
        post = self.pool.posts.get(assignment)
        if post is not None and post.assignment.agent is not None:
            post.messages.append(message)
            self.keep_messages(post)
        messages.add_note(self.notes(assignment), message)

    def keep_messages(self, post: Post) -> None:
        """Keep what others have to say to an agent, until its next prompt under any host."""
        with contextlib.suppress(OSError):  # then it is told if this host lives as long
            messages.keep(self._messages(post.assignment), post.messages)

    def _messages(self, assignment: Assignment) -> Path:
        # By its definition: with another one it is another agent.
        folder = self.work.state.with_suffix(".messages")
        return folder / f"{assignment.id}.{assignment.digest}.json"

    # --- memory ----------------------------------------------------------------------------------

    def last_exit(self, assignment: str, reason: ExitReason | None) -> str | None:
        """Return why the life before this one ended: under this host, or under the last one.

        A pool that was restarted knows nothing of earlier lives (`reason` is None); we do.
        """
        if reason is not None:
            return str(reason)
        return self.pool.courses[assignment].last_end

    def was_begun(self, assignment: str) -> bool:
        """Whether an assignment has been worked on, by this host or an earlier one."""
        if self.last_exit(assignment, None) is not None:
            return True
        # One that has another definition now has no ends, but what it has spent stays.
        return bool(self.workplace.budgets.carried_over(self.agent_key(assignment)))

    def life_ended(self, assignment: str, reason: str) -> None:
        """Remember why a life ended, for the note to the next one."""
        self.pool.courses.change(assignment, partial(Course.end_life, why=reason))

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
        """Write down how agents moved, as far as that is not done.

        Raises:
            LedgerError: That cannot be done; the next call tries again.
        """
        moves, self._moves = self._moves, []
        try:
            await self.ledger.agents.record(self.ledger.host, moves)
        except LedgerError:
            self._moves[:0] = moves
            raise
        if moves:
            self.disk.written()

    async def write_outcomes(self) -> None:
        """Write down how assignments came out and how agents moved, as far as that is not done.

        Raises:
            LedgerError: That cannot be done; the next call tries again.
        """
        await self.write_moves()
        outcomes = dict(self.pool.courses.unwritten)
        if outcomes:
            await self.ledger.conclude(outcomes)
            for name in outcomes:
                self.pool.courses.change(name, Course.write_down)
            self.disk.written()

    async def retry(self, assignment: str) -> None:
        """Let an assignment that was given up begin again, with its session and its changeset.

        Raises:
            AgentRefused: It was not given up, or is a program whose budget is spent.
            LedgerError: It could not be written down; nothing was changed.
        """
        over = self.hindrance(self.listed[assignment])
        if isinstance(over, Outcome):
            raise AgentRefused(assignment, f"it would be reaped at once: {over.reason}")
        if self.pool.process(assignment) is not None:
            raise AgentRefused(assignment, "it is at work, or is being ended")
        await self.write_outcomes()
        if not await self.ledger.retry(assignment):
            states = {record.id: record.state for record in await self.ledger.summary()}
            raise AgentRefused(assignment, f"it is {states[assignment]}, and was not given up")
        self.pool.forget(assignment)
        self.tell("agent.retried", assignment)

    # --- budget ----------------------------------------------------------------------------------

    def hindrance(self, assignment: Assignment) -> Waits | Outcome | None:
        """Return what keeps an assignment from being begun now; an outcome if it never will be."""
        places, program = self.pool.places, assignment.agent is None
        spent = self.workplace.budgets.spent(self.agent_key(assignment.id)) if program else ""
        return hindrance(
            spent=spent,
            held=self.budget_left(assignment) is not None,
            place=places.holds(assignment.id) or places.open,
        )

    def budget_left(self, assignment: Assignment) -> float | None:
        """Return the nothing, or less, that is left for one that is new; None if it may begin.

        None for one that was begun, or has spent its own under another definition: an agent rests
        for a grant then, and a program is for the budget monitor.
        """
        if self.was_begun(assignment.id):
            return None
        account = self.key if assignment.agent is not None else self.agent_key(assignment.id)
        return self.workplace.budgets.left(account)
