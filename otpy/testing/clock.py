"""The mock clock: asyncio in virtual time, with the wall clock in step."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Coroutine
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from otpy.testing.peers import PATIENCE
from otpy.testing.timeout_notes import noting
from otpy.testing.virtual_loop import VirtualLoop

try:
    import time_machine
except ModuleNotFoundError as missing:
    missing.add_note("otpy.testing needs the extra `test`: pip install 'otpy-tree[test]'")
    raise

_T = TypeVar("_T")
_START = datetime(2030, 1, 1, tzinfo=UTC)
_NANOSECONDS = 1_000_000_000
_PATIENCE_VIRTUAL = 60.0
_PATIENCE_REAL = 5.0


def _check_patience(seconds: float) -> None:
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"patience must be 0 or more seconds, and finite, got {seconds!r}")


def in_a_loop() -> bool:
    """Whether a loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class MockClock:
    """A clock that jumps to the next timer as soon as nothing else can run.

    Code under test sleeps, times out and backs off as usual and takes no time doing it:
    `asyncio.sleep`, `asyncio.timeout`, `loop.call_later` and their anyio counterparts follow the
    clock, and while the loop runs `time.time()`, `datetime.now()` and everything else that
    time-machine moves show `start` plus `now`, plus what `jump()` added. `time.monotonic()` stays
    real.

    The clock never jumps while something outside the loop is in flight: a call in a thread
    (`asyncio.to_thread`, `run_in_executor`, `anyio.to_thread`), a child process, or the body of a
    `hold()`. While there is such work the clock flows at real speed, so that a timeout around it
    fires when it should.

    What else may come from outside it expects for as long as it can tell, and some more. A thread
    that was started by somebody else, such as a driver of a database, holds the clock while it
    works, and not while it waits for work (on Linux). A peer behind a socket or a pipe may answer
    what it was sent, or speak first, as long as it has not been silent for `patience`; and when it
    has said something it may say more, so that no timeout is jumped to before it has been silent as
    long. Time flows meanwhile, so a timeout that real time has reached fires. A slower peer needs
    more patience, or a `hold()`; a `TimeoutError` that was raised because the clock jumped over
    what a peer could have said has a note that says so. When nothing is left that could wake any
    task, `Deadlock` is raised, and `NoProgress` when the program runs and runs and no time passes.

    Each new loop of a clock starts again at `start`, not paused. Of several open loops the running
    one is meant, and outside all of them the latest. The wall clock belongs to the whole process,
    so only one thread at a time may run a mocked loop.

    ```python
    clock = MockClock()
    clock.run(asyncio.sleep(86_400))
    assert clock.now == 86_400
    ```
    """

    def __init__(self, start: datetime = _START, *, patience: float = PATIENCE) -> None:
        """Create a clock that shows `start` when its loop begins.

        Args:
            start: The date and time at `now == 0`; must know its time zone.
            patience: Real seconds for which a peer outside the loop must have been silent before
                the clock jumps over what it may still say; at least 0.

        Raises:
            ValueError: `start` is naive, or `patience` is negative, infinite or not a number.
        """
        if start.utcoffset() is None:
            raise ValueError(f"start must know its time zone, got {start!r}")
        _check_patience(patience)
        self.start = start
        self.patience_at_first = patience
        self._latest: MockedLoop | None = None

    @classmethod
    def current(cls) -> MockClock:
        """Return the clock of the running loop.

        Raises:
            RuntimeError: No loop runs, or it is not driven by a `MockClock`.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(loop, MockedLoop):
            raise RuntimeError(f"the running loop has no mock clock: {loop!r}")
        return loop.clock

    @property
    def now(self) -> float:
        """Seconds since the clock's loop began; 0.0 before there is one."""
        loop = self._running() or self._latest
        return 0.0 if loop is None else loop.time()

    @property
    def patience(self) -> float:
        """Real seconds of silence after which a peer outside the loop has nothing to say.

        The value holds for the clock's current loop; the next loop begins with the default. A
        longer patience costs nothing where peers answer, and delays a timeout that is meant to
        fire beside them by as much. Setting it raises `ValueError` for a value that is negative,
        infinite or not a number, and `RuntimeError` as long as the clock has no loop.
        """
        loop = self._running() or self._latest
        return self.patience_at_first if loop is None else loop.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        _check_patience(seconds)
        self._driven().patience = seconds

    def loop_factory(self) -> asyncio.AbstractEventLoop:
        """Return a new event loop on this clock, at `now == 0`; the caller closes it.

        For `asyncio.Runner(loop_factory=clock.loop_factory)`, for the hook
        `pytest_asyncio_loop_factories`, and for anyio's pytest plugin and `anyio.run` as
        `("asyncio", {"loop_factory": clock.loop_factory})`.
        """
        self._latest = MockedLoop(self)
        return self._latest

    def _running(self) -> MockedLoop | None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        return loop if isinstance(loop, MockedLoop) and loop.clock is self else None

    def _driven(self) -> MockedLoop:
        loop = self._running() or self._latest
        if loop is None:
            raise RuntimeError("the clock drives no loop yet")
        return loop

    def _inside(self, what: str) -> MockedLoop:
        loop = self._running()
        if loop is None:
            raise RuntimeError(f"{what} works only inside a loop that this clock drives")
        return loop

    def hold(self) -> AbstractContextManager[None]:
        """Keep the clock from jumping: inside, it flows at real speed.

        For what the clock cannot know to be coming, such as the message of a peer that was sent
        nothing, or of one that takes longer than the clock has `patience`. Use it in the thread of
        the loop; it may be nested.

        Raises:
            RuntimeError: The clock has no loop yet.
        """
        return self._driven().hold()

    @property
    def paused(self) -> bool:
        """Whether time stands until `advance()` or `step()` moves it."""
        loop = self._running() or self._latest
        return loop is not None and loop.paused

    def pause(self) -> None:
        """Let time stand: from now on only `advance()` and `step()` move it.

        It still waits for threads, child processes and sockets, without time passing. When they
        cannot wake any task either, `Deadlock` is raised: a task that sleeps while nobody moves the
        clock would sleep for ever. Lasts until `resume()`, or as long as the loop.

        Raises:
            RuntimeError: The clock has no loop yet.
        """
        self._driven().paused = True

    def resume(self) -> None:
        """Let time move by itself again; nothing happens if it does already.

        Raises:
            RuntimeError: The clock has no loop yet.
        """
        self._driven().paused = False

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back by so much, and nothing else.

        It is what an NTP correction does, somebody who sets the clock, or a computer that wakes up
        from suspend. `time.time()`, `datetime.now()`, `uuid.uuid1()` and whatever else time-machine
        moves show it from now on, until the loop is closed. `loop.time()`, anyio's clock, `now` and
        every timer stay as they are and never go back, and so does the real `time.monotonic()`.

        Args:
            seconds: How far; negative sets it back.

        Raises:
            ValueError: `seconds` is infinite or not a number.
            RuntimeError: The clock has no loop yet.
        """
        if not math.isfinite(seconds):
            raise ValueError(f"seconds must be finite, got {seconds!r}")
        self._driven().jump(seconds)

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, and everything run that becomes due meanwhile, in order.

        Returns when `now` is exactly `seconds` later and nothing more can run at that moment
        (threads and processes may still be in flight; it does not wait for them). `advance(0)` lets
        everything run that is ready now. A task that never stops running, such as a loop around
        `sleep(0)`, keeps the clock where it is, here as everywhere, until it is `NoProgress`.

        Cancelling leaves the clock wherever it has come to.

        Args:
            seconds: How much time passes; at least 0.

        Raises:
            ValueError: `seconds` is negative, infinite or not a number.
            RuntimeError: Called on a loop that this clock does not drive.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"seconds must be 0 or more, and finite, got {seconds!r}")
        loop = self._inside("advance()")
        await loop.go_to(loop.time() + seconds)

    async def step(self) -> float | None:
        """Go to the next timer, and let everything run that becomes due there.

        First everything runs that is ready now, and no time passes for that. Of timers with the
        same moment all fire. It does not wait for threads and processes in flight. Most useful on a
        clock that is paused; on any other, time also moves by itself between two steps.

        Cancelling leaves the clock wherever it has come to.

        Returns:
            The new `now`; None, without moving, if no timer is set.

        Raises:
            RuntimeError: Called on a loop that this clock does not drive.
        """
        loop = self._inside("step()")
        await loop.until_idle()
        when = loop.next_timer()
        if when == math.inf:
            return None
        await loop.go_to(when)
        return when

    def run(self, coro: Coroutine[Any, Any, _T]) -> _T:
        """Run `coro` on a new loop of this clock, and close the loop; for use without pytest.

        Tasks that are left over at the end are cancelled and awaited, like `asyncio.run` does, but
        not for ever: for 60 virtual or 5 real seconds.

        Args:
            coro: What to run.

        Returns:
            What `coro` returned.

        Raises:
            Deadlock: Nothing could wake any task any more.
            RuntimeError: A loop runs already in this thread, or tasks refused to end.
            BaseException: Whatever `coro` raised.
        """
        if in_a_loop():
            coro.close()
            raise RuntimeError("run() needs a thread without a running loop")
        self.loop_factory()
        loop = self._driven()
        try:
            with noting(loop.last_jump):
                return loop.run_until_complete(coro)
        finally:
            self.resume()  # clean-up code may have to sleep
            _close(loop)


class MockedLoop(VirtualLoop):
    """A virtual loop that takes the wall clock with it while it runs; made by `MockClock`."""

    _traveller: time_machine.Traveller

    def __init__(self, clock: MockClock) -> None:
        super().__init__()
        self.clock = clock
        self.patience = clock.patience_at_first
        self._jumped = 0  # nanoseconds, like what is shown
        self._shown = 0

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone by `seconds`."""
        self._jumped += round(seconds * _NANOSECONDS)
        if self.is_running():
            self.time_moved()

    def run_forever(self) -> None:
        """Run until stopped, with the wall clock of the whole process taken over."""
        # Not for as long as the loop is open: journeys nest, and two open loops need not be closed
        # in the reverse order. Besides, pytest may time itself between two steps.
        with time_machine.travel(self.clock.start, tick=False) as traveller:
            self._traveller = traveller
            self._shown = 0
            self.time_moved()
            super().run_forever()

    def time_moved(self) -> None:
        """Let the wall clock follow."""
        seconds, nanoseconds = divmod(self.time(), 1)
        now = self._jumped + int(seconds) * _NANOSECONDS + round(nanoseconds * _NANOSECONDS)
        seconds, nanoseconds = divmod(now - self._shown, _NANOSECONDS)
        # Two exact steps: as one float, a jump of months would be off by some nanoseconds.
        self._traveller.shift(seconds)
        self._traveller.shift(nanoseconds / _NANOSECONDS)
        self._shown = now


def _close(loop: VirtualLoop) -> None:
    try:
        refused = _cancel_leftovers(loop)
        loop.run_until_complete(_shut_down(loop))
    finally:
        loop.close()
    if refused:
        names = ", ".join(sorted(task.get_name() for task in refused))
        raise RuntimeError(f"{len(refused)} tasks refused to end when cancelled: {names}")


async def _shut_down(loop: asyncio.AbstractEventLoop) -> None:
    """Do the work of `asyncio.run`'s two final runs in one, because each costs."""
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


def _cancel_leftovers(loop: VirtualLoop) -> set[asyncio.Task[Any]]:
    """Cancel every task and return those that have not ended in time."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return tasks
    for task in tasks:
        task.cancel()
    wait = loop.create_task(asyncio.wait(tasks, timeout=_PATIENCE_VIRTUAL))
    # A task that never stops running keeps the clock, and with it the timeout, from moving.
    alarm = threading.Timer(_PATIENCE_REAL, loop.call_soon_threadsafe, (wait.cancel,))
    loop.let_pass(alarm)
    alarm.start()
    with suppress(asyncio.CancelledError):
        loop.run_until_complete(wait)
    alarm.cancel()
    alarm.join()
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()):
            report = {"message": "a leftover task failed when cancelled", "exception": error}
            loop.call_exception_handler({**report, "task": task})
    return asyncio.all_tasks(loop)
