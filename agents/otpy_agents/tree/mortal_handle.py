"""A mortal from outside: what whoever spawned it, or an operator, may ask and tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from otpy_agents.agent.state import AgentState
from otpy_agents.store.records import Outcome

if TYPE_CHECKING:
    from otpy_agents.agent.pause import AgentPause
    from otpy_agents.tree.pool import MortalPool
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Mortal"]


@final
class Mortal:
    """The handle to a mortal, or drone; it outlives all of its lives. Made by the pool.

    Every method is one of `MortalPool`, about this mortal.
    """

    def __init__(self, pool: MortalPool, name: str) -> None:
        self._pool = pool
        self._name = name

    @property
    def name(self) -> str:
        """Its name, unique in its project."""
        return self._name

    @property
    def assignment(self) -> Assignment:
        """What it works on."""
        return self._pool.posts[self._name].assignment

    @property
    def state(self) -> AgentState:
        """Where it stands."""
        return self._pool.posts[self._name].agent.state

    @property
    def restarts(self) -> int:
        """How often it was restarted under this host (TREE-50)."""
        return self._pool.posts[self._name].restarts

    @property
    def paused(self) -> AgentPause | None:
        """Why it rests, or will at the next boundary of a turn; None if it does not."""
        return self._pool.posts[self._name].pause

    @property
    def outcome(self) -> Outcome | None:
        """How it came out; None as long as it has not."""
        return self._pool.courses.outcome(self._name)

    async def wait(self) -> Outcome:
        """Wait until it has come out one way or the other; cancelling disturbs nothing."""
        return await self._pool.wait(self._name)

    def reap(self, why: str) -> None:
        """End it for good."""
        self._pool.reap(self._name, why)

    def pause(self, why: str) -> None:
        """Let it rest from the next boundary of a turn on (G-10)."""
        self._pool.pause(self._name, why)

    def resume(self) -> AgentPause | None:
        """Let it go on, unless it needs a grant or an answer; return why it rests all the same."""
        return self._pool.resume(self._name)

    def answer(self, text: str) -> AgentPause | None:
        """Answer what it has asked, and let it go on; return why it rests all the same."""
        return self._pool.answer(self._name, text)

    def warn(self, message: str) -> None:
        """Send it a message (TREE-47)."""
        self._pool.warn(self._name, message)
