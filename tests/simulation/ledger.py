"""An account of one tree, kept from outside: every life, as its own code saw it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from attrs import define, field

import otpy
from otpy import (
    BRUTAL_KILL,
    INFINITY,
    Abandoned,
    Crashed,
    DynamicSupervisor,
    Exit,
    Ignore,
    Killed,
    Normal,
    Process,
    Registry,
    TaskSupervisor,
)
from otpy._core.protocol import KILL_GRACE
from otpy._runtime.handles import SupervisorHandle
from otpy._runtime.process import live_of
from otpy._runtime.shell import Shell
from otpy._runtime.shells import shell_of
from otpy.errors import StartTimeout
from tests.simulation.machines import MACHINES, Gate, Turnstile
from tests.simulation.servers import SERVERS, Desk, Kiosk, Stall
from tests.simulation.signals import SignalLedger

if TYPE_CHECKING:
    from otpy import ExitReason
    from otpy._runtime.tree import Interposer, Tree
    from otpy.reports import Report
    from otpy.testing import FaultPlan
    from otpy.testing.simulated_loop import SimulatedLoop
    from otpy.testing.stop_bound import StopBound
    from tests.simulation.rogues import Rogue

UNBEGUN, RUNNING, RETURNED, CANCELLED = "unbegun", "running", "returned", "cancelled"
_WITHOUT_TASK = (Kiosk, Stall, Gate, Turnstile)
SERVED = "served"  # without a task: only the server knows why it ended


@define(eq=False)
class Life:
    """One life of a worker.

    Attributes:
        process: The process.
        begun: The time of its start (seconds).
        body: The progress of its code, or the exception that it raised.
        wanted: The reason with which it was told to end, when its code was cancelled.
        told: The time of the first cancellation by its supervisor.
        grace: Seconds that it then has, unless it is killed.
        ended: The time of its end.
    """

    process: Process
    begun: float
    body: str | BaseException = UNBEGUN
    wanted: ExitReason | None = None
    told: float | None = None
    grace: float = 0.0
    ended: float | None = None


@define(eq=False)
class Office:
    """The known facts of one life of one supervisor.

    Attributes:
        order: Its children's keys, in start order.
        restarts: The times of its restarts of ended children, in whole seconds.
        retried: The times of its retries of restarts, in whole seconds.
        failed: The times at which restarts of a child failed, or were retried, in whole seconds.
        failures: The children whose restart failed, and the number of the missing life.
        due: The times of delayed restarts, and the path of the child whose restart that is: its
            own, or that of another which has taken it over for a group.
        regroups: Whether it has begun to restart a group, and has started none of it.
        hurried: Whether a user has asked for a restart at once.
        changed: Whether a user has changed its order or its limits.
        told: Whether a user has stopped it.
    """

    order: list[str] = field(factory=list[str])
    restarts: list[int] = field(factory=list[int])
    retried: list[int] = field(factory=list[int])
    failed: dict[str, list[int]] = field(factory=dict[str, list[int]])
    failures: dict[str, int] = field(factory=dict[str, int])
    due: dict[str, tuple[float, str]] = field(factory=dict[str, tuple[float, str]])
    regroups: bool = False
    hurried: bool = False
    changed: bool = False
    told: bool = False


def supervisors(root: SupervisorHandle) -> Iterator[Shell]:
    """Yield every running supervisor."""
    shell = cast("Shell", root)
    yield shell
    for child in shell._machine.children.values():
        process = shell.process_of(child)
        if process is not None and process.supervisor is not None:
            yield from supervisors(process.supervisor)


class Ledger:
    """A layer between the supervisors of one tree and their workers.

    Users and children record here what they do on purpose, so that it does not count as a defect.

    Attributes:
        broken: The broken promises.
        touched: Paths of children that users have terminated, started or deleted.
        killed: The processes that users have killed, and when; None is the root.
        blamed: Processes that were told to end, but not by their supervisor.
        ignoring: Paths that may refuse to end.
        reports: All reports.
        lives: Every life of a worker.
        alive: The living processes, supervisors included, by path.
        offices: Every life of a supervisor.
        last: The number and the process of the latest life of each child.
        resized: The number of changes of the number of partitions by users, or of possible ones.
        orphans: The processes that were registered in an ended registry.
        bound: The bound of the stop of the tree, once it has begun.
        rest: Seconds that the block may take after the end of the tree.
        attendants: The callbacks at ends of processes that do harm.
        raised: The errors of hooks and callbacks, and how often each was reported.
        exits: The errors of hooks and callbacks that end the program.
        errands: The tasks of requests to the tree from odd places.
        strays: The tasks that workers have made and forgotten, with the process and the time
            (seconds).
        stubborn: Paths of workers with tasks that refuse to end.
        over: Whether the tree has ended and all checks are over.
    """

    def __init__(self, plan: FaultPlan, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.broken: list[str] = []
        self.touched: set[str] = set()
        self.killed: dict[Process | None, float] = {}
        self.blamed: set[Process] = set()
        kinds = ("ignore_cancellation", "hang")
        self.ignoring = {fault.path for fault in plan.faults if fault.kind in kinds}
        self.faulty = {fault.path for fault in plan.faults}
        self.reports: list[Report] = []
        self.lives: dict[Process, Life] = {}
        self.alive: dict[str, Process] = {}
        self.offices: dict[SupervisorHandle, Office] = {}
        self.last: dict[tuple[SupervisorHandle, str], tuple[int, Process]] = {}
        self.resized: Counter[SupervisorHandle] = Counter()
        self.orphans: list[Process] = []
        self.bound: StopBound | None = None
        self.rest = 0.0
        self.attendants: list[Rogue] = []
        self.raised: dict[BaseException, int] = {}
        self.exits: list[BaseException] = []
        self.errands: list[asyncio.Task[None]] = []
        self.strays: dict[asyncio.Task[None], tuple[Process, float]] = {}
        self.stubborn: set[str] = set()
        self.over = False
        self.desk = Desk(self.expect, self.faulty, self.blamed)
        self.signals = SignalLedger(self)
        self.begin: Callable[[Process], None] = lambda _: None
        self.stops: Callable[[], None] = lambda: None
        self.tree: Tree
        self._inner: Interposer

    @staticmethod
    def current() -> Ledger:
        """Return the ledger of the tree that the running child belongs to."""
        return cast("Ledger", shell_of(otpy.current().parent).tree.interposer)

    def put_around(self, inner: Callable[[Tree], Interposer]) -> Callable[[Tree], Interposer]:
        """Return a maker of the tree's interposer: this ledger, around the one made by `inner`."""

        def make(tree: Tree) -> Any:
            self._inner, self.tree = inner(tree), tree
            return self

        return make

    def expect(self, holds: bool, otherwise: str, *about: object) -> None:
        """Record a broken promise, without disturbing any step.

        Args:
            holds: Whether the promise holds, as nearly always: no text is made then.
            otherwise: The failure, with a `{}` for each object of `about`.
            *about: The objects of the failure.
        """
        if not holds:
            self.broken.append(f"{self.loop.time():.3f} {otherwise.format(*about)}")

    def note_raised(self, error: BaseException, *, exits: bool) -> None:
        """Record that a hook or callback is about to raise `error`, which may end the program."""
        if exits:
            self.exits.append(error)
            self.stops()
        else:
            self.raised[error] = 0

    def office(self, shell: SupervisorHandle) -> Office:
        """Return the known facts of a supervisor."""
        office = self.offices.get(shell)
        if office is None:
            office = self.offices[shell] = Office()
        return office

    # --- what is left behind ---------------------------------------------------------------------

    def leave(self, process: Process, way: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let the code of `process` make a task and forget it."""
        self.rest = max(self.rest, KILL_GRACE)
        self.strays[asyncio.create_task(way(), name="stray")] = process, self.loop.time()

    def check_strays(self, now: float) -> None:
        """Check that left-over tasks of workers have ended with them by `now`, or are named."""
        named = self.tree.root.abandoned if self.tree.root is not None else ()
        for task, (process, made) in self.strays.items():
            ended = self.lives[process].ended
            if ended is not None and not task.done() and max(made, ended) + KILL_GRACE < now:
                self.expect(process in named, "{} has left {}", process, task)

    async def let_go(self) -> None:
        """Release the tasks that refuse to end; all checks are over."""
        self.over = True
        if self.strays:
            await asyncio.wait(self.strays)

    # --- processes that children and users find --------------------------------------------------

    def anybody(self, me: Process | None, *, servers: bool = False) -> Process | None:
        """Return some other living worker; the loop's random numbers decide which."""
        found = [
            process
            for process in self.alive.values()
            if process is not me and process.supervisor is None
            if live_of(process).behaviour is not None or not servers
        ]
        return random.choice(found) if found else None

    def anyone_ever(self) -> Process | None:
        """Return some worker, most likely a dead one."""
        return random.choice([*self.lives]) if self.lives else None

    def supervisor_of_tasks(self) -> TaskSupervisor | None:
        """Return a running dynamic supervisor, as a task supervisor."""
        for found in supervisors(self.tree.root) if self.tree.root is not None else ():
            if isinstance(found, DynamicSupervisor) and found.running:
                return TaskSupervisor(found)
        return None

    @property
    def registries(self) -> list[Registry]:
        """Return the running registries."""
        return [Registry.of(p) for p in self.alive.values() if isinstance(p.value, Registry)]

    # --- lives -----------------------------------------------------------------------------------

    def around(self, process: Process, body: Any) -> Any:
        """Record that `process` begins, and return the code that runs in place of `body`."""
        own, body = body, self._inner.around(live_of(process), body)
        self.begin(process)
        if self.bound is not None:
            self.bound.note(live_of(process))
        life = self.lives[process] = Life(process, self.loop.time())
        self.signals.born(process)
        if body is own and getattr(process.spec, "start", None) in _WITHOUT_TASK:
            life.body = SERVED
            return body

        async def lived(*args: Any, **kwargs: Any) -> None:
            life.body = RUNNING
            try:
                await body(*args, **kwargs)
            except asyncio.CancelledError:
                life.body, life.wanted = CANCELLED, live_of(process).ending
                raise
            except BaseException as error:
                life.body = error
                raise
            life.body, life.wanted = RETURNED, live_of(process).ending

        return lived

    def enter(self, process: Process) -> None:
        """Record that `process` is alive, and so are the supervisors above it."""
        there = self.alive.get(process.path)
        self.expect(there is None, "{} began while {} lived", process, there)
        self.alive[process.path] = process
        self.office(shell_of(process.parent))
        self.last[process.parent, process.id] = process.incarnation, process
        process.on_exit(self._ended)
        for attendant in self.attendants:
            attendant.attend(process)
        above = process.parent.process
        if above is not None and above.alive and self.alive.get(above.path) is not above:
            self.enter(above)

    def lets_cancel(self, process: Process) -> bool:
        """Record that its supervisor cancels `process`; ask the faults whether it takes effect."""
        life, now, limit = self.lives[process], self.loop.time(), process.spec.shutdown
        if life.told is None:
            asked = live_of(process).asked is not None or live_of(process).behaviour is not None
            asked = asked and process.ready  # while it starts, it is not asked
            grace = KILL_GRACE if asked or isinstance(limit, Enum) else float(limit)
            life.told, life.grace = now, grace
        elif not self._kills(process):
            in_time = now >= life.told + life.grace
            self.expect(in_time, "{} was cancelled again before its time was over", process)
        return self._inner.lets_cancel(live_of(process))

    def _kills(self, process: Process) -> bool:
        """Whether `process` may be killed, or should be ready by now."""
        start = getattr(process.spec, "start", None)
        task = getattr(start, "__name__", "") in ("work", "_work")
        own = process.spec.shutdown is BRUTAL_KILL or task
        late = isinstance(getattr(live_of(process).ending, "error", None), StartTimeout)
        if own or late or not process.ready or process in self.killed or None in self.killed:
            return True
        above = process.parent.process
        while above is not None:
            if above in self.killed or above.spec.shutdown is not INFINITY:
                return True
            above = above.parent.process
        return False

    def _ended(self, process: Process, reason: ExitReason) -> None:
        """Check the end of `process`, which only its monitors and links know yet."""
        if self.alive.get(process.path) is process:
            del self.alive[process.path]
        self.expect(process.exit_reason is reason, "{} was said to end with {}", process, reason)
        self.signals.ended(process, reason)
        if isinstance(process.value, Registry):
            owned = Registry.of(process)._owned
            self.orphans += owned
            self.blamed.update(owned)
        life = self.lives.get(process)
        if life is None:
            below = [p for p in self.alive.values() if p.parent.process is process]
            self.expect(not below, "{} ended before {}", process, below)
        else:
            self._check_end_of(life, reason)

    def _check_end_of(self, life: Life, reason: ExitReason) -> None:
        process, now, limit = life.process, self.loop.time(), life.process.spec.shutdown
        life.ended = now
        if isinstance(reason, Abandoned):
            self.expect(process.path in self.ignoring, "{} was given up", process)
            return
        fits = self.desk.fits(process, reason) if life.body == SERVED else _fits(life, reason)
        self.expect(fits, "{} ended by {!r}, told {}", process, life.body, life.wanted)
        if life.told is not None and limit is not INFINITY:
            seconds = (0.0 if limit is BRUTAL_KILL else float(limit)) + 4 * KILL_GRACE
            self.expect(now <= life.told + seconds, "{} was told to end at {}", process, life.told)
        killed = self.killed.get(process)
        if killed is not None:
            self.expect(now <= killed + 2 * KILL_GRACE, "{} was killed at {}", process, killed)
        error = getattr(reason, "error", None)
        if isinstance(error, StartTimeout) and error.path == process.path:
            refused = process.path in self.ignoring
            self.expect(not process.ready or refused, "{} was ready", process)
            due = life.begun + (getattr(process.spec, "start_timeout", None) or 0.0)
            self.expect(
                life.told in (None, due), "{} was told at {}, not {}", process, life.told, due
            )
        by_itself = life.body == RETURNED or isinstance(life.body, LookupError)
        serves = process.ready and getattr(process.spec, "start", None) in (*SERVERS, *MACHINES)
        if serves and (by_itself or (isinstance(reason, Killed) and self._had_time(process))):
            cleaned = process.path in self.faulty or process in self.desk.ended
            self.expect(cleaned, "{} ended without its terminate", process)

    def _had_time(self, process: Process) -> bool:
        """Whether a killed server had a second for its `terminate`."""
        idle = self.desk.worked.get(process, -KILL_GRACE) + KILL_GRACE <= self.loop.time()
        limit = process.spec.shutdown
        asked = process not in self.killed and None not in self.killed
        return asked and idle and not isinstance(limit, Enum) and limit >= KILL_GRACE


def _fits(life: Life, reason: ExitReason) -> bool:
    """Whether `reason` fits the way in which a life ended."""
    match life.body:
        case "returned":
            return isinstance(reason, Normal | Crashed) or reason == life.wanted
        case "cancelled":
            return reason == (life.wanted or Killed())
        case "unbegun":
            return reason == (live_of(life.process).ending or Killed())
        case Ignore():
            return isinstance(reason, Normal)
        case Exit() as error:
            return reason == error.reason
        case BaseException() as error:
            return isinstance(reason, Crashed) and reason.error is error
        case _:
            return False
