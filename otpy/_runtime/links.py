"""What processes tell each other about their ends: monitors, links and exit signals.

| rule | what happens |
|---|---|
| SIG-01 | a link works both ways; the end of one side is a signal to the other |
| SIG-02 | `Process.exit(reason)` is a signal to a process that traps exits, else it ends it;
|        | `Normal()` ends only who asks it of itself |
| SIG-04 | a monitor works one way, and delivers exactly once, also about what is dead already |
| SIG-05 | notices come in the order of the ends; about one, monitors before links |
| SIG-07 | after `demonitor` and `unlink` nothing is delivered, what lay unread is taken back |

A process carries a `Watchers` only once it is monitored or linked, or traps. Every notice is
given in `Process.end`, before the supervisor hears of the end: who watches a child learns of its
end before its next life begins. No notice runs user code: it resolves a future, fills a queue
or begins a stop.

A supervisor that stops its child sends no signal (AIO-09): trapping exits does not keep a child
from being told to stop, and the limits of `stop.py` hold for it as for every other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, cast, final

from otpy._core.reason import Normal, signal_of
from otpy._runtime.current import current, current_or_none
from otpy._runtime.handles import Down, ExitSignal, Monitor
from otpy._runtime.inner import Watch, Watchers, inner_of
from otpy._runtime.waiters import Waiters, release, wait_among
from otpy.errors import Demonitored

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from otpy._core.reason import ExitReason
    from otpy._runtime.handles import Notice, Process
    from otpy._runtime.inner import InnerProcess, NoticeInbox


@final
class LiveMonitor(Monitor):
    """A `Monitor` as the runtime sees it."""

    __slots__ = ("__weakref__", "_down", "_inbox", "_removed", "_waiters", "_watch", "process")

    _inbox: NoticeInbox | None
    _down: Down | None
    _removed: bool
    _waiters: Waiters[Down | None] | None
    _watch: Watch | None

    def __init__(self, process: InnerProcess, inbox: NoticeInbox | None = None) -> None:
        """Watch `process`; hand the notice to `inbox` if there is one, else keep it."""
        process.parent.tree.check_thread(process)
        self.process = process
        self._inbox = inbox
        self._down = None
        self._removed = False
        self._waiters = None
        self._watch = None
        reason = process.exit_reason
        if reason is None:
            maker, target = current_or_none(), watchers_of(process)
            owner = None if maker is None or not maker.alive else watchers_of(maker)
            watch = self._watch = Watch(self, Watch.leave)
            watch.target, watch.owner = target, owner
            watching = dict[Watch, None]() if owner is None else owner.watching
            held = None if inbox is None else self
            target.monitors[watch], watching[watch] = held, None  # both, or neither
        else:
            self.notify(reason)

    def __repr__(self) -> str:
        """Return the path and whether the notice has been given."""
        state = "removed" if self._removed else "waiting" if self._down is None else "down"
        return f"<Monitor {self.process.path!r} {state}>"

    def __await__(self) -> Generator[object, None, Down]:
        return self._wait().__await__()

    async def _wait(self) -> Down:
        if self._down is None and not self._removed:
            if self._waiters is None:
                self._waiters = {}
            self._keep(self)  # who awaits it may be held by nothing but this
            try:
                loop = inner_of(self.process).parent.tree.loop
                await wait_among(self._waiters, loop, self.process)
            finally:
                if not self._waiters and self._inbox is None:
                    self._keep(None)
        if self._down is None:
            raise Demonitored(self.process.path)
        return self._down

    def demonitor(self) -> None:
        inner_of(self.process).parent.tree.check_thread(self.process)
        self._removed = True
        if self._watch is not None:
            self._watch.leave()
        if self._inbox is not None and self._down is not None:
            mine = self._down
            self._inbox.discard(lambda notice: notice is mine)
        self._down = None
        if self._waiters is not None:
            release(self._waiters, None)

    def _keep(self, strong: Monitor | None) -> None:
        """Let the process keep it for as long as it is listed there, or not."""
        watch = self._watch
        if watch is not None and watch in watch.target.monitors:
            watch.target.monitors[watch] = strong

    def notify(self, reason: ExitReason) -> None:
        """The process has ended, for the one and only time."""
        self._down = Down(self.process, reason)
        if self._watch is not None:
            self._watch.leave()
        if self._inbox is not None:
            self._inbox.deliver(self._down)
        if self._waiters is not None:
            release(self._waiters, self._down)


@final
class ExitSignals:
    """The exit signals of a process that traps them: `async for signal in signals.trap_exit()`.

    Never ends by itself. One reader at a time gets each signal; several share them.

    Attributes:
        path: Path of the process.
    """

    __slots__ = ("_loop", "_trap", "path")

    def __init__(self, process: InnerProcess, trap: Trap) -> None:
        """Read what `trap` keeps for `process`."""
        self.path = process.path  # not the process, which leads here
        self._loop = process.parent.tree.loop
        self._trap = trap

    def __aiter__(self) -> ExitSignals:
        """Iterate over the signals, oldest first."""
        return self

    async def __anext__(self) -> ExitSignal:
        """Return the next signal."""
        return await self.get()

    async def get(self) -> ExitSignal:
        """Wait for the next signal; cancelling the wait loses none."""
        trap = self._trap
        while not trap.unread:
            await wait_among(trap.waiters, self._loop, self)
        return trap.unread.popleft()


@final
class Trap:
    """The inbox of a process that is not a `GenServer` and traps exits.

    Attributes:
        signals: What its code reads them by.
        unread: Oldest first.
        waiters: The tasks that wait for one.
    """

    __slots__ = ("signals", "unread", "waiters")

    def __init__(self, process: InnerProcess) -> None:
        self.unread: deque[ExitSignal] = deque()
        self.waiters: Waiters[None] = {}
        self.signals = ExitSignals(process, self)

    def deliver(self, notice: Notice) -> None:
        if isinstance(notice, ExitSignal):
            self.unread.append(notice)
            release(self.waiters, None)

    def discard(self, unwanted: Callable[[object], bool]) -> None:
        kept = [notice for notice in self.unread if not unwanted(notice)]
        self.unread.clear()
        self.unread.extend(kept)


def trap_exit() -> ExitSignals:
    """Let the running child take exit signals as values instead of being ended by them.

    From now on, the end of a linked process, whatever its reason, and `exit()` of this child's
    process by anybody arrive as `ExitSignal`. Its supervisor stops it all the same, and `kill()`
    and cancellation cannot be trapped (SIG-01, SIG-02). There is no way back within a life, and
    each life begins without. Call it in the child, before it links; a second call returns the
    same object. A `GenServer` uses `self.trap_exit()` instead.

    Raises:
        NotSupervised: If no supervisor started the code that is running.
        RuntimeError: If the signals of this process go to `handle_info` already, or should.
        WrongThread: In another thread than the event loop's.

    Source:
        OTP `process_flag(trap_exit, true)`. Differs: only a supervisor's request to stop ends a
        trapping process in OTP too, but there it arrives as a message.
    """
    process = inner_of(current())
    process.parent.tree.check_thread(process)
    if process.behaviour is not None:
        msg = f"{process.path}: a GenServer traps exits by self.trap_exit()"
        raise RuntimeError(msg)
    watchers = watchers_of(process)
    if watchers.inbox is None:
        watchers.inbox = Trap(process)
    assert isinstance(watchers.inbox, Trap)  # noqa: S101 - behaviours were refused above
    return watchers.inbox.signals


def watchers_of(process: Process) -> Watchers:
    """Return the signals of `process`, made on first use."""
    return inner_of(process).ensure_watchers()


def link(one: InnerProcess, other: InnerProcess) -> None:
    """Link two processes: each hears of the other's end, now if it is dead (SIG-01, SIG-04)."""
    _check_threads(one, other)
    if one is other:
        return
    ends = one.exit_reason, other.exit_reason
    if ends == (None, None):
        mine, theirs = watchers_of(one).links, watchers_of(other).links
        mine[other] = theirs[one] = None  # without a call between: both, or neither
    elif ends[0] is not None:
        other.parent.tree.order(other.hear_of, one, ends[0])
    elif ends[1] is not None:
        one.parent.tree.order(one.hear_of, other, ends[1])


def _check_threads(*processes: InnerProcess) -> None:
    for process in processes:
        process.parent.tree.check_thread(process)


def unlink(one: InnerProcess, other: InnerProcess) -> None:
    """Let neither hear of the other's end; take back what lies unread (SIG-07)."""
    _check_threads(one, other)
    mine, theirs = one.watchers, other.watchers
    if mine is not None and theirs is not None and other in mine.links:
        del mine.links[other], theirs.links[one]  # without a call between: both, or neither
    for watchers, partner in ((mine, other), (theirs, one)):
        end = partner.exit_reason
        if watchers is not None and watchers.inbox is not None and end is not None:
            watchers.inbox.discard(_is_signal_of(partner, end))


def _is_signal_of(partner: InnerProcess, end: ExitReason) -> Callable[[object], bool]:
    def matches(notice: object) -> bool:
        # By identity: an `exit(reason)` that the partner sent before it died is another object.
        if not isinstance(notice, ExitSignal):
            return False
        return notice.process is partner and notice.reason is end

    return matches


def traps(process: InnerProcess) -> bool:
    """Whether `process` takes exit signals as values."""
    return process.watchers is not None and process.watchers.inbox is not None


def trapped(process: InnerProcess, sender: Process | None, reason: ExitReason) -> bool:
    """Give `process` an exit signal as a value, if it traps them; say whether it does."""
    watchers = process.watchers
    if watchers is None or watchers.inbox is None or not process.alive:
        return False
    watchers.inbox.deliver(ExitSignal(sender, reason))
    return True


def ends(process: InnerProcess, sender: Process | None, reason: ExitReason) -> bool:
    """Give `process` an exit signal that `sender` sends by hand; say whether it must end (SIG-02).

    It need not if it traps exits, or if it is others who want it to end normally.
    """
    if trapped(process, sender, reason):
        return False
    return sender is process or not isinstance(reason, Normal)


def ended(process: InnerProcess, reason: ExitReason) -> None:
    """`process` has ended: give every notice that is due."""
    watchers = process.watchers
    if watchers is None:
        return
    monitors, links = _listed(watchers.monitors), list(watchers.links)
    watchers.monitors.clear()
    watchers.links.clear()
    for monitor in _listed(watchers.watching):
        monitor.demonitor()
    for monitor in monitors:
        monitor.notify(reason)
    for partner in links:
        if partner.watchers is not None:
            partner.watchers.links.pop(process, None)
        send(partner, process, reason)


def _listed(watches: Iterable[Watch]) -> list[LiveMonitor]:
    """Return the monitors, without those that are being dropped at this moment."""
    return [
        monitor
        for watch in list(watches)
        if (monitor := cast("LiveMonitor | None", watch())) is not None
    ]


def send(to: InnerProcess, partner: InnerProcess, reason: ExitReason) -> None:
    """Send the link signal of a partner that ended (SIG-01, SIG-03).

    A supervisor takes no notice, as in OTP, where it traps exits and ignores those of strangers
    (SUP-406). `Abandoned` ends a partner with `Killed`: the partner itself did not refuse.
    """
    signal = signal_of(reason)
    if not trapped(to, partner, reason) and to.supervisor is None and signal is not None:
        to.stop(reason=signal)
