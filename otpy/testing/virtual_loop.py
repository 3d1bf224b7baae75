"""An event loop whose clock moves by itself, to the next timer, when nothing else can happen.

Each time the loop would block, it asks in this order:

1. Is work that it knows of in flight (a thread, a child process, a `hold()`)? Then it really
   waits, and the clock flows at real speed up to the next timer.
2. Is a timer set? Then the clock jumps to exactly that moment, unless a thread of somebody else's
   works (`otpy.testing.strange_threads`) or a peer may be about to speak (`otpy.testing.peers`).
   Until that is over the clock flows as well, and a timeout that is due in it, but would not be by
   real time since it was set, has to wait.
3. Otherwise nothing can wake the loop any more: `Deadlock`.

It never asks while something always is ready to run: `NoProgress`, after a million turns. If that
is a descriptor, time flows at real speed instead, after a hundred thousand.

While it is paused, the clock neither jumps nor flows, but for what `go_to()` asks for.

Private names of others that this module stands on, all of them (`tests/testing/test_clock.py` holds
each to its meaning on every Python version):

- `asyncio.BaseEventLoop._scheduled`: the heap of timers; cancelled ones never stay at its head.
- `asyncio.SelectorEventLoop._make_socket_transport`, `._make_ssl_transport` and
  `._make_datagram_transport`: each gets the socket first, and sends with its methods.
- `asyncio.futures._set_result_unless_cancelled`: what the timer of a sleep calls.
- `asyncio.BaseEventLoop._clock_resolution`: how close, in seconds, a timer must be to be due.
- `asyncio.BaseEventLoop._ready`: what runs next, of which `asyncio.Handle._callback` is called.
- `asyncio.SelectorEventLoop._signal_handlers`: the handlers that were added, by signal.
- `asyncio.BaseEventLoop._check_thread` and `._check_callback`: what asyncio refuses in debug mode.
- `asyncio.TimerHandle._scheduled`: whether a timer is in the heap.
- `asyncio.Handle._source_traceback`: in debug mode, where a timer was set.
- `concurrent.futures.ThreadPoolExecutor._threads`: the threads of a pool.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import heapq
import itertools
import math
import selectors
import signal
import socket
import sys
import threading
import time
import weakref
from asyncio import futures
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from otpy import OtpyError
from otpy._runtime.stack import stack_of
from otpy._runtime.watch_thread import WatchThread
from otpy.testing.anyio_threads import any_at_work, workers_of
from otpy.testing.peers import PATIENCE, Peers
from otpy.testing.schedule import MOST_TURNS, NoProgress
from otpy.testing.strange_threads import Doing, StrangeThreads
from otpy.testing.timeout_notes import Jump, covered

GRACE = 0.002
"""Real seconds after which threads that the loop has not started are looked at again."""
DEADLOCK_AFTER = 0.05
"""Real seconds without any way on after which the loop gives up."""
DOUBT = 10.0
"""The same, while a descriptor is open or an unknown thread is alive."""
_BUSY = MOST_TURNS // 10  # turns in which a descriptor was ready, without an idle one
_SHOWN = 10  # tasks that a deadlock names
_LOOK_AGAIN = 0.05  # real seconds

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_ProtocolT = TypeVar("_ProtocolT", bound=asyncio.BaseProtocol)
_Events = list[tuple[selectors.SelectorKey, int]]


class Deadlock(OtpyError, RuntimeError):
    """Every task waits, and no timer, descriptor, thread or process can wake any of them.

    Its notes (`__notes__`) say where the first ten tasks wait.

    Attributes:
        blocked: Number of tasks that wait.
    """

    def __init__(self, loop: VirtualLoop, suspects: Collection[str] = ()) -> None:
        """Name the tasks of `loop`; `suspects` could have woken one of them, but did not."""
        tasks = sorted(asyncio.all_tasks(loop), key=asyncio.Task[Any].get_name)
        self.blocked = len(tasks)
        shown = ", ".join(task.get_name() for task in tasks[:_SHOWN])
        shown += ", …" if self.blocked > _SHOWN else ""
        who = "1 task" if self.blocked == 1 else f"{self.blocked} tasks"
        text = f"{who} blocked for ever at {loop.time()} s: {shown}"
        if loop.paused and loop.next_timer() < math.inf:
            text += (
                f"; the clock is paused, and the next timer is due at {loop.next_timer()} s:"
                " advance(), step() or resume()"
            )
        if suspects:
            text += (
                f"; nothing came from {', '.join(suspects)} in {DOUBT} real seconds."
                " If something still had to: wait for it inside `with clock.hold():`"
            )
        super().__init__(text)
        for task in tasks[:_SHOWN]:
            self.add_note("\n  ".join([f"task {task.get_name()}, which is at", *stack_of(task)]))


class _Timer(asyncio.TimerHandle):
    """A timer that keeps its place among equals, and knows when real time would be up.

    Equal deadlines are the rule in virtual time, and a heap alone returns equals in any order.
    """

    _scheduled: bool
    _callback: Callable[..., object] | None
    _source_traceback: list[object] | None

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: VirtualLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.hide_last_frame()
        self._scheduled = True
        self.really_due = time.monotonic() + when - loop.time()
        self._rank = (when, loop.place_among_equals())

    def hide_last_frame(self) -> None:
        """Leave one line of ours out of what debug mode says of where the timer was set."""
        if self._source_traceback:
            del self._source_traceback[-1]

    def ends_no_sleep(self) -> bool:
        """Whether it is not cancelled and not the end of a sleep: a timeout, for all one knows."""
        return self._callback is not None and self._callback not in _ENDS_OF_SLEEPS

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        return self._rank < other._rank if isinstance(other, _Timer) else super().__lt__(other)


class _AskingSelector(selectors.DefaultSelector):
    """A selector that asks before it blocks, and reports changes of its descriptors."""

    def __init__(
        self,
        before_blocking: Callable[[], _Events],
        on_no_progress: Callable[[], None],
        let_flow: Callable[[float], None],
    ) -> None:
        super().__init__()
        self._before_blocking = before_blocking
        self._on_no_progress = on_no_progress
        self._let_flow = let_flow
        self.turns = 0
        self._busy = 0
        self._looked_at = 0.0
        self.peers = Peers(self.get_map)

    def select(self, timeout: float | None = None) -> _Events:
        ready = self.block(0)
        if ready:
            self.turns = 0
            self._flow_if_busy()
            return ready
        if timeout is not None and timeout <= 0:
            self.turns += 1
            if self.turns > MOST_TURNS:
                self.turns = 0  # or the loop could not even be closed
                self._on_no_progress()
            return ready
        self.turns = self._busy = 0
        return self._before_blocking()

    def _flow_if_busy(self) -> None:
        """Let time flow, as it does in earnest, beside a descriptor that is always ready."""
        self._busy += 1
        if self._busy < _BUSY:
            return
        before, self._looked_at = self._looked_at, time.monotonic()
        if self._busy > _BUSY:
            self._let_flow(self._looked_at - before)

    def block(self, timeout: float) -> _Events:
        ready = super().select(timeout)
        for key, events in ready:
            if events & selectors.EVENT_READ:
                self.peers.heard(key.fd)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self.peers.opened(key.fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        before = self.get_key(fileobj).events
        key = super().modify(fileobj, events, data)
        if events & ~before & selectors.EVENT_READ:
            self.peers.opened(key.fd)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self.peers.closed(key.fd)
        return key


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


_ENDS_OF_SLEEPS = (futures._set_result_unless_cancelled, _wake)  # type: ignore[attr-defined]


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop behind `MockClock`; `time()` starts at 0.0 seconds.

    Attributes:
        paused: Whether time stands unless `go_to()` moves it.
        patience: Real seconds of silence after which a peer has nothing to say.
    """

    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float
    _ready: Any
    _signal_handlers: dict[int, asyncio.Handle]
    _check_thread: Callable[[], None]
    _check_callback: Callable[[object, str], None]

    def __init__(self) -> None:
        self._asking = _AskingSelector(self._before_blocking, self._on_no_progress, self._let_flow)
        self._peers = self._asking.peers
        super().__init__(self._asking)
        self._own_descriptors: set[int] = set()
        self._own_descriptors = self._descriptors()
        self._peers.leave_out(self._own_descriptors)
        self.patience = PATIENCE
        self._threads = StrangeThreads()
        # The main thread is kept out: it may well feed a loop that runs in another thread. So may
        # those that wait for work now, such as a pool that was there before.
        self._bystanders = {
            thread for thread in threading.enumerate() if not self._threads.awaits_work(thread)
        } - {threading.main_thread()}
        self._jump: Jump | None = None
        self._graced = False
        self._threads_await_until = -math.inf
        self._strangers_are_there = False
        self.paused = False
        self._goals: list[float] = []
        self._holds = 0
        self._calls_in_executors = 0
        self._executors: weakref.WeakSet[concurrent.futures.Executor] = weakref.WeakSet()
        self._default_pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._pools_closed = False
        self._children: list[asyncio.SubprocessTransport] = []
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._timers_set = itertools.count()
        self._now = 0.0
        self._clock_resolution = math.ulp(0.0)

    # --- the clock --------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def time_moved(self) -> None:
        """Do nothing; a subclass may follow the clock here. Called after each move."""

    def place_among_equals(self) -> int:
        """Return the place of a new timer among those that are due at the same moment."""
        return next(self._timers_set)

    @contextmanager
    def hold(self) -> Generator[None]:
        """Count as work in flight: the clock flows at real speed inside."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def let_pass(self, thread: threading.Thread) -> None:
        """Take no notice of a thread, which brings nothing that anybody waits for."""
        self._bystanders.add(thread)

    def next_timer(self) -> float:
        """Return when the next timer is due, in loop time; `math.inf` if none ever is."""
        # Not only the head: between two turns of the loop a cancelled timer may still be there.
        moments = (timer.when() for timer in self._scheduled if not timer.cancelled())
        return min(moments, default=math.inf)

    async def until_idle(self) -> None:
        """Wait until nothing can run without the clock moving on; the clock stands meanwhile."""
        waiter: asyncio.Future[None] = self.create_future()
        self._idle_waiters.append(waiter)
        await waiter

    async def go_to(self, when: float) -> None:
        """Wait until it is `when`, in loop time, and nothing more can run then; paused or not."""
        arrived: asyncio.Future[None] = self.create_future()
        timer = self.call_at(when, _wake, arrived)
        self._goals.append(when)
        try:
            await arrived
        finally:
            timer.cancel()
            self._goals.remove(when)
        await self.until_idle()

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback` at loop time `when` (seconds); among equals, first come, first served."""
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        if self.get_debug():
            self._check_thread()
            self._check_callback(callback, "call_at")
        timer = _Timer(when, callback, args, self, context)
        timer.hide_last_frame()
        heapq.heappush(self._scheduled, timer)
        return timer

    def _move_to(self, when: float) -> None:
        self._now = when
        # One step of a float at this height. With asyncio's fixed nanosecond, timers would be due
        # before their time early on, and never (an endless loop) after about a hundred days.
        self._clock_resolution = math.ulp(when)
        self.time_moved()

    def _before_blocking(self) -> _Events:
        known = self._in_flight()
        works = not known and self._strangers_work()
        # A thread that reported between the last look at the selector and this one is idle now.
        if not known and (ready := self._asking.block(0)):
            return ready
        if self._idle_waiters:
            if not self._graced and (works or self._peers.seconds_left(self.patience)[0] > 0):
                self._graced = True
                return self._asking.block(GRACE)
            self._graced = False
            for waiter in self._idle_waiters:
                _wake(waiter)
            self._idle_waiters.clear()
            return []
        # Not the timeout that asyncio computed: it is rounded, and cut off at one day. An endless
        # sleep is an infinite timer, which must never be jumped to. No timer before a goal can be
        # missed: the goal itself is one.
        stands = self._stands()
        next_timer = self._scheduled[0].when() if self._scheduled and not stands else math.inf
        # Not for long at a time: the call of a thread that is just beginning may be cancelled
        # already, and then nothing tells that it is not in flight (`anyio_threads`).
        if known and stands:
            return self._asking.block(_LOOK_AGAIN)
        if known:
            return self._flow(next_timer, _LOOK_AGAIN)
        if next_timer < math.inf:
            if works:
                return self._flow(next_timer, GRACE)
            return self._wait_for_peers(next_timer)
        suspects = self._suspects()
        ready = self._asking.block(DOUBT if suspects else DEADLOCK_AFTER)
        if not ready:
            raise Deadlock(self, suspects)
        return ready

    def _stands(self) -> bool:
        return self.paused and not self._goals

    def _let_flow(self, seconds: float) -> None:
        if not self._stands():
            next_timer = self._scheduled[0].when() if self._scheduled else math.inf
            self._move_to(min(self._now + seconds, next_timer))

    def _on_no_progress(self) -> None:
        """Raise, unless an event outside the loop may end it."""
        if self._in_flight() or self._strangers_work():
            return
        steps = [getattr(handle._callback, "__self__", None) for handle in self._ready]
        tasks: list[asyncio.Task[Any]] = [step for step in steps if isinstance(step, asyncio.Task)]
        who = ", ".join(task.get_name() for task in tasks[:_SHOWN]) or "callbacks"
        error = NoProgress(
            f"{MOST_TURNS} turns of the loop, and the clock stood still at {self._now} s:"
            f" {who} always had something to run. Time passes for who waits, not for who asks"
            " again and again, as with sleep(0)"
        )
        for task in tasks[:_SHOWN]:
            error.add_note("\n  ".join([f"task {task.get_name()}, which is at", *stack_of(task)]))
        raise error

    def _wait_for_peers(self, next_timer: float) -> _Events:
        """Jump to the next timer, unless a peer may be about to speak."""
        any_timer, timeouts = self._peers.seconds_left(self.patience)
        patience = max(any_timer, timeouts, self._threads_await_until - time.monotonic())
        outside = self._peers.outside()
        if patience > 0 or outside or self._strangers_are_there:
            due = min(self._timeouts_at(next_timer), default=None)
            left = math.inf if due is None else due - time.monotonic()
            if due is None and any_timer > 0:
                return self._flow(next_timer, any_timer)
            if due is not None and min(patience, left) > 0:
                return self._flow_short_of(next_timer, min(patience, left))
            if due is not None and left > 0:
                self._note_jump(next_timer, outside)
        self._graced = False
        self._move_to(next_timer)
        return []

    def _note_jump(self, to: float, outside: set[int]) -> None:
        """Remember a jump to a timeout, if it was over a peer, or a thread that has work."""
        strangers = self._strangers()
        threads = [one.name for one in strangers if not self._threads.awaits_work(one)]
        if outside or threads:
            self._jump = Jump(self._now, to, self.patience, sorted(outside), threads)

    def _timeouts_at(self, when: float) -> Iterator[float]:
        """Yield when in real time each timer is due that is set for `when` and ends no sleep."""
        heap, waiting = self._scheduled, [0]
        while waiting:
            place = waiting.pop()
            if place >= len(heap) or heap[place].when() > when:
                continue  # and so are those below it
            timer = heap[place]
            if isinstance(timer, _Timer) and timer.ends_no_sleep():
                yield timer.really_due
            waiting += (2 * place + 1, 2 * place + 2)

    def latest_jump(self) -> Jump | None:
        """Return the jump over a peer that has led to this moment, if one has."""
        return self._jump if self._jump is not None and self._jump.to == self._now else None

    def last_jump(self) -> Jump | None:
        """Return the last jump over a peer, for an error that may have been on its way since."""
        return self._jump

    def run_forever(self) -> None:
        """Run until stopped."""
        with covered(self.latest_jump):
            super().run_forever()

    def _flow(self, next_timer: float, patience: float) -> _Events:
        began = time.monotonic()
        patience = min(next_timer - self._now, patience)
        ready = self._asking.block(patience)
        self._move_to(min(self._now + time.monotonic() - began, next_timer))
        return ready

    def _flow_short_of(self, next_timer: float, patience: float) -> _Events:
        began = time.monotonic()
        ready = self._asking.block(patience)
        now = self._now + time.monotonic() - began
        if now < next_timer:
            self._move_to(now)
        return ready

    # --- what is in flight ------------------------------------------------------------------------

    def _in_flight(self) -> bool:
        if self._holds or self._calls_in_executors:
            return True
        if any_at_work(self):
            return True
        if signal.SIGALRM in self._signal_handlers and any(signal.getitimer(signal.ITIMER_REAL)):
            return True
        self._children = [child for child in self._children if child.get_returncode() is None]
        return bool(self._children)

    def _descriptors(self) -> set[int]:
        return {key.fd for key in self._asking.get_map().values()} - self._own_descriptors

    def _strangers(self) -> list[threading.Thread]:
        """Return the foreign threads that may wake the loop."""
        if threading.active_count() == 1 and _in_main_thread():
            return []  # as nearly always; this is asked before each move of the clock
        known = {threading.current_thread(), *self._bystanders, *workers_of(self)}
        for executor in self._executors:
            known.update(getattr(executor, "_threads", ()))
        return [
            thread
            for thread in threading.enumerate()
            if thread not in known and not isinstance(thread, WatchThread)
        ]

    def _strangers_work(self) -> bool:
        """Tell whether a foreign thread works, or may be about to."""
        strangers = self._strangers()
        self._strangers_are_there = bool(strangers)
        if not strangers:
            return False
        doing = self._threads.look(strangers)
        if doing is None:
            first, self._graced = not self._graced, True
            return first
        if doing is Doing.AWAITING:
            self._threads_await_until = time.monotonic() + self.patience
        return doing is Doing.WORK

    def _suspects(self) -> list[str]:
        """Name the open descriptors and the threads that may wake the loop, for all it knows."""
        return [
            *(f"descriptor {descriptor}" for descriptor in self._descriptors()),
            *(f"thread {thread.name}" for thread in self._strangers()),
        ]

    def _make_socket_transport(self, sock: socket.socket, *args: Any, **kwargs: Any) -> Any:
        self._peers.watch(sock)
        return super()._make_socket_transport(sock, *args, **kwargs)  # type: ignore[misc]

    def _make_ssl_transport(self, rawsock: socket.socket, *args: Any, **kwargs: Any) -> Any:
        self._peers.watch(rawsock)
        return super()._make_ssl_transport(rawsock, *args, **kwargs)  # type: ignore[misc]

    def _make_datagram_transport(self, sock: socket.socket, *args: Any, **kwargs: Any) -> Any:
        self._peers.watch(sock)
        return super()._make_datagram_transport(sock, *args, **kwargs)  # type: ignore[misc]

    async def sock_sendall(self, sock: socket.socket, data: Any) -> None:
        """Send `data` over a socket without a transport; the receiver may answer."""
        self._peers.watch(sock)
        await super().sock_sendall(sock, data)

    async def sock_sendto(self, sock: socket.socket, data: Any, address: Any) -> int:
        """Send a datagram over a socket without a transport; the receiver may answer."""
        self._peers.watch(sock)
        return await super().sock_sendto(sock, data, address)

    def set_default_executor(  # type: ignore[override] # typeshed disagrees with itself here
        self, executor: concurrent.futures.ThreadPoolExecutor
    ) -> None:
        """Use `executor` where `run_in_executor` is given none."""
        super().set_default_executor(executor)
        self._default_pool = executor

    def run_in_executor(
        self,
        executor: concurrent.futures.Executor | None,
        func: Callable[[Unpack[_Ts]], _T],
        *args: *_Ts,
    ) -> asyncio.Future[_T]:
        """Call `func(*args)` in `executor`; the call is in flight until it ends, wanted or not.

        Args:
            executor: Where to call it; None is the loop's own pool of threads.
            func: What to call.
            *args: What to call it with.

        Returns:
            A future for the result. Cancelling it does not end a call that has begun.

        Raises:
            RuntimeError: The loop is closed, or the executor is shut down.
        """
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        if self.get_debug():
            self._check_callback(func, "run_in_executor")
        if executor is None:
            executor = self._own_pool()
        call = executor.submit(func, *args)
        result = asyncio.wrap_future(call, loop=self)
        self._executors.add(executor)
        self._calls_in_executors += 1
        # After wrap_future: its callback runs first, so the result is on its way into the loop
        # before the call is counted out. The other way round, the clock could jump in between.
        call.add_done_callback(self._call_ended)
        return result

    def _own_pool(self) -> concurrent.futures.Executor:
        if self._pools_closed:
            raise RuntimeError("Executor shutdown has been called")
        if self._default_pool is None:
            pool = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="asyncio")
            self.set_default_executor(pool)
            return pool
        return self._default_pool

    def _call_ended(self, _call: concurrent.futures.Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed before the abandoned call ended
            self.call_soon_threadsafe(self._count_out)

    def _count_out(self) -> None:
        self._calls_in_executors -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Join the threads of the default executor.

        Args:
            timeout: Real seconds to wait for them; None is for ever. Python before 3.12.3 waits
                for ever, whatever it is told.
        """
        self._pools_closed = True
        with self.hold():  # the timeout is a timer on this loop, and would be jumped to
            if sys.version_info >= (3, 12):
                await super().shutdown_default_executor(timeout)
            else:
                await super().shutdown_default_executor()

    async def subprocess_exec(
        self,
        protocol_factory: Callable[[], _ProtocolT],
        program: Any,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[asyncio.SubprocessTransport, _ProtocolT]:
        """Start a program, as asyncio does; it is in flight until it ends."""
        with self.hold():
            pair = await super().subprocess_exec(protocol_factory, program, *args, **kwargs)
        self._children.append(pair[0])
        return pair

    async def subprocess_shell(
        self,
        protocol_factory: Callable[[], _ProtocolT],
        cmd: bytes | str,
        **kwargs: Any,
    ) -> tuple[asyncio.SubprocessTransport, _ProtocolT]:
        """Start a shell command, as asyncio does; it is in flight until it ends."""
        with self.hold():
            pair = await super().subprocess_shell(protocol_factory, cmd, **kwargs)
        self._children.append(pair[0])
        return pair
