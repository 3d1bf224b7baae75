"""The loop of a simulation: virtual time, and all that chance decides made from one seed."""

from __future__ import annotations

import asyncio
import gc
import math
import random
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio._backends._asyncio import CancelScope

from otpy.testing.clock import MockClock, MockedLoop
from otpy.testing.schedule import NoProgress, Schedule, SimulatedFuture, SimulatedTask

if TYPE_CHECKING:
    from datetime import datetime

_T = TypeVar("_T")


class SimulatedLoop(MockedLoop):
    """A mocked loop that draws the next task from a seed; see `otpy.testing.schedule`.

    While it runs, the module `random` goes by the seed too, and the garbage collector waits: what
    it ends, such as an abandoned async generator, would end at another moment in each process.

    Attributes:
        schedule: What is ready, and what has run.
        task_class: What otpy makes children's tasks of, which no task factory makes.
        horizon: The moment, in seconds, that the clock must not come to.
    """

    task_class = SimulatedTask

    def __init__(self, clock: MockClock, seed: int) -> None:
        super().__init__(clock)
        self.horizon = math.inf
        self.schedule = self._ready = Schedule(seed)
        self._stream = self.schedule.stream("")
        self._tasks = self._futures = 0
        self._random_state = random.Random(seed).getstate()

    def run_forever(self) -> None:
        """Run until stopped, with chance and the collector of the whole process taken over."""
        with self._alone():
            super().run_forever()

    @contextmanager
    def _alone(self) -> Generator[None]:
        collects, before, scope_hash = gc.isenabled(), random.getstate(), CancelScope.__hash__
        gc.disable()
        random.setstate(self._random_state)
        CancelScope.__hash__ = _number_of  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            self._random_state = random.getstate()
            random.setstate(before)
            CancelScope.__hash__ = scope_hash  # type: ignore[method-assign]
            if collects:
                gc.enable()

    # --- tasks -----------------------------------------------------------------------------------

    def create_task(  # type: ignore[override] # typeshed gives each Python version its own
        self,
        coro: Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Task[_T]:
        """Make a task; with a custom task factory it is never late."""
        if self.get_task_factory() is not None:
            return super().create_task(coro, name=name, context=context, **kwargs)
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        return SimulatedTask(coro, loop=self, name=name, context=context)

    def next_number(self) -> int:
        """Count one more task."""
        self._tasks += 1
        return self._tasks

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future; sets of them are ordered by when each was made."""
        future = SimulatedFuture[Any](loop=self)
        self._futures += 1
        future.number = self._futures
        return future

    def _on_no_progress(self) -> None:
        """Leave it to the schedule, which counts more finely."""

    # --- time ------------------------------------------------------------------------------------

    def place_among_equals(self) -> int:
        """Return a place by chance: asyncio orders timers of the same moment in no way."""
        task = asyncio.current_task(self)
        stream = task.stream if isinstance(task, SimulatedTask) else self._stream
        return stream.next() << 64 | super().place_among_equals()

    def time_moved(self) -> None:
        """Note where the clock has come to.

        Raises:
            NoProgress: That is the horizon.
        """
        super().time_moved()
        if self.time() >= self.horizon:
            horizon, self.horizon = self.horizon, math.inf  # or it could not even be closed
            raise NoProgress(f"still running after {horizon:g} s of virtual time")
        self.schedule.time_moved(self.time())


def _number_of(scope: CancelScope) -> int:
    """Hash a scope by its task: a cancelled scope iterates over a set of inner scopes."""
    host: object = cast("Any", scope)._host_task
    return host.number if type(host) is SimulatedTask else object.__hash__(scope)


class SeededClock(MockClock):
    """A mock clock whose loops are simulated ones.

    Two clocks with the same seed let the same program run in the same way.

    Attributes:
        seed: What chance is made from.
        schedule: That of the latest loop.
    """

    def __init__(self, seed: int, start: datetime | None = None) -> None:
        """Create a clock; `start` as of `MockClock`."""
        super().__init__() if start is None else super().__init__(start)
        self.seed = seed
        self.schedule = Schedule(seed)

    def loop_factory(self) -> SimulatedLoop:
        """Return a new simulated loop on this clock, at `now == 0`; the caller closes it."""
        self._latest = loop = SimulatedLoop(self, self.seed)
        self.schedule = loop.schedule
        return loop
