"""The shared equipment of one list's mortals, and the conditions for their start."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, final

from otpy_agents.agent.card import Children
from otpy_agents.agent.course import Waits, hindrance
from otpy_agents.agent.folders import Folders, add_note
from otpy_agents.agent.memory import Memory
from otpy_agents.agent.pause import Cure
from otpy_agents.agent.persistence import Persistence
from otpy_agents.agent.places import Places
from otpy_agents.agent.posts import Posts
from otpy_agents.agent.workplace import Workplace
from otpy_agents.errors import InvalidTreeSetting
from otpy_agents.run.host.walls import said_of
from otpy_agents.store.records import AgentRow, AssignmentRecord, Outcome
from otpy_agents.workspace import ChangesetOwner

if TYPE_CHECKING:
    from otpy_agents.agent.post import Post
    from otpy_agents.agent.verification import Complaint, Verifier
    from otpy_agents.run.host.order import SandboxChoice
    from otpy_agents.store.ledger import Ledger
    from otpy_agents.store.sessions import SessionStore
    from otpy_agents.worklist.assignment import Assignment, WorkList
    from otpy_agents.workspace import Fates

__all__ = ["Desk", "EventListener"]

EventListener: TypeAlias = Callable[[str, str, Mapping[str, str | float | bool | None]], None]
"""Called as `listener(name, id, detail)` with every event of a list."""

_OPEN: Final = (
    "agents can write and reach whatever their user can; `sandbox` in [list] or [[assignment]],"
    " or `up --sandbox`, puts walls around them"
)


@final
class Desk:
    """The shared equipment of one list's mortals: a plain object, handed to each of them.

    Args:
        work: The list.
        ledger: Open, and told of the list.
        records: Its summary before anything is begun.
        listener: Called with every event.
        agents: Where its agents stood when the last host ended.
        workplace: Shared with other lists.
        verifier: See `Project`.
        sessions: See `Project`.
        fates: See `Project`.

    Attributes:
        key: Name of the list among all projects.
        workplace: As given.
        folders: Its files.
        memory: The knowledge about its assignments.
        posts: What outlives the lives of its mortals.
        places: Who works, and who waits for a place.
        children: Who asked for whom.
        keeping: Sessions and changesets of its agents.
    """

    def __init__(
        self,
        work: WorkList,
        ledger: Ledger,
        records: Iterable[AssignmentRecord],
        listener: EventListener,
        *,
        agents: Iterable[AgentRow],
        workplace: Workplace,
        verifier: Verifier | None,
        sessions: SessionStore | None,
        fates: Fates | None,
    ) -> None:
        self.key = work.name
        self.workplace = workplace
        self._listener = listener
        self._verifier = verifier
        self._open_told = False
        self.folders = Folders(work.state)
        self.memory = Memory(work, ledger, records, agents, self.tell)
        self.posts = Posts(self.key, self.memory, self.folders, workplace.budgets, self.tell)
        self.places = Places(work.parallel, self.memory.courses.news, self.tell)
        self.children = Children(self.key, workplace.feed)
        owner = ChangesetOwner(ledger.list_id, str(ledger.path.resolve()))
        self.keeping = Persistence(
            self.key, owner, sessions, fates, self.tell, self.folders.checkpoint
        )
        ledger.on_astray(lambda line: self.tell("state.astray", "list", reason=line))
        self._declare(work)
        workplace.budgets.on_more.append(self._go_on)

    def _declare(self, work: WorkList) -> None:
        """Set the budget that the list declares, then those of its assignments."""
        budgets = self.workplace.budgets
        for line in budgets.declare_list(self.key, work):
            self.tell("budget.changed", "list", detail=line)
        for line in budgets.carried_over(self.key):
            self.tell("budget.carried_over", "list", detail=line)
        for one in work.assignments:
            for line in budgets.declare(self.account(one.id), self.key, one):
                self.tell("budget.changed", one.id, detail=line)

    def account(self, assignment: str) -> str:
        """Return the key of the agent that takes an assignment, which its budget has too."""
        return f"{self.key}/{assignment}"

    def _go_on(self) -> None:
        """Let agents go on that rest for a budget and have something left, and new ones begin."""
        self.workplace.budgets.bookkeeper.settle(limited=True)  # once for all of them
        for post in self.posts.all.values():
            if self.workplace.budgets.has_left(post.key):
                post.go_on(Cure.GRANT)
        self.memory.courses.news()  # Jake may have held back what was not begun

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

    # --- before a mortal begins -------------------------------------------------------------------

    def was_begun(self, assignment: str) -> bool:
        """Whether an assignment has been worked on, by this host or an earlier one."""
        if self.memory.last_exit(assignment, None) is not None:
            return True
        # One that has another definition now has no ends, but what it has spent stays.
        return bool(self.workplace.budgets.carried_over(self.account(assignment)))

    def budget_left(self, assignment: Assignment) -> float | None:
        """Return the rest, 0 or less, that keeps a new agent from beginning; None if it may begin.

        None for one that was begun, or has spent its own under another definition: an agent rests
        for a grant then, and a program is for the budget monitor.
        """
        if self.was_begun(assignment.id):
            return None
        account = self.key if assignment.agent is not None else self.account(assignment.id)
        return self.workplace.budgets.left(account)

    def hindrance(self, assignment: Assignment) -> Waits | Outcome | None:
        """Return what keeps an assignment from being begun now; an outcome if it never will be."""
        program = assignment.agent is None
        return hindrance(
            spent=self.workplace.budgets.spent(self.account(assignment.id)) if program else "",
            held=self.budget_left(assignment) is not None,
            place=self.places.has_room_for(assignment.id),
        )

    # --- while it works ---------------------------------------------------------------------------

    def warn(self, assignment: str, message: str) -> None:
        """Send a message into a worker: into its notes, and an agent's next prompt (TREE-47).

        Raises:
            OSError: Its notes cannot be written; an agent's next prompt says it all the same.
        """
        post = self.posts.all.get(assignment)
        if post is not None and post.assignment.agent is not None:
            post.messages.append(message)
            self.keep_messages(post)
        add_note(self.folders.notes(assignment), message)

    def keep_messages(self, post: Post) -> None:
        """Keep what others have to say to an agent, until its next prompt under any host."""
        self.folders.keep_messages(post.assignment, post.messages)

    async def verify(self, assignment: Assignment, cwd: Path, answer: str) -> Complaint | None:
        """Return the complaint about an agent's work; None if there is none.

        Raises:
            InvalidTreeSetting: The verifier returned nothing to await.
        """
        if self._verifier is None:
            return None
        found = self._verifier(assignment, cwd, answer)
        if not inspect.isawaitable(found):
            got = f"{found!r:.100} from {self._verifier!r:.100}"
            raise InvalidTreeSetting("verifier", got, "an awaitable")
        return await found
