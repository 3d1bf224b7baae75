"""One attempt in progress: the state that it shares with the task of its run.

The attempt writes down what happens and wakes the task; the task looks when it can. So a task that
was restarted misses nothing, and an attempt never waits for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, final

from otpy import ExitReason, Killed, Process, Shutdown
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.attempt import events as said_by
from otpy_agents.attempt.events import Event, Retrying, Spent
from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.transcript import Transcript
from otpy_agents.run.decide.prices import priced
from otpy_agents.run.decide.protocol import AttemptGone, Charged, LaunchAttempt
from otpy_agents.sandbox.behaviour import Identity, Running

__all__ = ["Flight"]

_NEWS: Final = 1.0
"""Seconds within which the task is told of progress at most once."""


LAST_LINE: Final = 0.5
"""Seconds after the price of a message in which the line may come that says it was the answer."""


@final
class Flight:
    """One attempt, from the moment it is decided until its end is taken in.

    Args:
        order: What to start, as the machine of the run decided.
        identity: The attempt to continue; None to start a new one.

    Attributes:
        order: As given.
        identity: As given; then what is running, as soon as something is.
        transcript: The agent's transcript.
        running: The running job; None before, and after.
        ran: Whether something was started.
        identified: Whether it is stored what runs.
        answered: Whether the agent had told its final answer before it was asked to end.
        progress: When the agent last said something, in seconds of the loop; None if it has not.
        told: The `progress` that the task has taken in.
        outcome: How it ended, when nothing of it is left; None until then.
        answer: The agent's answer, known with `outcome`.
        cut: Bytes of output that were not kept, known with `outcome`.
        left_over: Processes that it had left running, known with `outcome`.
        survivors: Processes that could not be ended in time, known with `outcome`.
    """

    def __init__(self, order: LaunchAttempt, identity: Identity | None = None) -> None:
        self.order = order
        self.identity = identity
        self.transcript = Transcript()
        self.running: Running | None = None
        self.ran = self.identified = self.answered = False
        self.progress: float | None = None
        self.told: float | None = None
        self.outcome: AttemptGone | None = None
        self.answer = ""
        self.cut = 0
        self.left_over: tuple[str, ...] = ()
        self.survivors: tuple[str, ...] = ()
        self._loop = asyncio.get_running_loop()
        self._process: Process | None = None
        self._stop = asyncio.Event()
        self._kill = asyncio.Event()
        self._listener: Callable[[], object] = lambda: None
        self._next_news = 0.0
        self._reading: asyncio.TimerHandle | None = None
        self._reading_due = False

    @property
    def number(self) -> int:
        """Its number, from 1."""
        return self.order.number

    @property
    def output(self) -> float | None:
        """When it last wrote something, in seconds of the loop; None if it does not run."""
        return None if self.running is None else self._loop.time() - self.running.quiet

    # --- for the task -----------------------------------------------------------------------------

    def watch(self, process: Process | None, listener: Callable[[], object]) -> None:
        """Call `listener` at any news, and take the end of `process` for an end of the attempt.

        Args:
            process: The child that makes the attempt; None if it has ended.
            listener: Must neither block nor raise; takes the place of the one before.
        """
        self._listener = listener
        if process is not None and process is not self._process:
            self._process = process
            process.on_exit(self._gone)
            if self._stop.is_set() and self.running is None:
                process.exit(Shutdown())
        listener()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stop.is_set() or self._kill.is_set()

    def charged(self) -> Charged | None:
        """Return its usage so far, once for each due reading.

        A reading may be the price of the answer itself, whose line is on its way. So it waits a
        moment, unless the agent has begun to use a tool: then more is to come.
        """
        said, agent = self.transcript, self.order.agent
        if not self._reading_due or said.finished:
            return None
        self._reading_due = False
        usage = priced(said.usage, said.model or agent.model or "")
        cumulative = find_adapter(agent.agent_cli).cumulative_usage
        if usage is None:
            return None
        return Charged(number=self.number, usage=usage, session=said.session, cumulative=cumulative)

    def stop(self, *, kill: bool) -> None:
        """End it, also while it is being started; `outcome` follows."""
        self._stop.set()
        if kill:
            self._kill.set()
        if self.running is None and self._process is not None:
            self._process.exit(Shutdown())

    def crash(self) -> bool:
        """Kill what runs, and let it look like an accident; return whether anything runs."""
        if self.running is None:
            return False
        self._kill.set()
        return True

    # --- for the attempt --------------------------------------------------------------------------

    def began(self, running: Running) -> None:
        """Something runs now."""
        self.running, self.identity, self.ran = running, running.identity, True
        self._listener()

    def said(self, events: list[Event]) -> None:
        """The agent has said something."""
        before = self.transcript.session
        self.transcript.add(events)
        if self.transcript.session != before:
            # The session is needed to continue an attempt and to find what it spent: it must be
            # stored even if the host is killed before the next news.
            self._next_news = 0.0
        if any(isinstance(event, said_by.Final) and event.fault is None for event in events):
            self.answered = self.answered or not self.stopping
        self._reckon(told=any(isinstance(event, Spent) for event in events))
        # Who asks a dead vendor again and again says something, and gets nowhere.
        if not all(isinstance(event, Retrying) for event in events):
            self._progressed()
        if any(isinstance(event, Retrying) and event.endless for event in events):
            self._stop.set()

    def _reckon(self, *, told: bool) -> None:
        """Let the task check the usage: now if a tool is in use, otherwise in a moment."""
        waits = self._reading is not None
        if self._reading_due or not (told or waits):
            return
        at_once = self.transcript.busy
        if at_once or not waits:
            self._forget_reading()
            delay = 0.0 if at_once else LAST_LINE
            self._reading = self._loop.call_later(delay, self._take_reading)

    def _take_reading(self) -> None:
        self._reading, self._reading_due = None, True
        self._listener()

    def _forget_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def wrote(self) -> None:
        """It has written a line that is not an event.

        Until there was an event each line is a sign of progress: what only writes plain text, as
        most commands do, has no other. Afterwards it is noise (G-05).
        """
        if not self.transcript.seen:
            self._progressed()

    def _progressed(self) -> None:
        self.progress = now = self._loop.time()
        if now >= self._next_news:
            self._next_news = now + _NEWS
            self._listener()

    def finish(self, outcome: AttemptGone) -> None:
        """It is over, and nothing of it is left; the first end counts."""
        if self.outcome is None:
            self.outcome = outcome
            self.running = None
            self._forget_reading()
            self._listener()

    async def when_stopped(self, action: Callable[[], Awaitable[object]]) -> None:
        """Perform `action` as soon as it is told to end."""
        await self._stop.wait()
        await action()

    async def when_killed(self, action: Callable[[], Awaitable[object]]) -> None:
        """Perform `action` as soon as it is told to end at once."""
        await self._kill.wait()
        await action()

    def _gone(self, _process: Process, reason: ExitReason) -> None:
        """Record that the child has ended; if it said nothing, the end was not in order."""
        message = f"the supervised child that made the attempt ended: {reason}"
        # Killed from outside is a crash like that of the process itself; else it is our own error.
        detail = Detail.CRASH if isinstance(reason, Killed) else Detail.UNKNOWN
        verdict, said = Classification(detail=detail, message=message), self.transcript
        self.finish(
            AttemptGone(
                number=self.number,
                classification=verdict,
                session=said.session,
                usage=priced(said.usage, said.model or self.order.agent.model or ""),
                cumulative=find_adapter(self.order.agent.agent_cli).cumulative_usage,
            )
        )
