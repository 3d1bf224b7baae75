"""The posts of a list: each is opened when its mortal begins its first life under a host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from attrs import evolve

from otpy_agents.agent.course import HOST_ENDED, Course
from otpy_agents.agent.pause import QUESTION, AgentPause
from otpy_agents.agent.post import Post
from otpy_agents.agent.state import AgentState, Happening, Move
from otpy_agents.store.records import AgentRow

if TYPE_CHECKING:
    from otpy_agents.agent.budgets import Budgets
    from otpy_agents.agent.folders import Folders
    from otpy_agents.agent.memory import Memory
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Posts"]


@final
class Posts:
    """What outlives the lives of each mortal of one list.

    Args:
        key: Name of the list among all projects.
        memory: The knowledge about its assignments.
        folders: Its files.
        budgets: Those of the host.
        tell: Called as `tell(name, id, **detail)` with what a person should know.

    Attributes:
        all: The posts by the names of their mortals, in the order of their first start.
    """

    def __init__(
        self,
        key: str,
        memory: Memory,
        folders: Folders,
        budgets: Budgets,
        tell: Callable[..., None],
    ) -> None:
        self.all: dict[str, Post] = {}
        self._key = key
        self._memory = memory
        self._folders = folders
        self._budgets = budgets
        self._tell = tell

    def of(self, assignment: Assignment) -> Post:
        """Return the post of the mortal that takes `assignment`; it is opened on first use.

        The same name may come back with another definition: then it is another agent.
        """
        post = self.all.get(assignment.id)
        if post is None or post.assignment != assignment:
            post = self.all[assignment.id] = self._open(assignment)
        return post

    def _open(self, assignment: Assignment) -> Post:
        """Return a new post; its agent stands where the last host has left it."""
        name, courses = assignment.id, self._memory.courses
        stood = courses[name].stood
        courses.change(name, Course.open_post)
        if stood is None:
            stood = AgentRow(assignment=name, state=AgentState.WORKING)
        elif AgentState(stood.state).final:
            # Its host was killed before it had written down how the assignment came out.
            stood = evolve(stood, state=AgentState.WORKING)
        state, key = AgentState(stood.state), f"{self._key}/{name}"
        for line in self._budgets.declare(key, self._key, assignment):
            self._tell("budget.changed", name, detail=line)
        for line in self._budgets.carried_over(key):
            self._tell("budget.carried_over", name, detail=line)

        def moved(move: Move) -> None:
            self._memory.note_move(name, move)
            told = {"source": move.source, "state": move.target, "why": move.why}
            self._tell("agent.state", name, **told)

        def said(line: str) -> None:
            self._tell("mortal.output", name, line=line)

        def kept() -> None:
            self._memory.note_rest(post)

        post = Post(key, assignment, state, moved, said, kept)
        post.messages += self._folders.kept_messages(assignment)
        post.failures.update(stood.failures)
        post.last = stood.run
        post.reply = stood.reply
        for kept_pause in stood.pauses:
            pause = AgentPause(**kept_pause)
            post.pause_for(pause)
            if pause.by == QUESTION:  # the user of this host has not seen it
                self._tell("operator.asked", name, question=pause.why)
        if state is not AgentState.WORKING:
            # Its wait, and the verification of its work, ended with its host.
            for happening in (Happening.ANSWERED, Happening.WOKEN, Happening.FAILED):
                if post.move(happening, HOST_ENDED):
                    break
        return post
