"""Which ready callback runs next: first come, first served, but some tasks are late by chance.

Every schedule that is made here is asyncio's own, with some wake-ups of tasks put off: a task that
waited for something goes on a little later than it could. That is all, and it is sound, because no
awaitable promises after how many turns of the loop the task goes on (`wait_for` and task groups
need more or fewer from one Python version to the next), and a program that needs a certain number
breaks as soon as a function between it and what it waits for awaits one thing more.

What asyncio's documentation promises is kept:

- `call_soon` is first in, first out. A plain callback (`call_soon`, a future's done callback, a
  transport, a signal) is never late: it runs before everything that became ready after it.
- A task's first step counts as a plain callback: tasks begin in the order they were created in.
- Timers run in the order of their deadlines. Those of the same moment have no order; the loop
  draws one (`SimulatedLoop.place_among_equals`).
- The clock moves only when nothing is ready: no task is ever late in seconds.

How late, counted in callbacks, is drawn from a stream of numbers that each task has of its own,
made from the seed and the task's label. A task that takes part on one Python version only, or under
one fault plan only, does not change what the others draw.

Private names of asyncio that this module and `simulated_loop` stand on, all of them
(`tests/testing/test_simulated_loop.py` holds each to its meaning):

- `asyncio.BaseEventLoop._ready`: what is ready to run; appended to, taken from the left, counted
  and cleared.
- `asyncio.Handle._callback`: what a handle calls. A task's step is an object of class `_STEP` that
  is bound to the task, or its method `_WAKE_UP`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, final

from otpy import OtpyError
from otpy._runtime.child_task import ChildTask
from otpy.reports import Report

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextvars import Context


_T = TypeVar("_T")

MOST_TURNS = 1_000_000
"""Callbacks at one moment of virtual time after which nobody believes that it will pass."""

_STEP, _WAKE_UP = "TaskStepMethWrapper", "task_wakeup"
_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
_LATE = 1 << 63  # every other step, on average
_REACHES = (15, 1023, 7, 255, 0, 63)  # bit masks; a seed takes its tasks' from the first few
LONGEST_DELAY = max(_REACHES)
"""Callbacks by which a step can be late."""

Entry: TypeAlias = float | str | Report
"""A moment that the clock moved to, the label of a task that took a step, or a report."""


@final
class NoProgress(OtpyError, RuntimeError):
    """The program runs and runs, and no time passes."""


class SimulatedFuture(asyncio.Future[_T]):
    """A future with a number, for the same reason as a task's: `asyncio.wait` makes sets of them.

    Attributes:
        number: How many futures its loop has made, this one included.
    """

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


@final
class Stream:
    """Random numbers of 64 bits, a thousand times cheaper to begin than `random.Random`."""

    __slots__ = ("_reach", "_state")

    def __init__(self, state: int, reach: int) -> None:
        """Begin with `state`; `reach` is how late a step can be, in callbacks."""
        self._state = state
        self._reach = reach

    def next(self) -> int:
        """Return the next number."""
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return self._state

    def delay(self) -> int:
        """Return how late the next step is, in callbacks.

        Every other step is not late at all, and short delays are as likely as long ones.
        """
        number = self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return (number >> 24 & self._reach) >> (number >> 60 & 3) if number >= _LATE else 0


@final
class SimulatedTask(ChildTask[_T]):
    """A task with a number and a chance of its own.

    Sets of tasks, of which asyncio and anyio make some, are ordered by hash, and a task's is its
    address. This one's is its number.

    Attributes:
        number: How many tasks its loop has made, this one included.
        maker: The task that has made it, if one has.
        offspring: How many tasks without a name it has made.
        label: Its name, made unique; without one, its maker's label and a number. Empty until its
            first step: on Python 3.11, asyncio names a task after it has made it.
        stream: Its chance, from its first step on.
        begun: Whether its first step was scheduled.
    """

    __slots__ = ("_named", "begun", "label", "maker", "number", "offspring", "stream")
    stream: Stream

    def __init__(
        self,
        coro: Coroutine[Any, Any, _T],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None = None,
        context: Context | None = None,
    ) -> None:
        """Make a task of `loop`, a simulated one, as `asyncio.Task` does."""
        self.number: int = cast("Any", loop).next_number()  # the base class puts it into a set
        self.maker = asyncio.current_task(loop)
        self.offspring = 0
        self.label = ""
        self.begun = False
        self._named = name is not None
        super().__init__(coro, loop=loop, name=name or f"task {self.number}", context=context)

    def __hash__(self) -> int:
        return self.number

    def set_name(self, value: object) -> None:
        """Name it; None, which asyncio 3.13 passes on, names nothing."""
        if value is not None:
            self._named = True
            super().set_name(value)

    def take_label(self, names: Counter[str]) -> None:
        """Choose its label; `names` counts the labels that were chosen."""
        maker = self.maker
        if self._named or not isinstance(maker, SimulatedTask):
            name = self.get_name() if self._named else "main"
            names[name] += 1
            self.label = name if names[name] == 1 else f"{name}#{names[name]}"
        else:
            maker.offspring += 1
            self.label = f"{maker.label}.{maker.offspring}"
        if not self._named:
            super().set_name(self.label)


@final
class Schedule:
    """Stands in for `BaseEventLoop._ready`.

    Attributes:
        seed: What chance is made from.
        record: What has run so far, and what was reported, in order.
    """

    def __init__(self, seed: int) -> None:
        """Hold nothing yet."""
        self.seed = seed
        self.record: list[Entry] = []
        self._names: Counter[str] = Counter()
        self._punctual: deque[tuple[int, asyncio.Handle, SimulatedTask[Any] | None]] = deque()
        # When it is due, its place (never the same, so that no handles are compared), it, its task.
        self._late: list[tuple[int, int, Any, Any]] = []
        self._count = 0
        self._limit = MOST_TURNS
        self._wildness = 1 + self._draw("wildness") % len(_REACHES)

    def stream(self, label: str) -> Stream:
        """Return the stream that belongs to `label`: some labels are slow, some never late."""
        state = self._draw(label)
        return Stream(state, _REACHES[(state >> 32) % self._wildness])

    def _draw(self, label: str) -> int:
        text = f"{self.seed}/{label}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")

    def append(self, handle: asyncio.Handle) -> None:
        """Take a handle that has become ready."""
        place = self._count = self._count + 1
        callback: Any = handle._callback  # type: ignore[attr-defined]
        task = getattr(callback, "__self__", None)
        if task.__class__ is SimulatedTask and (
            callback.__class__.__name__ == _STEP or callback.__name__ == _WAKE_UP
        ):
            if task.begun:
                delay = task.stream.delay()
                if delay:
                    heapq.heappush(self._late, (place + delay, place, handle, task))
                    return
            task.begun = True
            self._punctual.append((place, handle, task))
        else:
            self._punctual.append((place, handle, None))

    def popleft(self) -> asyncio.Handle:
        """Return the handle that is next.

        Raises:
            NoProgress: Too many callbacks have run since the clock moved.
        """
        if self._count > self._limit:
            self._limit = self._count + MOST_TURNS  # or the loop could not even be closed
            raise NoProgress(
                f"{MOST_TURNS} callbacks, and the clock stood still: {self._busiest()}"
            )
        late, punctual = self._late, self._punctual
        handle: asyncio.Handle
        task: SimulatedTask[Any] | None
        if late and not (punctual and punctual[0][0] <= late[0][0]):
            _, _, handle, task = heapq.heappop(late)
        else:
            _, handle, task = punctual.popleft()
        if task is not None:
            if not task.label:
                task.take_label(self._names)
                task.stream = self.stream(task.label)
            self.record.append(task.label)
        return handle

    def _busiest(self) -> str:
        latest = Counter(entry for entry in self.record[-1000:] if isinstance(entry, str))
        return ", ".join(f"{label} took {n} of 1000 steps" for label, n in latest.most_common(3))

    def time_moved(self, now: float) -> None:
        """Note that the clock has moved to `now` (seconds)."""
        self._limit = self._count + MOST_TURNS
        self.record.append(now)

    def clear(self) -> None:
        """Forget everything that is ready."""
        self._punctual.clear()
        self._late.clear()

    def __len__(self) -> int:
        return len(self._punctual) + len(self._late)
