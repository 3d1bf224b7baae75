"""How one process is brought to an end, always in bounded time.

| step | what happens | deadline |
|---|---|---|
| ask | a child that called `stop_requested()`, or has a behaviour, is told | its `shutdown` |
| cancel | its task is cancelled | its `shutdown` if it was not asked before, else `KILL_GRACE` |
| cancel again | it is cancelled once more, for good measure | `KILL_GRACE` |
| abandon | it is given up and reported, with its stack | – |

The first two cancellations may reach a child whose `shutdown` is shorter than `KILL_GRACE` as one;
so, within the same time, it is cancelled a third time.

A kill begins with the first cancellation and grants only `KILL_GRACE`. `shutdown=INFINITY` waits
for ever in the first step, as its name says. Supervisors are asked, and killed when their limit is
over; they bring their own children to an end in the same way.

Source: SUP-701 to SUP-703, AIO-02, AIO-04. Differs: OTP's kill always succeeds and is waited for
without limit; asyncio's may be ignored, and so is waited for `KILL_GRACE` seconds, twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from otpy._core.spec import BRUTAL_KILL, INFINITY
from otpy._runtime.current import CURRENT
from otpy._runtime.stack import stack_of, threads_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._runtime.process import Process

KILL_GRACE: Final = 1.0
"""Seconds a task has to end after each cancellation that is not its first request to stop."""

_THREAD_POLL: Final = 0.05  # a thread's end cannot be awaited by anyone but its own task


@final
class Ending:
    """The stop of one process, in progress: one timer at a time."""

    __slots__ = ("_expired", "_process", "_steps", "_timer", "kills", "lingers")

    def __init__(self, process: Process, *, kill: bool) -> None:
        """Plan the steps for `process`; `advance` begins with the first."""
        self._process = process
        self._timer: asyncio.TimerHandle | None = None
        self.kills = kill
        shutdown = process.spec.shutdown
        limit: float | None = KILL_GRACE  # BRUTAL_KILL means its supervisor; `exit` may still ask
        if shutdown is not BRUTAL_KILL:
            limit = None if shutdown is INFINITY else float(shutdown)
        if kill:
            steps: list[tuple[Callable[[], None], float | None]] = [(self._kill, KILL_GRACE)]
        elif process.supervisor is not None:
            steps = [(self._ask, limit), (self._kill, None)]
        elif process.asked is not None or process.behaviour is not None:
            steps = [(self._ask, limit), (self._cut, KILL_GRACE)]
        else:
            steps = [(self._cancel, limit)]
        if process.supervisor is None:
            # Two cancellations before its next step are one to it, and it would be given up for
            # what it was never told.
            close = not kill and limit is not None and limit < KILL_GRACE
            steps += [(self._cut, KILL_GRACE / 2)] * 2 if close else [(self._cut, KILL_GRACE)]
        self._steps = iter(steps)
        self._expired = False  # its deadline found the task done, its callback on the way
        self.lingers = False  # the task is done, threads that it started are not

    def advance(self) -> None:
        """Take the next step; after the last, give up."""
        self._timer = None
        task = self._process.task
        if task is not None and task.done() and not self.lingers:
            self._expired = True
            return  # it ended in this very turn of the loop; its callback is on the way
        step = None if self.lingers else next(self._steps, None)
        if step is None:
            self._abandon()
            return
        do, seconds = step
        if seconds is not None:
            self._timer = self._process.parent.tree.call_later(seconds, self.advance)
        do()

    def cancel(self) -> None:
        """Take no more steps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def linger(self) -> None:
        """Wait for threads that the ended task left behind, for `KILL_GRACE` at most."""
        self.lingers = True
        self._timer = self._process.parent.tree.call_later(KILL_GRACE, self.advance)

    def waits_for_threads(self, reason: ExitReason) -> bool:
        """Whether threads that the ended task left behind are still to be waited for.

        Until the deadline of the present step, that is: `advance` then finds the task done and
        gives the process up. A step that waits for ever (`INFINITY`) waits for threads too.
        """
        if not self._threads():
            return False
        if self._expired and not self.lingers:
            self.linger()  # the deadline came in the very turn in which the task ended
        self.lingers = True

        def look_again() -> None:
            if self._process.alive and not self.waits_for_threads(reason):
                self._process.end(reason)

        self._process.parent.tree.call_later(_THREAD_POLL, look_again)
        return True

    def _threads(self) -> list[tuple[str, ...]]:
        return threads_of(CURRENT, self._process)

    def _ask(self) -> None:
        process = self._process
        if process.supervisor is not None:
            process.supervisor.shut_down(process.requested)
        elif process.behaviour is not None:
            process.behaviour.stop(process.requested)
        elif process.asked is not None and not process.asked.done():
            process.asked.set_result(None)

    def _cancel(self) -> None:
        process = self._process
        interposer = process.parent.tree.interposer
        if process.task is not None and (interposer is None or interposer.lets_cancel(process)):
            process.task.cancel()

    def _cut(self) -> None:
        self._process.cut()
        self._cancel()

    def _kill(self) -> None:
        if self._process.supervisor is not None:
            self._process.supervisor.kill()
        else:
            self._cut()

    def _abandon(self) -> None:
        process, task = self._process, self._process.task
        if task is None:
            return
        if not task.done():
            process.abandon("task", stack_of(task))
        else:
            process.abandon("thread", next(iter(self._threads()), ()))
