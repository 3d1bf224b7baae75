"""`FaultPlan`: which faults there are to be, as one value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast, final

from attrs import field, frozen

from otpy._core.checks import check_kind, check_number, refuse
from otpy.testing import faults as kinds
from otpy.testing.faults import Fault
from otpy.testing.injection import Injected

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


def _tuple(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Copy a collection; return another value as it is, to be refused by name."""
    return tuple(faults) if isinstance(faults, Iterable) else cast("tuple[Fault, ...]", faults)


@final
@frozen(repr=False)
class FaultPlan:
    """Faults to be injected into trees, whose code knows nothing of it.

    A plan is a value: it keeps no account of what it did, and may be used again and again. Where
    `FaultPlan`, `faults` and the plan's exceptions are known, evaluating its `repr` gives an equal
    plan: a plan that was drawn at random and found a bug is printed, and replayed from the text.

    ```python
    plan = FaultPlan([faults.crash("app/db", OSError("no contact"), at="start", nth=2)])
    with plan.active() as injected:
        async with otpy.start(tree) as root:
            ...
    assert not injected.missed
    ```

    Attributes:
        faults: The faults. Of several at one point, those that stand first come first.
    """

    faults: tuple[Fault, ...] = field(default=(), converter=_tuple)

    def __attrs_post_init__(self) -> None:
        """Refuse a value that is not a fault."""
        check_kind("FaultPlan", "faults", self.faults, tuple, "a collection of faults")
        for fault in self.faults:
            check_kind("FaultPlan", "fault", fault, Fault, "what a function of `faults` returns")

    def __repr__(self) -> str:
        """Return Python text, one line per fault."""
        if not self.faults:
            return "FaultPlan([])"
        lines = "".join(f"    {fault!r},\n" for fault in self.faults)
        return f"FaultPlan([\n{lines}])"

    def active(self, *, growing: bool = False) -> Injected:
        """Return a `with` block; the trees that are started inside are subject to the plan.

        Every tree that its body, or a task it starts, starts by `otpy.start` or `otpy.run`, however
        deep in code that knows nothing of it; no other tree, before, after or beside it. When the
        block is left, nothing more is injected. Blocks may be nested: all their plans hold.

        Each block starts its counts at zero.

        Args:
            growing: Whether faults may be added while the trees run (`Injected.add`). Every worker
                is then driven from its first step on, those included that no fault concerns yet.
        """
        return Injected(self.faults, growing=growing)

    @classmethod
    def random(
        cls, rng: random.Random, paths: Sequence[str], *, faults: int, within: float
    ) -> FaultPlan:
        """Draw a plan; the same `rng` state and arguments give the same plan.

        Drawn are faults that can hit a child of any kind and that do not keep a tree from starting:
        all of this module but a hang at the start, crashes on messages, kills of processes and
        jumps of the clock.

        Args:
            rng: Where chance comes from.
            paths: Whom to hit; each fault takes one of them.
            faults: How many; at least 0.
            within: Seconds of a life in which timed faults strike; above 0. Times are rounded to
                milliseconds.

        Raises:
            InvalidSpec: If an argument can never work.
        """
        who = "FaultPlan.random"
        if isinstance(paths, str) or not isinstance(paths, Sequence) or not paths:
            refuse(who, "paths", paths, "at least one path")
        if not isinstance(faults, int) or isinstance(faults, bool) or faults < 0:
            refuse(who, "faults", faults, "a whole number of at least 0")
        wanted = "seconds above 0, and finite"
        check_number(who, "within", within, wanted, least=0, above=True)
        if within == math.inf:
            refuse(who, "within", within, wanted)
        return cls([_drawn(rng, rng.choice(paths), within) for _ in range(faults)])


def _drawn(rng: random.Random, path: str, within: float) -> Fault:
    after = round(rng.uniform(0, within), 3)
    nth, times = rng.randint(1, 3), rng.randint(1, 3)
    error: BaseException = rng.choice(
        (
            RuntimeError("injected"),
            ConnectionResetError("injected"),
            TimeoutError("injected"),
            SystemExit(1),
            ExceptionGroup("injected", [ValueError("a"), OSError("b")]),
        )
    )
    draw: Callable[[], Fault] = rng.choice(
        (
            lambda: kinds.crash(path, error, at="start", nth=nth, times=times),
            lambda: kinds.crash(path, error, nth=nth, times=times),
            lambda: kinds.crash(path, error, after=after, times=times),
            lambda: kinds.crash(path, error, at="cleanup", nth=nth, times=times),
            lambda: kinds.hang(path, nth=nth, times=times),
            lambda: kinds.slow_ready(path, max(after, 0.001), nth=nth, times=times),
            lambda: kinds.ignore_cancellation(path, nth=nth, times=times),
            lambda: kinds.return_early(path, after=after, times=times),
            lambda: kinds.cancel(path, after=after, times=times),
        )
    )
    return draw()
