"""One life of one child, subject to faults: drives the child's own coroutine, step by step.

The child runs in its own task as always; only what comes out of an await may be another thing.

How a fault strikes an await: the task is cancelled, and the count of cancellations put right again
(`Task.uncancel`) before the child's code runs on; so neither it nor its timeouts and task groups
can tell. In place of the cancellation the planned error is thrown into the child's code.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast, final

from otpy._core.reason import Normal
from otpy.behaviours.server import Server
from otpy.behaviours.task import work
from otpy.testing.faulty_server import FaultyCallbacks
from otpy.testing.plan_block import Kill
from otpy.testing.planned_error import fresh
from otpy.testing.waiting_group import group_awaited, raise_in_group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Body
    from otpy.testing.plan_block import Armed


@final
class _Pending:
    """A fault that waits, in this life, for its await or message.

    Attributes:
        armed: The fault, and what it has done in other lives.
        left: How many awaits or messages are still to come, the one that is hit included.
        counts: Whether its time has come.
    """

    __slots__ = ("armed", "counts", "left")

    def __init__(self, armed: Armed) -> None:
        self.armed = armed
        self.left = armed.fault.nth
        self.counts = armed.fault.after is None


@final
class FaultyLife(Generator[Any, Any, None]):
    """The awaitable of a child's task that drives the child's own code."""

    def __init__(self, process: LiveProcess, body: Body, armed: list[Armed]) -> None:
        """Prepare the life of `process`, which would run `body`; in the order of the plan."""
        self._process = process
        self._body = body
        self._armed = armed
        self._pending = [_Pending(one) for one in armed if _waits(one)]
        self._task: asyncio.Task[Any] | None = None
        self._coro: Coroutine[Any, Any, None]
        self._own: Awaitable[Any] | None = None  # the child's code, while it runs
        self._timers: list[asyncio.TimerHandle] = []
        self._awaited: object = None  # what the task is suspended on
        self._due: _Pending | None = None  # strikes when the task runs on
        self._cancelled = False  # by us, for the sake of what is due
        self._cancellings = 0  # how many there were before ours
        self._unwinding = False  # to return early, or to raise:
        self._unwound_by: BaseException | None = None
        self._ignores: bool | None = None  # decided by the first cancellation
        self._is_server = isinstance(process.behaviour, Server)
        if isinstance(process.behaviour, Server):
            make = process.behaviour.make
            process.behaviour.make = lambda: FaultyCallbacks(make(), self.message, self.clean_up)

    # --- the life --------------------------------------------------------------------------------

    def begin(self, *args: Any, **kwargs: Any) -> FaultyLife:
        """Begin it with the arguments of the body; in the child's task."""
        self._task = asyncio.current_task()
        self._coro = self._live(args, kwargs)
        return self

    async def _live(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._set_timers()
        try:
            await self._start()
            self._own = self._body(*args, **kwargs)
            await self._own
        except GeneratorExit:  # the loop is gone: nothing can be awaited any more
            raise
        except CancelledError:
            await self._end()
            if not self._unwinding or self._cancellings < self._now_cancelling():
                raise
            if self._unwound_by is not None:
                raise self._unwound_by from None
            if self._body is work and (done := args[-1]) is not None:
                done.append(None)  # it is the task's function that returned, to its owner
        except BaseException:
            await self._end()
            raise
        else:
            await self._end()
        finally:
            for timer in self._timers:
                timer.cancel()

    async def _start(self) -> None:
        for armed in self._armed:
            if armed.fault.at == "start" and armed.strikes(self._process):
                if armed.fault.error is not None:
                    raise fresh(armed.fault.error)
                if armed.fault.kind == "hang":
                    await _for_ever()
                await asyncio.sleep(armed.fault.seconds)

    async def _end(self) -> None:
        own, self._own = self._own, None
        if own is not None and not self._is_server:  # a server cleans up in `terminate`
            await self.clean_up()

    async def clean_up(self) -> None:
        """Perform the faults planned for the end of its clean-up."""
        if not self._process.ready:
            return
        for armed in self._armed:
            fault = armed.fault
            if fault.kind == "hang" and fault.at == "stop":
                if self._process.ending and armed.strikes(self._process):
                    await _for_ever()
            elif fault.at == "cleanup" and armed.strikes(self._process):
                assert fault.error is not None  # noqa: S101 - it is a crash
                raise fresh(fault.error)

    # --- what its task sees ----------------------------------------------------------------------

    def __await__(self) -> FaultyLife:
        """Return itself: the task steps through it."""
        return self

    @property
    def cr_await(self) -> object:
        """The awaitable that runs below, for tools that draw the stack of a task."""
        return self._own or self._coro

    def send(self, value: object) -> object:
        """Let it run on to its next await."""
        error = self._struck(None)
        step = self._coro.send(value) if error is None else self._coro.throw(error)
        return self._suspended(step)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> object:  # noqa: ARG002 - old form
        """Let it run on to its next await, with an exception."""
        return self._suspended(self._coro.throw(cast("BaseException", self._struck(typ))))

    def close(self) -> None:
        """End it, with its loop."""
        self._coro.close()

    def _suspended(self, awaited: object) -> object:
        self._awaited = awaited
        if self._own is not None:
            for pending in tuple(self._pending):
                if pending.counts and pending.armed.fault.at == "await":
                    self._count_await(pending)
        return awaited

    def _struck(self, error: BaseException | None) -> BaseException | None:
        """Return the exception of the await: the planned one, or else `error`."""
        due, self._due = self._due, None
        if due is None or self._task is None:
            return error
        by_us, self._cancelled = self._cancelled, False
        if by_us:
            self._task.uncancel()
        by_others = not by_us or self._now_cancelling() > self._cancellings
        if isinstance(error, GeneratorExit) or (isinstance(error, CancelledError) and by_others):
            self._unwinding = False
            self._postpone(due)
            return error
        due.armed.hit(self._process)
        fault = due.armed.fault
        if self._unwinding:
            return CancelledError()
        assert fault.error is not None  # noqa: S101 - it is a crash
        return fresh(fault.error)

    def _now_cancelling(self) -> int:
        return 0 if self._task is None else self._task.cancelling()

    # --- faults that wait for an await, a message or a time --------------------------------------

    def _set_timers(self) -> None:
        for pending in self._pending:
            if not pending.counts:
                self._set_timer(pending.armed, self._time_has_come, pending)
        for armed in self._armed:
            self._prepare_kill(armed)

    def _set_timer(self, armed: Armed, callback: Callable[..., object], *args: object) -> None:
        tree, after = self._process.parent.tree, armed.fault.after or 0.0
        self._timers.append(tree.call_later(after, callback, *args))

    def _prepare_kill(self, armed: Armed) -> None:
        if armed.fault.kind == "kill_process" and armed.live:
            self._set_timer(armed, Kill(armed, self._process).time_has_come)

    def arm(self, armed: Armed) -> None:
        """Be subject to one more fault, which counts from now on."""
        self._armed.append(armed)
        pending = _Pending(armed) if _waits(armed) else None
        if pending is not None:
            self._pending.append(pending)
        if self._task is None:  # its first step is to come, and will set the timers
            return
        self._prepare_kill(armed)
        if pending is None:
            return
        if not pending.counts:
            self._set_timer(armed, self._time_has_come, pending)
        elif armed.fault.at == "await" and self._own is not None:  # else there is nothing to strike
            self._count_await(pending)

    def _time_has_come(self, pending: _Pending) -> None:
        pending.counts = True
        if pending.armed.fault.at == "await":
            self._count_await(pending)

    def _count_await(self, pending: _Pending) -> None:
        pending.left -= 1
        if pending.left > 0 or not pending.armed.live:
            return
        self._pending.remove(pending)
        if self._due is not None or not self._strike(pending):
            self._postpone(pending)

    def _postpone(self, pending: _Pending) -> None:
        """Let it hit the next await instead."""
        pending.left = 1
        self._pending.append(pending)

    def _strike(self, pending: _Pending) -> bool:
        """Let `pending` strike the await that is in progress; whether that can be done."""
        assert self._task is not None  # noqa: S101 - it has begun
        armed = pending.armed
        fault, error = armed.fault, armed.fault.error
        if fault.kind == "cancel":
            armed.hit(self._process)
            self._task.cancel()
            return True
        if fault.kind == "return_early" and self._process.behaviour is not None:
            armed.hit(self._process)
            self._process.behaviour.stop(Normal())
            return True
        group = None if error is None else group_awaited(self._own)
        if group is not None and isinstance(error, Exception):
            failure = cast("Exception", fresh(error))
            accepted = raise_in_group(group, failure)
            if accepted:
                armed.hit(self._process)
            return accepted
        if error is None or group is not None:
            self._unwinding = True
            self._unwound_by = None if error is None else fresh(error)
        self._due = pending
        if asyncio.isfuture(self._awaited) and not self._awaited.done():
            self._cancellings = self._now_cancelling()
            self._cancelled = True
            self._task.cancel()
        return True

    def message(self) -> None:
        """Raise the fault planned for the server's next message."""
        for pending in tuple(self._pending):
            armed = pending.armed
            if not pending.counts or armed.fault.at != "message":
                continue
            pending.left -= 1
            if pending.left == 0 and armed.live:
                self._pending.remove(pending)
                armed.hit(self._process)
                assert armed.fault.error is not None  # noqa: S101 - it is a crash
                raise fresh(armed.fault.error)

    # --- cancellations by its supervisor ---------------------------------------------------------

    def ignores_cancellation(self) -> bool:
        """Whether it does; decided by the first."""
        if self._ignores is None:
            self._ignores = False
            for armed in self._armed:
                if armed.fault.kind == "ignore_cancellation" and armed.strikes(self._process):
                    self._ignores = True
                    armed.block.finally_do(self._let_go)
                    break
        return self._ignores

    def _let_go(self) -> None:
        self._ignores = False
        if self._task is not None and not self._process.parent.tree.loop.is_closed():
            self._task.cancel()


def _waits(armed: Armed) -> bool:
    """Whether the fault waits, in each life, for an await or a message."""
    return armed.fault.at in {"await", "message"}


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
