"""A plan at work: which trees it holds for, what it has counted, and what it did."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

from otpy._runtime.interpose import INTERPOSER
from otpy.errors import OtpyError
from otpy.testing.child_processes import ChildProcesses
from otpy.testing.clock import MockClock
from otpy.testing.faulty_life import FaultyLife
from otpy.testing.path_pattern import matches

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import TracebackType

    from otpy._runtime.interpose import Body, Interposer
    from otpy._runtime.process import Process
    from otpy._runtime.tree import Tree
    from otpy.testing.faults import Fault


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

    def strikes(self, process: Process) -> bool:
        """Count a start, a stop or a clean-up of its path; whether it is hit."""
        self._seen += 1
        if self._seen < self.fault.nth or not self.live:
            return False
        self.hit(process)
        return True

    def hit(self, process: Process) -> None:
        """Note that it hit `process`."""
        self._hits += 1
        time = process.parent.tree.loop.time()
        self.block.note(self._number, Hit(time, process.path, process.incarnation, self.fault))


@final
class Injected:
    """The `with` block of an active plan, and what was injected in it.

    Attributes:
        open: Whether the block is entered and not left.
    """

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        """Describe the block; for `FaultPlan.active`."""
        self.open = False
        self._faults = faults
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
                key = (number, path)
                if key not in self._armed:
                    self._armed[key] = Armed(number, fault, self)
                found.append(self._armed[key])
        return found

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
        self._lives: dict[Process, FaultyLife] = {}
        if block.open:
            block.set_jumps(tree)

    def around(self, process: Process, body: Body) -> Body:
        """Return what `process` runs: `body`, subject to the faults that concern it."""
        if self._outer is not None:
            body = self._outer.around(process, body)
        armed = self._block.arm(process.path)
        if not armed:
            return body
        life = self._lives[process] = FaultyLife(process, body, armed)
        process.on_exit(self._ended)
        return life.begin

    def _ended(self, process: Process, _reason: Any) -> None:
        del self._lives[process]

    def lets_cancel(self, process: Process) -> bool:
        """Whether no fault keeps a cancellation by its supervisor from `process`."""
        life = self._lives.get(process)
        if life is not None and life.ignores_cancellation():
            return False
        return self._outer is None or self._outer.lets_cancel(process)
