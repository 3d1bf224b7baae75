"""A plan at work: which trees it holds for, what it has counted, and what it did."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self, final

from otpy._core.checks import check_kind, refuse
from otpy._runtime.interpose import INTERPOSER
from otpy._runtime.process import Process, live_of
from otpy.errors import OtpyError
from otpy.testing.child_processes import ChildProcesses
from otpy.testing.clock import MockClock
from otpy.testing.faults import Fault
from otpy.testing.faulty_life import FaultyLife
from otpy.testing.path_pattern import matches

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import TracebackType

    from otpy._runtime.interpose import Body, Interposer
    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Tree


class FaultImpossible(OtpyError, RuntimeError):
    """A plan asks for what cannot be done on this event loop; raised by `otpy.start`."""


class Hit(NamedTuple):
    """One fault that was injected.

    Attributes:
        time: When, in seconds of the event loop's clock.
        path: Whom it hit; empty for a jump of the clock.
        incarnation: Which of its lives, from 1; 0 for a jump of the clock.
        fault: What was injected.
    """

    time: float
    path: str
    incarnation: int
    fault: Fault


@final
class Armed:
    """One fault of an active plan, for one path.

    Attributes:
        fault: The fault.
        block: The block it belongs to.
    """

    __slots__ = ("_hits", "_number", "_seen", "block", "fault")

    def __init__(self, number: int, fault: Fault, block: Injected) -> None:
        """Begin to count for the fault that has this `number` in its plan."""
        self.fault = fault
        self.block = block
        self._number = number
        self._seen = 0
        self._hits = 0

    @property
    def live(self) -> bool:
        """Whether it may still hit."""
        return self.block.open and (self.fault.times is None or self._hits < self.fault.times)

    def strikes(self, process: LiveProcess) -> bool:
        """Count a start, a stop or a clean-up of its path; whether it is hit."""
        self._seen += 1
        if self._seen < self.fault.nth or not self.live:
            return False
        self.hit(process)
        return True

    def hit(self, process: LiveProcess) -> None:
        """Note that it hit `process`."""
        self._hits += 1
        time = process.parent.tree.loop.time()
        self.block.note(self._number, Hit(time, process.path, process.incarnation, self.fault))


@final
class Injected:
    """The `with` block of an active plan, and what was injected in it.

    Attributes:
        open: Whether the block is entered and not left.
        growing: Whether faults may be added.
    """

    def __init__(self, faults: tuple[Fault, ...], *, growing: bool = False) -> None:
        """Describe the block; for `FaultPlan.active`."""
        self.open = False
        self.growing = growing
        self._faults = list(faults)
        self._lives: dict[LiveProcess, FaultyLife] = {}
        self._hits: list[Hit] = []
        self._struck: set[int] = set()
        self._armed: dict[tuple[int, str], Armed] = {}
        self._token: Token[Callable[[Tree], Interposer]] | None = None
        self._undo: list[Callable[[], object]] = []
        self._jumps_set = False
        self._processes: dict[asyncio.AbstractEventLoop, ChildProcesses] = {}

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was injected so far, in order."""
        return tuple(self._hits)

    @property
    def missed(self) -> tuple[Fault, ...]:
        """The faults that hit nobody so far, in the plan's order."""
        return tuple(f for number, f in enumerate(self._faults) if number not in self._struck)

    @property
    def workers(self) -> tuple[LiveProcess, ...]:
        """The live workers that can be hit, in the order of their starts.

        Of a block that grows that is every worker; else those whom a fault of the plan concerns.
        """
        return tuple(self._lives)

    def add(self, fault: Fault) -> None:
        """Add a fault, also for children that run already; for a block that grows.

        It counts from now on: `after` the seconds of a life that is in progress, and so on. So
        `crash(path, error)` strikes what is awaited right now. Call it from outside of the child
        that it is to hit.

        Args:
            fault: The fault; any but a jump of the clock.

        Raises:
            InvalidSpec: If it is no fault, or a jump of the clock.
            RuntimeError: If the block does not grow, or is not entered.
        """
        check_kind("Injected.add", "fault", fault, Fault, "what a function of `faults` returns")
        if fault.kind == "clock_jump":
            refuse("Injected.add", "fault", fault, "any other; MockClock.jump() is at hand")
        if not self.growing or not self.open:
            raise RuntimeError("Injected.add(): needs the inside of `plan.active(growing=True)`")
        self._faults.append(fault)
        number = len(self._faults) - 1
        for process, life in tuple(self._lives.items()):
            if matches(fault.path, process.path):
                life.arm(self._armed_for(number, process.path))

    def __enter__(self) -> Self:
        """Let the plan hold for every tree that is started from here on, inside the block."""
        if self.open or self._token is not None:
            raise RuntimeError("FaultPlan.active(): enter it once; each block is another")
        self.open = True
        outer = INTERPOSER.get(None)
        self._token = INTERPOSER.set(partial(TreeFaults, self, outer))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Inject nothing any more, and let go of whom a fault keeps alive."""
        self.open = False
        assert self._token is not None  # noqa: S101 - the block was entered
        with suppress(ValueError):  # a fixture may be left in another context than entered
            INTERPOSER.reset(self._token)
        while self._undo:
            self._undo.pop()()

    # --- for the trees ---------------------------------------------------------------------------

    def note(self, number: int, hit: Hit) -> None:
        """Note that the fault with this `number` was injected."""
        self._struck.add(number)
        self._hits.append(hit)

    def finally_do(self, undo: Callable[[], object]) -> None:
        """Call `undo` when the block is left."""
        self._undo.append(undo)

    def arm(self, path: str) -> list[Armed]:
        """Return the faults that concern the child at `path`, in the plan's order."""
        found: list[Armed] = []
        if not self.open:
            return found
        for number, fault in enumerate(self._faults):
            if fault.kind != "clock_jump" and matches(fault.path, path):
                found.append(self._armed_for(number, path))
        return found

    def _armed_for(self, number: int, path: str) -> Armed:
        key = (number, path)
        if key not in self._armed:
            self._armed[key] = Armed(number, self._faults[number], self)
        return self._armed[key]

    def begins(self, process: LiveProcess, life: FaultyLife) -> None:
        """Note a life that is subject to faults."""
        self._lives[process] = life
        process.on_exit(self._ended)

    def life_of(self, process: LiveProcess) -> FaultyLife | None:
        """Return the life of `process`, if it is subject to faults and has not ended."""
        return self._lives.get(process)

    def _ended(self, process: Process, _reason: object) -> None:
        del self._lives[live_of(process)]

    def set_jumps(self, tree: Tree) -> None:
        """Plan the jumps of the clock, when the first tree is started."""
        if self._jumps_set:
            return
        for number, fault in enumerate(self._faults):
            if fault.kind == "clock_jump":
                try:
                    clock = MockClock.current()
                except RuntimeError as error:
                    msg = f"{fault!r} needs a MockClock, and the loop is {tree.loop!r}"
                    raise FaultImpossible(msg) from error
                timer = tree.call_later(fault.after or 0.0, self._jump, number, clock)
                self.finally_do(timer.cancel)
        self._jumps_set = True

    def _jump(self, number: int, clock: MockClock) -> None:
        fault = self._faults[number]
        clock.jump(fault.seconds)
        self.note(number, Hit(clock.now, "", 0, fault))

    def processes(self, loop: asyncio.AbstractEventLoop) -> ChildProcesses:
        """Return the account of the operating system's processes that are started on `loop`."""
        if loop not in self._processes:
            self._processes[loop] = ChildProcesses.of(loop)
            self.finally_do(self._processes[loop].forget)
        return self._processes[loop]


@final
class TreeFaults:
    """Stands between the supervisors of one tree and their workers."""

    def __init__(
        self, block: Injected, outer: Callable[[Tree], Interposer] | None, tree: Tree
    ) -> None:
        """Stand there for `block`, inside of what an `outer` block puts there."""
        self._block = block
        self._outer = None if outer is None else outer(tree)
        if block.open:
            block.set_jumps(tree)
        if block.open and block.growing:
            block.processes(tree.loop)  # a kill may be added when its process runs already

    def around(self, process: LiveProcess, body: Body) -> Body:
        """Return what `process` runs: `body`, subject to the faults that concern it."""
        if self._outer is not None:
            body = self._outer.around(process, body)
        armed = self._block.arm(process.path)
        if not armed and not (self._block.open and self._block.growing):
            return body
        life = FaultyLife(process, body, armed)
        self._block.begins(process, life)
        return life.begin

    def lets_cancel(self, process: LiveProcess) -> bool:
        """Whether no fault keeps a cancellation by its supervisor from `process`."""
        life = self._block.life_of(process)
        if life is not None and life.ignores_cancellation():
            return False
        return self._outer is None or self._outer.lets_cancel(process)
