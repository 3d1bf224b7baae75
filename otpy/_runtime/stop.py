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
over; they bring their own children to an end in the same way. A killed one grants `KILL_GRACE` to
everything below it, in all, before it kills.

Source: SUP-701 to SUP-703, AIO-02, AIO-04. Differs: OTP's kill always succeeds and is waited for
without limit; asyncio's may be ignored, and so is waited for `KILL_GRACE` seconds, twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from otpy._core.protocol import KILL_GRACE, KillAsked, ShutdownAsked
from otpy._core.reason import KILLED, Crashed
from otpy._core.spec import BRUTAL_KILL, INFINITY
from otpy._runtime.stack import stack_of, threads_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from otpy._core.reason import ExitReason
    from otpy._runtime.deadlines import Line
    from otpy._runtime.inner import InnerProcess

_THREAD_POLL: Final = 0.05  # a thread's end cannot be awaited by anyone but its own task


@final
class StopSequence:
    """The stop of one process, in progress: one deadline at a time, in the lines of its tree.

    Attributes:
        reason: The reason for a cancellation by us; None if the process had its own.
        kills: Whether it does not ask.
        lingers: Whether the task is done, and threads that it started are not.
    """

    __slots__ = (
        "_expired",
        "_grace",
        "_line",
        "_over",
        "_process",
        "_steps",
        "_taken",
        "kills",
        "lingers",
        "reason",
    )

    def __init__(self, process: InnerProcess, reason: ExitReason | None) -> None:
        """End `process` with `reason`, but not yet; see `begin`."""
        self._process = process
        self.reason = reason
        self.kills = False
        self.lingers = False
        self._line: Line | None = None  # in which the deadline of the present step stands
        self._over = False

    def begin(self, *, kill: bool, done: bool, asks: bool = True) -> None:
        """Plan the steps and take the first, unless the task is `done`.

        One call for both: in an ordered stop nearly all children take no other step.
        """
        process = self._process
        shutdown = process.spec.shutdown
        if kill or shutdown is BRUTAL_KILL:  # which means its supervisor; `exit` may still ask
            limit: float | None = KILL_GRACE
        else:
            limit = None if shutdown is INFINITY else shutdown
        grace = KILL_GRACE
        if process.supervisor is not None:
            steps = self._KILL_SUPERVISOR if kill else self._ASK_SUPERVISOR
        elif kill:
            steps = self._KILL
        elif asks and (process.behaviour is not None or process.asked is not None):
            steps = self._ASK
        elif limit is None or limit >= KILL_GRACE:
            steps = self._CANCEL
        else:
            # Two cancellations before its next step are one to it, and it would be given up for
            # what it was never told.
            steps, grace = self._CANCEL_SOON, KILL_GRACE / 2
        self._steps = steps
        self._grace = grace
        self._taken = 1
        self._expired = done  # its deadline found the task done, its callback on the way
        if not done:
            if limit is not None:
                self._line = process.parent.tree.deadlines.set(limit, self)
            self._take(steps[0])
        self.kills = kill  # last: a kill that broke off does not stand in the way of the next

    def advance(self) -> None:
        """Take the next step; after the last, give up."""
        process, taken = self._process, self._taken
        task = process.task
        if task is not None and task.done() and not self.lingers:
            self._expired = True
            return  # it ended in this very turn of the loop; its callback is on the way
        if self.lingers or taken == len(self._steps):
            self._abandon()
            return
        self._taken = taken + 1
        if process.supervisor is None:  # else it ends by the deadlines of those below it
            self._set_deadline(self._grace)
        self._take(self._steps[taken])

    def _take(self, step: Callable[[StopSequence], None]) -> None:
        """Take `step`; a user's future that raises when it is cancelled is not an obstacle."""
        try:
            step(self)
        except Exception as error:  # noqa: BLE001 - the next step comes by its deadline all the same
            process = self._process
            message = f"{process.path}: it could not be told to end"
            context = {"message": message, "exception": error}
            process.parent.tree.loop.call_exception_handler(context)

    def _set_deadline(self, seconds: float) -> None:
        self._leave_line()
        self._line = self._process.parent.tree.deadlines.set(seconds, self)

    def _leave_line(self) -> None:
        if self._line is not None:
            self._line.meet(self)
            self._line = None

    def overdue(self) -> None:
        """The time of the present step is over."""
        self._line = None
        self._process.parent.tree.enqueue(self._woken)

    def fail(self, error: BaseException) -> None:
        """Let the supervisor fail: a step broke off."""
        self._process.fail(error)

    def _woken(self) -> None:
        if self._line is None and not self._over:  # else something came first
            self.advance()

    def over(self) -> None:
        """Take no more steps: the process has ended, or is ended in another way."""
        self._over = True
        self._leave_line()

    def linger(self) -> None:
        """Wait for threads that the ended task left behind, for `KILL_GRACE` at most."""
        self.lingers = True
        self._set_deadline(KILL_GRACE)

    def waits_for_threads(self, reason: ExitReason) -> bool:
        """Whether it must still wait for threads that the ended task left behind.

        Until the deadline of the present step, that is: `advance` then finds the task done and
        gives the process up. A step that waits for ever (`INFINITY`) waits for threads too.
        """
        if not self._threads():
            return False
        if self._expired and not self.lingers:
            self.linger()  # the deadline came in the very turn in which the task ended
        self.lingers = True

        tree = self._process.parent.tree
        tree.call_later(_THREAD_POLL, tree.enqueue, self._look_again, reason)
        return True

    def _look_again(self, reason: ExitReason) -> None:
        """End the process with `reason` when the threads that outlived its task are gone."""
        if self._process.alive and not self.waits_for_threads(reason):
            self._process.end(reason)

    def _threads(self) -> list[tuple[str, ...]]:
        return threads_of(self._process)

    def _ask(self) -> None:
        process = self._process
        if process.supervisor is not None:
            process.supervisor.enqueue(ShutdownAsked(process.requested))
        elif process.behaviour is not None:
            process.behaviour.stop(process.requested)
        elif process.asked is not None and not process.asked.done():
            process.asked.set_result(None)

    def _cancel(self) -> None:
        process = self._process
        interposer = process.parent.tree.interposer
        task = process.task
        if task is not None and (interposer is None or interposer.lets_cancel(process)):
            task.cancel()

    def _cut(self) -> None:
        if not isinstance(self.reason, Crashed):
            self.reason = KILLED  # from now on a cancellation means that its time was over
        self._cancel()

    def _kill(self) -> None:
        if self._process.supervisor is not None:
            self._process.supervisor.enqueue(KillAsked(KILL_GRACE))

    def _abandon(self) -> None:
        process, task = self._process, self._process.task
        if task is None:
            return
        if not task.done():
            process.abandon("task", stack_of(task))
        else:
            process.abandon("thread", next(iter(self._threads()), ()))

    _CANCEL: ClassVar[tuple[Callable[[Any], None], ...]] = (_cancel, _cut)
    _CANCEL_SOON: ClassVar[tuple[Callable[[Any], None], ...]] = (_cancel, _cut, _cut)
    _ASK: ClassVar[tuple[Callable[[Any], None], ...]] = (_ask, _cut, _cut)
    _KILL: ClassVar[tuple[Callable[[Any], None], ...]] = (_cut, _cut)
    _ASK_SUPERVISOR: ClassVar[tuple[Callable[[Any], None], ...]] = (_ask, _kill)
    _KILL_SUPERVISOR: ClassVar[tuple[Callable[[Any], None], ...]] = (_kill,)
