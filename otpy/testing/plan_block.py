"""The counts of an active plan: its faults, armed for each path, and their hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

from otpy.errors import OtpyError
from otpy.testing.child_processes import ChildProcesses
from otpy.testing.clock import MockClock
from otpy.testing.faults import Fault
from otpy.testing.path_pattern import matches

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Tree


class FaultImpossible(OtpyError, RuntimeError):
    """A plan asks for a fault that this event loop cannot inject; raised by `otpy.start`."""


class Hit(NamedTuple):
    """One fault that was injected.

    Attributes:
        time: When, in seconds of the event loop's clock.
        path: The child that it hit; empty for a jump of the clock.
        incarnation: Which of its lives, from 1; 0 for a jump of the clock.
        fault: The injected fault.
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

    def __init__(self, number: int, fault: Fault, block: Block) -> None:
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
class Kill:
    """One planned kill of what one process has started."""

    def __init__(self, armed: Armed, process: LiveProcess) -> None:
        """Wait for its time."""
        self._armed = armed
        self._process = process
        self._due = False
        self._processes = armed.block.processes(process.parent.tree.loop)
        self._processes.tell(process, self._try)

    def time_has_come(self) -> None:
        """Kill what runs, or else the next to be started."""
        self._due = True
        self._try()

    def _try(self) -> None:
        if self._due and self._armed.live and self._processes.kill(self._process):
            self._due = False
            self._armed.hit(self._process)


@final
class Block:
    """A plan at work, from the begin of its `with` block to the end.

    Attributes:
        open: Whether the block is entered and not left.
        growing: Whether faults may be added.
        faults: Those of the plan, in its order, followed by the added ones.
        hits: The faults injected so far, in order.
        struck: Numbers of the faults that have hit.
    """

    def __init__(self, faults: tuple[Fault, ...], *, growing: bool) -> None:
        """Hold `faults`; nothing is open yet."""
        self.open = False
        self.growing = growing
        self.faults = list(faults)
        self.hits: list[Hit] = []
        self.struck: set[int] = set()
        self._armed: dict[tuple[int, str], Armed] = {}
        self._undo: list[Callable[[], object]] = []
        self._jumps_set = False
        self._processes: dict[asyncio.AbstractEventLoop, ChildProcesses] = {}

    def note(self, number: int, hit: Hit) -> None:
        """Note that the fault with this `number` was injected."""
        self.struck.add(number)
        self.hits.append(hit)

    def finally_do(self, undo: Callable[[], object]) -> None:
        """Call `undo` when the block is left."""
        self._undo.append(undo)

    def close(self) -> None:
        """Stop injecting, and release children that a fault keeps alive."""
        self.open = False
        while self._undo:
            self._undo.pop()()

    def arm(self, path: str) -> list[Armed]:
        """Return the faults that concern the child at `path`, in the plan's order."""
        if not self.open:
            return []
        return [
            self.armed_for(number, path)
            for number, fault in enumerate(self.faults)
            if fault.kind != "clock_jump" and matches(fault.path, path)
        ]

    def armed_for(self, number: int, path: str) -> Armed:
        """Return the fault with this `number`, as it counts for the child at `path`."""
        key = (number, path)
        if key not in self._armed:
            self._armed[key] = Armed(number, self.faults[number], self)
        return self._armed[key]

    def set_jumps(self, tree: Tree) -> None:
        """Plan the jumps of the clock, when the first tree is started."""
        if self._jumps_set:
            return
        for number, fault in enumerate(self.faults):
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
        fault = self.faults[number]
        clock.jump(fault.seconds)
        self.note(number, Hit(clock.now, "", 0, fault))

    def processes(self, loop: asyncio.AbstractEventLoop) -> ChildProcesses:
        """Return the account of the operating system's processes that are started on `loop`."""
        if loop not in self._processes:
            self._processes[loop] = ChildProcesses.of(loop)
            self.finally_do(self._processes[loop].forget)
        return self._processes[loop]
