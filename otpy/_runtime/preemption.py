"""Interrupts a child that keeps the event loop: one step of it took longer than its `max_step`.

A step is what a child does from one await to the next, or in one callback of a server. A thread
looks on and, when a step is due, has a signal sent to the main thread. Python calls the handler of
a signal between two instructions of whatever runs there, and an exception that it raises comes out
of those. So the handler decides, and all it asks is true at that very moment: is a step going on,
is that one due, and may the frames be cut in which it is (`frame_guard`)? The thread and its signal
only make it ask, and a signal that is late, or sent by somebody else, does no harm.

The signal is SIGURG. What nobody has a handler for ignores it, so that none that is late can end a
process, and debuggers let it pass; Go interrupts its goroutines by it for the same reasons.

Source: AIO-01. Differs: OTP counts reductions, and gives others their turn; here the step ends.
"""

from __future__ import annotations

import signal
import threading
from time import perf_counter  # real seconds, of virtual time too: a busy loop takes no other
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast, final

from otpy._runtime.forks import undone_in_forks
from otpy._runtime.frame_guard import Interruptible, interruptible_at
from otpy._runtime.watch_thread import WatchThread
from otpy.errors import CannotInterrupt, StepOverran

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import FrameType

    from otpy._runtime.handles import Process

_SIGNAL: Final[int | None] = getattr(signal, "SIGURG", None)
SHORTEST: Final = 0.002  # seconds; less than that, Python does not let the thread run at all
_LATE: Final = 0.05  # seconds after which the thread takes itself for late
_DENSE: Final = 25  # looks in the time for which a clean-up is spared
_SLOWEST: Final = (
    2.0  # seconds between two signals that change nothing: each fills a pipe of asyncio
)


@final
class Preemptor:
    """Interrupts steps in the main thread, for every tree whose loop runs there.

    There is one at a time, because there is one main thread and one handler for a signal. It is
    found where that handler is.

    Attributes:
        step: The step that is going on, in the main thread; None if none is.
        quiet: Whether no step has begun since the thread has looked last.
    """

    __slots__ = (
        "_asleep",
        "_before",
        "_forget_forks",
        "_looking",
        "_main",
        "_shortest",
        "_thread",
        "_trees",
        "quiet",
        "step",
    )

    def __init__(self, before: Any) -> None:
        """Start watching; `before` is the signal's previous handler."""
        self.step: Watched | None = None
        self.quiet = True
        self._asleep = False
        self._looking = False
        self._before = before
        self._main = threading.get_ident()
        self._shortest = float("inf")
        self._trees = 0
        self._thread = WatchThread("otpy preemption", self._watch)
        self._forget_forks = undone_in_forks(self._hand_back)

    @classmethod
    def join(cls, path: str) -> Preemptor:
        """Return the running preemptor, or start one; for one more tree, which must `leave` it.

        Raises:
            CannotInterrupt: If no step of the child at `path` could be interrupted.
        """
        if _SIGNAL is None:
            raise CannotInterrupt(path, "this system has no SIGURG")
        if threading.current_thread() is not threading.main_thread():
            name = threading.current_thread().name
            raise CannotInterrupt(path, f"its loop runs in thread {name}, not in the main thread")
        handler: Any = signal.getsignal(_SIGNAL)
        one = getattr(handler, "__self__", None)
        if not isinstance(one, Preemptor):
            if handler not in {signal.SIG_DFL, signal.SIG_IGN}:
                raise CannotInterrupt(path, f"SIGURG is handled by {handler!r}")
            one = cls(handler)
            signal.signal(_SIGNAL, one._look)
            one._thread.start()
        one._trees += 1
        return one

    def leave(self) -> None:
        """One tree less; after the last, stop looking on."""
        self._trees -= 1
        if self._trees:
            return
        self._thread.close()
        self.quiet = False  # abandoned children may still take unwatched steps
        self._forget_forks()
        self._hand_back()

    def _hand_back(self) -> None:
        """Restore the signal's previous handler; in a forked child too, which has no thread."""
        assert _SIGNAL is not None  # noqa: S101 - it was joined
        if signal.getsignal(_SIGNAL) == self._look:
            signal.signal(_SIGNAL, self._before)

    def limit(self, seconds: float) -> None:
        """Be ready for a step that may take this long."""
        if seconds < self._shortest:
            self._shortest = max(seconds, SHORTEST)
            self._thread.wake()

    def stir(self) -> None:
        """A step is about to begin, and none has since the thread has looked last."""
        self.quiet = False
        if self._asleep:
            self._thread.wake()

    # --- in the thread ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait until a step is due: the current one, or one that begins now."""
        step = self.step
        if step is not None:
            left = step.due - perf_counter()
            if left > 0:
                self._thread.rest(left)
            else:
                self._pursue(step, -left)
        elif not self.quiet:
            self.quiet = True
            self._thread.rest(self._shortest)
        else:
            self._asleep = True  # before it asks once more: a step that begins now sees it
            if self.quiet:
                self._thread.rest(None)
            self._asleep = False

    def _pursue(self, step: Watched, late: float) -> None:
        """Have the handler ask, again and again, until `step` has ended or was hit."""
        if late > _LATE:  # the process was stopped, or the machine busy: not the child, perhaps
            self._thread.rest(_LATE)
        pause, sent = max(SHORTEST, step.limit / _DENSE), 0
        while not self._thread.closed and self.step is step and step.due <= perf_counter():
            assert _SIGNAL is not None  # noqa: S101 - it was joined
            # To that thread and no other, which also ends its sleep, or its waiting for a lock.
            signal.pthread_kill(self._main, _SIGNAL)
            sent += 1
            self._thread.rest(pause)
            if sent > 2 * _DENSE:  # it is in C code, or where it is never to be cut
                pause = min(2 * pause, _SLOWEST)

    # --- in the main thread, at any moment -------------------------------------------------------

    def _look(self, _number: int, frame: FrameType | None) -> None:
        """Handle the signal: raise `StepOverran` out of `frame` if all conditions hold."""
        step = self.step
        if step is None or frame is None or self._looking:
            return
        self._looking = True  # the next signal may come before the first has been dealt with
        try:
            cut = step.to_be_cut(frame)
        finally:
            self._looking = False
        if not cut:
            return
        try:
            raise step.overran()
        finally:
            del self, step, frame  # the traceback keeps this frame, and the process keeps the error


@final
class Watched:
    """The steps of one life, as far as others need to know of them.

    Attributes:
        limit: Seconds that a step may take.
    """

    __slots__ = ("_began", "_preemptor", "_process", "_spared", "_struck", "limit")

    def __init__(self, process: Process, limit: float, preemptor: Preemptor) -> None:
        """Watch the steps of `process`; each may take `limit` seconds."""
        self.limit = limit
        self._process = process
        self._preemptor = preemptor
        self._began = self._struck = self._spared = 0.0
        preemptor.limit(limit)

    def call(self, do: Callable[..., Any], *args: Any) -> Any:
        """Call code of the child: one step.

        While it is the step that is going on, this function calls nothing else: whatever frames
        are found inside of it are those of the child.
        """
        preemptor = self._preemptor
        if preemptor.quiet:
            preemptor.stir()
        outer = preemptor.step  # of a child in whose step this one is made; there is none usually
        self._began = perf_counter()
        preemptor.step = self
        try:
            return do(*args)
        except BaseException:
            del self, do, args  # the traceback keeps this frame, and the process keeps the error
            raise
        finally:
            preemptor.step = outer

    @property
    def due(self) -> float:
        """When it is to be interrupted; after a hit it has as long again, to come to its end."""
        return max(self._began, self._struck) + self.limit

    def to_be_cut(self, frame: FrameType) -> bool:
        """Whether the step is due, and may be cut in `frame`; if so it counts as hit."""
        now = perf_counter()
        since = max(self._began, self._struck)
        if now < since + self.limit:
            return False
        try:
            verdict = interruptible_at(frame, _STEP)
        except Exception:  # noqa: BLE001 - near the recursion limit, say: it must not land in a child
            return False
        if verdict is Interruptible.SPARED and self._spared < since:
            self._spared = now
        spared = verdict is Interruptible.SPARED and now < self._spared + self.limit
        if verdict is Interruptible.NEVER or spared:
            return False
        self._struck = now
        return True

    def overran(self) -> StepOverran:
        """Return what to raise."""
        return StepOverran(self._process.path, perf_counter() - self._began, self.limit)


_STEP: Final = Watched.call.__code__


@final
class Steps:
    """A coroutine of a child with watched steps; awaited in its place."""

    __slots__ = ("_coroutine", "_watched")

    def __init__(self, watched: Watched, awaitable: Awaitable[Any]) -> None:
        """Stand for `awaitable`."""
        self._watched = watched
        plain: object = awaitable  # asked as an object, it stays of any type
        own: Any = awaitable if isinstance(plain, CoroutineType) else _awaited(awaitable)
        self._coroutine: CoroutineType[Any, Any, Any] = own

    def __await__(self) -> Generator[Any, Any, Any]:
        """Return itself, whose `send` awaits."""
        return cast("Generator[Any, Any, Any]", self)  # as good as one

    def __iter__(self) -> Steps:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Let the child's code run on to its next await."""
        try:
            return self._watched.call(self._coroutine.send, None)
        except BaseException:
            del self  # the traceback keeps this frame, and the process keeps the error
            raise

    def send(self, value: Any) -> Any:
        """Let the child's code run on to its next await."""
        try:
            return self._watched.call(self._coroutine.send, value)
        except BaseException:
            del self, value
            raise

    def throw(self, *error: Any) -> Any:
        """Let the child's code run on to its next await, with an exception."""
        try:
            return self._watched.call(self._coroutine.throw, *error)
        except BaseException:
            del self, error
            raise

    def close(self) -> None:
        """End it, with its loop; not a step, because the collector may call this in any thread."""
        self._coroutine.close()

    # For tools that draw where it is suspended:
    cr_await = property(lambda self: self._coroutine.cr_await)
    cr_frame = property(lambda self: self._coroutine.cr_frame)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
