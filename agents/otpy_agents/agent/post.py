"""What outlives the lives of an agent: where it stands, what it failed of, and its pause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, final

from attrs import frozen

from otpy_agents.agent.state import Agent, AgentState, Happening, Move

if TYPE_CHECKING:
    from otpy_agents.agent.runs import Run
    from otpy_agents.process.orphans import Orphan
    from otpy_agents.run.decide.result import VendorSession
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["AMOUNTS", "BUDGET", "OPERATOR", "QUESTION", "AgentPause", "Post"]

OPERATOR: Final = "operator"
"""By whom a pause is that a person has asked for."""

BUDGET: Final = "budget"
"""By what an agent rests whose budget is spent; only more of it ends that (C-12)."""

QUESTION: Final = "question"
"""By what an agent rests that has asked a person; only an answer ends that."""

AMOUNTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tokens": "--tokens N",
        "cost_usd": "--usd X",
        "seconds": "--minutes M",
        "output_bytes": "--bytes N",
    }
)
"""How each kind of budget is granted on the command line."""


@final
@frozen(kw_only=True)
class AgentPause:
    """Why an agent rests.

    Attributes:
        by: Who or what wants it: `operator`, `budget`, `gang:NAME`, `rule:NAME`, `question`.
        why: In one line.
        account: Whose budget is spent; empty for the agent's own.
        kind: What of it: `tokens`, `cost_usd`, `seconds` or `output_bytes`.
    """

    by: str
    why: str
    account: str = ""
    kind: str = "tokens"

    @property
    def asks(self) -> bool:
        """Whether a person has to say or to grant something before it can go on."""
        return self.by != OPERATOR

    def needs(self, name: str) -> str:
        """Return why an agent of that name rests, and what a person has to do about it."""
        if self.by == BUDGET:
            grant = f"{self.account or name} {AMOUNTS[self.kind]}"
            return f"{self.why}; grant it more: `otpy-agents budget grant {grant}`"
        if self.by == QUESTION:
            return f"it has asked {self.why!r}: `otpy-agents answer {name} TEXT`"
        return f"{self.why}: `otpy-agents resume {name}`"


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
        failures: How often each failure came, under all hosts.
        session: The vendor's session to go on with; None for none.
        summary: What it said last.
        messages: What others have to say to it, until its next prompt.
        reply: What a person answered, until its next prompt.
        run: The run that works for it; None between two.
        last: Id of the run that worked for it last, under an earlier host too; empty if all is
            known that it came to.
        restarts: How often it was restarted.
        fell: In one word, why its last life ended; empty if none has.
        answered: Whether the attempt that is being made has told its final answer.
        settles: Until when, in seconds of the loop, the line may come that says that what it told
            last was its answer.
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
        self.last = ""
        self.restarts = 0
        self.fell = ""
        self.answered = False
        self.settles = 0.0
        self.frozen: tuple[Orphan, ...] = ()
        self._told = told
        self._said = said
        self._pauses: dict[str, AgentPause] = {}
        self._changed = asyncio.Event()
        self._boundary = asyncio.Event()
        self._turns = 0

    def move(self, happening: Happening, why: str = "") -> bool:
        """Let something happen to the agent, if it can where it stands; return whether it did.

        What reaches it late, because it has just ended for another reason, changes nothing.
        """
        if not self.agent.can(happening):
            return False
        self._told(self.agent.take(happening, why))
        return True

    def rests(self, pause: AgentPause) -> bool:
        """Let the agent stand where one does that rests for `pause`; return whether it moved."""
        if not pause.asks:
            self.move(Happening.ANSWERED)  # what a person had to say before is said
        return self.move(Happening.ASKED if pause.asks else Happening.RESTED, pause.why)

    def wakes(self) -> None:
        """Let the agent stand where one does that goes on."""
        if not self.move(Happening.ANSWERED):
            self.move(Happening.WOKEN)

    # --- the pause --------------------------------------------------------------------------------

    @property
    def pause(self) -> AgentPause | None:
        """Why it rests, or will at the next boundary of a turn; None if it does not."""
        return next(iter(self._pauses.values()), None)

    def pause_for(self, pause: AgentPause) -> bool:
        """Let it rest from the next boundary of a turn on; return False if it will already."""
        if pause.by in self._pauses:
            return False
        self._pauses[pause.by] = pause
        self._change()
        return True

    def go_on(self, by: str | None = None) -> bool:
        """Take back a pause; return whether there was one.

        Args:
            by: The one that is by that; None for all but those that take more than a word: a spent
                budget and a question.
        """
        kept = {BUDGET, QUESTION} if by is None else set(self._pauses) - {by}
        found = [one for one in self._pauses if one not in kept]
        for one in found:
            del self._pauses[one]
        self._change()
        return bool(found)

    async def until_over(self, pause: AgentPause) -> None:
        """Wait until it rests no longer for `pause`: for nothing, or for something else."""
        while self.pause is pause:
            await self._changed.wait()

    async def until_paused_at_boundary(self) -> None:
        """Wait until it is to rest and has come to a boundary of a turn (G-10).

        One that was there for a moment only, and is busy with the next call already, counts: an
        agent that calls tool after tool would never be stopped.
        """
        while True:
            while not self._pauses:
                await self._changed.wait()
            turns = self._turns
            if self._boundary.is_set():
                return
            boundary = asyncio.ensure_future(self._boundary.wait())
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({boundary, changed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                boundary.cancel()
                changed.cancel()
            if self._pauses and self._turns > turns:
                return

    async def until_it_may_be_stopped(self, grace: float) -> None:
        """Wait until it is to rest, and a stop loses neither a call of a tool nor an answer.

        What is spent is known before the line comes that says that the work is done. And one that
        has said so ends by itself: a stop then only helps it to.

        Args:
            grace: Seconds that it gets for that.
        """
        await self.until_paused_at_boundary()
        turns = self._turns
        await asyncio.sleep(max(0.0, self.settles - asyncio.get_running_loop().time()))
        if self.answered:
            await asyncio.sleep(grace)
        if self._turns == turns:  # else it has come to another boundary meanwhile
            await self.until_paused_at_boundary()

    def at_boundary(self, here: bool) -> None:  # noqa: FBT001 - the one thing it says
        """Say whether it could be stopped now without losing anything."""
        if here:
            self._turns += 1
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
