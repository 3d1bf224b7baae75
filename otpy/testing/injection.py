"""The `with` block of a plan, and how it reaches the trees that are started inside."""

from __future__ import annotations

from contextlib import suppress
from contextvars import Token
from functools import partial
from typing import TYPE_CHECKING, Self, final

from otpy._core.checks import check_kind, refuse
from otpy._runtime.process import live_of
from otpy._runtime.tree import INTERPOSER
from otpy.testing.faults import Fault
from otpy.testing.faulty_life import FaultyLife
from otpy.testing.path_pattern import matches
from otpy.testing.plan_block import Block

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from otpy._runtime.handles import Process
    from otpy._runtime.process import LiveProcess
    from otpy._runtime.tree import Body, Interposer, Tree
    from otpy.testing.plan_block import Hit


@final
class Injected:
    """The `with` block of an active plan, and the injected faults."""

    def __init__(self, faults: tuple[Fault, ...], *, growing: bool = False) -> None:
        """Describe the block; for `FaultPlan.active`."""
        self._block = Block(faults, growing=growing)
        self._lives: dict[LiveProcess, FaultyLife] = {}
        self._token: Token[Callable[[Tree], Interposer]] | None = None

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The faults injected so far, in order."""
        return tuple(self._block.hits)

    @property
    def missed(self) -> tuple[Fault, ...]:
        """The faults that have not hit yet, in the plan's order."""
        block = self._block
        return tuple(f for number, f in enumerate(block.faults) if number not in block.struck)

    @property
    def workers(self) -> tuple[Process, ...]:
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
            InvalidSpec: If it is not a fault, or a jump of the clock.
            RuntimeError: If the block does not grow, or is not entered.
        """
        check_kind("Injected.add", "fault", fault, Fault, "what a function of `faults` returns")
        if fault.kind == "clock_jump":
            refuse("Injected.add", "fault", fault, "any other; MockClock.jump() is at hand")
        block = self._block
        if not block.growing or not block.open:
            raise RuntimeError("Injected.add(): needs the inside of `plan.active(growing=True)`")
        block.faults.append(fault)
        number = len(block.faults) - 1
        for process, life in tuple(self._lives.items()):
            if matches(fault.path, process.path):
                life.arm(block.armed_for(number, process.path))

    def __enter__(self) -> Self:
        """Let the plan hold for every tree that is started from here on, inside the block."""
        if self._block.open or self._token is not None:
            raise RuntimeError("FaultPlan.active(): enter it once; each block is another")
        self._block.open = True
        outer = INTERPOSER.get(None)
        self._token = INTERPOSER.set(partial(TreeFaults, self._block, self._lives, outer))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop injecting, and release children that a fault keeps alive."""
        assert self._token is not None  # noqa: S101 - the block was entered
        with suppress(ValueError):  # a fixture may be left in another context than entered
            INTERPOSER.reset(self._token)
        self._block.close()


@final
class TreeFaults:
    """Stands between the supervisors of one tree and their workers."""

    def __init__(
        self,
        block: Block,
        lives: dict[LiveProcess, FaultyLife],
        outer: Callable[[Tree], Interposer] | None,
        tree: Tree,
    ) -> None:
        """Inject the faults of `block` into a tree, inside the interposer of an `outer` block.

        Args:
            block: The plan at work.
            lives: Those that are subject to its faults, which are listed here.
            outer: Makes the interposer of an outer block.
            tree: The tree.
        """
        self._block = block
        self._lives = lives
        self._outer = None if outer is None else outer(tree)
        if block.open:
            block.set_jumps(tree)
        if block.open and block.growing:
            block.processes(tree.loop)  # a kill may be added when its process runs already

    def around(self, process: Process, body: Body) -> Body:
        """Return what `process` runs: `body`, subject to the faults that concern it."""
        if self._outer is not None:
            body = self._outer.around(process, body)
        armed = self._block.arm(process.path)
        if not armed and not (self._block.open and self._block.growing):
            return body
        life = self._lives[live_of(process)] = FaultyLife(live_of(process), body, armed)
        process.on_exit(self._ended)
        return life.begin

    def lets_cancel(self, process: Process) -> bool:
        """Whether no fault keeps a cancellation by its supervisor from `process`."""
        life = self._lives.get(live_of(process))
        if life is not None and life.ignores_cancellation():
            return False
        return self._outer is None or self._outer.lets_cancel(process)

    def _ended(self, process: Process, _reason: object) -> None:
        del self._lives[live_of(process)]
