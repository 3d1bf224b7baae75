"""What Jake has yet to begin, in the order of the list."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, final

from otpy_agents.agent.beginning import Waits

if TYPE_CHECKING:
    from otpy_agents.tree.project import Project
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Todo"]


@final
class Todo:
    """Who is still to be begun, and who is at work. It looks at all once, then at what is new.

    A mortal only leaves the pool for good with an outcome: who has none, and is not in the pool, is
    to be begun.

    Args:
        project: Whose list it is.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._at_work: set[str] = set()
        # By place in the list. The new agents are apart: they may have to wait for budget while
        # others need not. Who was begun meanwhile stays in its heap, and is passed over.
        self._agents: list[tuple[int, str]] = []
        self._others: list[tuple[int, str]] = []
        self._queued: set[str] = set()
        self._held = False
        project.pool.courses.stirred |= project.desk.memory.listed.keys()

    @property
    def empty(self) -> bool:
        """Whether nobody is to be begun, and nobody is at work."""
        return not self._at_work and not self._queued

    async def look(self) -> None:
        """Look at each assignment of which something is new."""
        stirred = self._project.pool.courses.stirred
        while stirred:
            name = stirred.pop()
            try:
                await self._sort(name)
            except BaseException:
                stirred.add(name)
                raise

    async def _sort(self, name: str) -> None:
        pool, memory = self._project.pool, self._project.desk.memory
        self._queued.discard(name)
        self._at_work.discard(name)
        if name not in memory.listed or pool.courses.outcome(name) is not None:
            return
        if pool.has(name) or name in pool.courses.ending:
            self._at_work.add(name)
        elif name in pool.posts and await memory.is_done(name):
            pool.done(name)  # its pool was killed before it could tell
        else:
            is_agent = memory.listed[name].agent is not None
            new = is_agent and not self._project.desk.was_begun(name)
            self._queued.add(name)
            heappush(self._agents if new else self._others, (memory.place(name), name))

    def following(self) -> Assignment | None:
        """Return who is to be begun now; None if nobody can be. Who never can be has come out."""
        desk = self._project.desk
        while heads := sorted(filter(None, map(self._head, (self._agents, self._others)))):
            for head in heads:
                name = head[1]
                hindrance = desk.hindrance(desk.memory.listed[name])
                if hindrance is Waits.BUDGET:  # so it is for all new agents, and for nobody else
                    self._tell_held()
                    continue
                if head == self._head(self._agents):
                    self._held = False  # there is budget again
                if hindrance is None:
                    return desk.memory.listed[name]
                if hindrance is Waits.PLACE:
                    return None
                self._queued.discard(name)
                self._project.pool.ended(name, hindrance)
                break
            else:
                return None
        return None

    def _head(self, heap: list[tuple[int, str]]) -> tuple[int, str] | None:
        while heap and heap[0][1] not in self._queued:
            heappop(heap)
        return heap[0] if heap else None

    def _tell_held(self) -> None:
        """Tell a person, once, who is not begun before there is more budget."""
        if self._held:
            return
        self._held = True
        waiting = sorted({one for one in self._agents if one[1] in self._queued})
        names = ", ".join(name for _, name in waiting)
        detail = f"budget of {self._project.key!r} spent; not begun before there is more: {names}"
        self._project.desk.tell("operator.notified", "list", detail=detail)
