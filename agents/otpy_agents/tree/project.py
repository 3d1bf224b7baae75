"""One run of one work list."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from otpy_agents.agent.desk import Desk, EventListener
from otpy_agents.agent.workplace import Workplace
from otpy_agents.errors import AgentRefused
from otpy_agents.store.records import Outcome
from otpy_agents.tree.consequences import Consequences
from otpy_agents.tree.pool import MortalPool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otpy_agents.agent.verification import Verifier
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.store.records import AgentRow, AssignmentRecord
    from otpy_agents.store.sessions import SessionStore
    from otpy_agents.worklist.assignment import Assignment, WorkList
    from otpy_agents.workspace import Fates
    from otpy_monitors import Kind

__all__ = ["Project"]


@final
class Project:
    """One run of one work list: the equipment of its mortals, and their managers.

    A plain object: Jake and the monitors are handed it.

    Attributes:
        work: The list.
        desk: What its mortals work with.
        pool: What becomes of them.
        acting: What follows from findings.
        effort: How far Jake has come with it.
    """

    def __init__(
        self,
        work: WorkList,
        ledger: Ledger,
        records: Iterable[AssignmentRecord],
        listener: EventListener,
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
        self.work = work
        self.desk = desk = Desk(
            work,
            ledger,
            records,
            listener,
            agents=agents,
            workplace=workplace or Workplace(),
            verifier=verifier,
            sessions=sessions,
            fates=fates,
        )
        self.pool = MortalPool(desk, self._failed)
        self.acting = Consequences(desk, self.pool, work.gangs)
        self.effort = desk.workplace.efforts.of(desk.key)
        desk.workplace.tells.append(desk.tell)

    def _failed(self, name: str, error: BaseException | None) -> None:
        self.acting.on_failure(name, error)

    @property
    def key(self) -> str:
        """Its name among all projects."""
        return self.desk.key

    @property
    def workplace(self) -> Workplace:
        """The workplace that it shares with other projects."""
        return self.desk.workplace

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """Those of the list, then those that were added to it."""
        return tuple(self.desk.memory.listed.values())

    def grant(self, account: str, kind: Kind, amount: float) -> None:
        """Let the project, or one of its agents, spend more; agents that rest for it go on (C-12).

        Args:
            account: Name of the agent; empty for the whole project.
            kind: Of what.
            amount: How much more.

        Raises:
            BudgetError: There is no such account or limit, or the project has less.
        """
        key = self.desk.account(account) if account else self.key
        self.workplace.budgets.grant(key, kind, amount)
        self.desk.tell("budget.granted", account or "list", kind=str(kind), amount=amount)

    async def retry(self, assignment: str) -> None:
        """Let an assignment that was given up begin again, with its session and its changeset.

        Raises:
            AgentRefused: It was not given up, or is a program whose budget is spent.
            LedgerError: It could not be written down; nothing was changed.
        """
        memory = self.desk.memory
        over = self.desk.hindrance(memory.listed[assignment])
        if isinstance(over, Outcome):
            raise AgentRefused(assignment, f"it would be reaped at once: {over.reason}")
        if self.pool.process(assignment) is not None:
            raise AgentRefused(assignment, "it is at work, or is being ended")
        await memory.write_outcomes()
        if not await memory.ledger.retry(assignment):
            state = await memory.ledger.state(assignment)
            raise AgentRefused(assignment, f"it is {state}, and was not given up")
        self.pool.forget(assignment)
        self.desk.tell("agent.retried", assignment)

    async def write_outcomes(self) -> None:
        """Write down how assignments came out and how agents moved, as far as that is not done.

        Raises:
            LedgerError: That cannot be done; the next call tries again.
        """
        await self.desk.memory.write_outcomes()
