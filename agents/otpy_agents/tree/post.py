"""What outlives the lives of an agent: where it stands, what it failed of, and its pause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from attrs import frozen

from otpy_agents.tree.agent import Agent, AgentState, Happening, Move

if TYPE_CHECKING:
    from otpy_agents.run.orphans import Orphan
    from otpy_agents.run.result import VendorSession
    from otpy_agents.tree.assignment import Assignment
    from otpy_agents.tree.runs import Run

__all__ = ["OPERATOR", "Pause", "Post"]

OPERATOR: Final = "operator"
"""By whom a pause is that a person has asked for."""


@final
@frozen(kw_only=True)
class Pause:
    """Why an agent rests.

    Attributes:
        by: Who or what wants it: `operator`, `budget`, `gang:NAME`, `rule:NAME`, `question`.
        why: In one line.
    """

    by: str
    why: str

    @property
    def asks(self) -> bool:
        """Whether a person has to say or to grant something before it can go on."""
        return self.by != OPERATOR


@final
class Post:
    """The post of an agent. Lives come and go; whoever holds it now finds here what was before.

    Args:
        key: `project/assignment`.
        assignment: What is done at it.
        state: Where its agent stood when the host began.
        told: Gets every move.
        said: Gets every line that the agent says.

    Attributes:
        key: As given.
        assignment: As given.
        agent: Where it stands.
        failures: How often each failure came.
        session: The vendor's session to go on with; None for none.
        summary: What it said last.
        messages: What others have to say to it, until its next prompt.
        reply: What a person answered, until its next prompt.
        run: The run that works for it; None between two.
        restarts: How often it was restarted.
        fell: In one word, why its last life ended; empty if none has.
        frozen: Its processes, while they are stopped by an operator; empty if they are not.
    """

    def __init__(
        self,
        key: str,
        assignment: Assignment,
        state: AgentState,
        told: Callable[[Move], object],
        said: Callable[[str], object] = lambda _line: None,
    ) -> None:
        self.key = key
        self.assignment = assignment
        self.agent = Agent(key, state)
        self.failures: Counter[str] = Counter()
        self.session: VendorSession | None = None
        self.summary = ""
        self.messages: list[str] = []
        self.reply = ""
        self.run: Run | None = None
        self.restarts = 0
        self.fell = ""
        self.frozen: tuple[Orphan, ...] = ()
        self._told = told
        self._said = said
        self._pauses: dict[str, Pause] = {}
        self._changed = asyncio.Event()
        self._boundary = asyncio.Event()

    def move(self, happening: Happening, why: str = "") -> bool:
        """Let something happen to the agent, if it can where it stands; return whether it did.

        What reaches it late, because it has just ended for another reason, changes nothing.
        """
        if not self.agent.can(happening):
            return False
        self._told(self.agent.take(happening, why))
        return True

    # --- the pause --------------------------------------------------------------------------------

    @property
    def pause(self) -> Pause | None:
        """Why it rests, or will at the next boundary of a turn; None if it does not."""
        return next(iter(self._pauses.values()), None)

    def pause_for(self, pause: Pause) -> bool:
        """Let it rest from the next boundary of a turn on; return False if it will already."""
        if pause.by in self._pauses:
            return False
        self._pauses[pause.by] = pause
        self._change()
        return True

    def go_on(self, by: str | None = None) -> bool:
        """Take back the pause that is `by` somebody, or all; return whether there was one."""
        found = list(self._pauses) if by is None else [one for one in self._pauses if one == by]
        for one in found:
            del self._pauses[one]
        self._change()
        return bool(found)

    async def until_going_on(self) -> None:
        """Wait until nothing wants it to rest any more."""
        while self._pauses:
            await self._changed.wait()

    async def until_paused_at_boundary(self) -> None:
        """Wait until it is to rest and has come to a boundary of a turn (G-10)."""
        while True:
            while not self._pauses:
                await self._changed.wait()
            if self._boundary.is_set():
                return
            boundary = asyncio.ensure_future(self._boundary.wait())
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({boundary, changed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                boundary.cancel()
                changed.cancel()

    def at_boundary(self, here: bool) -> None:  # noqa: FBT001 - the one thing it says
        """Say whether it could be stopped now without losing anything."""
        if here:
            self._boundary.set()
        else:
            self._boundary.clear()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def say(self, text: str) -> None:
        """Hand on what the agent says, line by line; empty lines are left out."""
        for line in text.splitlines():
            if line.strip():
                self._said(line)

    # --- what it is told --------------------------------------------------------------------------

    def told(self, reply: str, messages: int) -> None:
        """Keep no longer what it has been told: a reply, and so many of the messages."""
        if self.reply == reply:
            self.reply = ""
        del self.messages[:messages]
