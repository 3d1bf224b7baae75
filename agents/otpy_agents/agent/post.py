"""The state that outlives the lives of an agent: its place in the table, failures and pause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from otpy_agents.agent.pause import AgentPause, Cure, Pauses
from otpy_agents.agent.state import Agent, AgentState, Happening, Move

if TYPE_CHECKING:
    from otpy_agents.agent.runs import Run
    from otpy_agents.process.orphans import Orphan
    from otpy_agents.run.decide.result import VendorSession
    from otpy_agents.worklist.assignment import Assignment

__all__ = ["Post"]


@final
class Post:
    """The post of an agent. Lives come and go; the current life finds here what came before it.

    Args:
        key: `project/assignment`.
        assignment: Its assignment.
        state: Where its agent stood when the host began.
        told: Gets every move.
        said: Gets every line that the agent says.
        kept: Called when what is to be kept of its rest has changed: its pauses, or the answer.

    Attributes:
        key: As given.
        assignment: As given.
        agent: Where it stands.
        failures: How often each failure came, under all hosts.
        session: The vendor's session to go on with; None for none.
        summary: Its last answer; empty before the first.
        messages: What others have to say to it, until its next prompt.
        reply: A person's answer, until its next prompt.
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
        kept: Callable[[], object] = lambda: None,
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
        self._kept = kept
        self._pauses = Pauses()
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
        """Let the agent stand where one does that rests for `pause`; return whether it moved.

        One that waits for a person does so as long as any of its pauses asks one.
        """
        if not self._pauses.ask:
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
        return self._pauses.first

    @property
    def lasting(self) -> tuple[AgentPause, ...]:
        """Its pauses that the next host has to know of."""
        program = self.assignment.agent is None
        return tuple(one for one in self._pauses if one.outlasts_host(program=program))

    def pause_for(self, pause: AgentPause) -> bool:
        """Let it rest from the next boundary of a turn on; return False if it will already."""
        return self._change(self._pauses.add(pause))

    def go_on(self, cure: Cure = Cure.RESUME) -> bool:
        """Take back the pauses that a cure ends; return whether there was one."""
        return self._change(self._pauses.cured(cure))

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
            while not self._pauses.any:
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
            if self._pauses.any and self._turns > turns:
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
        settling = self.settles - asyncio.get_running_loop().time()
        if settling > 0:
            await asyncio.sleep(settling)
        if self.answered:
            await asyncio.sleep(grace)
        elif settling <= 0:
            # The next call may have begun by now. To wait for its end is to let the model be asked
            # once more.
            return
        if self._turns == turns:  # else it has come to another boundary meanwhile
            await self.until_paused_at_boundary()

    def at_boundary(self, here: bool) -> None:  # noqa: FBT001 - the one thing it says
        """Say whether it could be stopped now without losing anything."""
        if here:
            self._turns += 1
            self._boundary.set()
        else:
            self._boundary.clear()

    def _change(self, pauses: Pauses) -> bool:
        if pauses == self._pauses:
            return False
        self._pauses = pauses
        self._changed.set()
        self._changed = asyncio.Event()
        self._kept()
        return True

    def say(self, text: str) -> None:
        """Pass the agent's words on, line by line, without empty lines."""
        for line in text.splitlines():
            if line.strip():
                self._said(line)

    # --- what it is told --------------------------------------------------------------------------

    def drop_told(self, reply: str, messages: int) -> None:
        """Drop the delivered reply, and that many delivered messages."""
        if reply and self.reply == reply:
            self.reply = ""
            self._kept()
        del self.messages[:messages]
