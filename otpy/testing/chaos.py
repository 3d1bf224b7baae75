"""Shaking a live tree: strikes at its workers, drawn at random, in the tree's own time."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

from attrs import field, frozen

from otpy._core.checks import check_number, refuse
from otpy._core.reason import Normal
from otpy._runtime.process import LiveProcess, live_of
from otpy._runtime.root import RunningTree
from otpy.testing.chaos_log import PATIENCE, ChaosLog, Strike
from otpy.testing.chaos_report import ChaosReport
from otpy.testing.fault_plan import FaultPlan
from otpy.testing.path_pattern import matches
from otpy.testing.strikes import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otpy._core.spec import DynamicSpec, SupervisorSpec
    from otpy._runtime.shells import AnyShell
    from otpy.reports import ReportHook
    from otpy.testing.injection import Injected

_POLL = 0.05  # seconds between two looks at a tree that is settling


@final
@frozen(kw_only=True)
class ChaosSettings:
    """How a tree is to be shaken.

    Attributes:
        rate: Strikes in a second; above 0.
        seconds: How long; at least the time of one strike.
        seed: What chance comes from. The same seed draws the same moments and, as long as the same
            workers run at these moments, the same strikes.
        settle: Seconds the tree has afterwards, at most, until everything runs that should.
        only: Patterns of paths; a worker that matches none of them is left alone. Without any, all
            may be struck.
        without: Patterns of the paths of workers that are left alone in any case.
        kinds: Names of the kinds of strikes.

    Raises:
        InvalidSpec: If one of them can never work.
    """

    rate: float = 1.0
    seconds: float = 30.0
    seed: int = field(factory=lambda: random.randrange(2**32))
    settle: float = 10.0
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    kinds: Sequence[str] = tuple(KINDS)

    def __attrs_post_init__(self) -> None:
        """Refuse what can never work."""
        for name in ("rate", "seconds", "settle"):
            wanted, got = "a number above 0, and finite", getattr(self, name)
            check_number("chaos", name, got, wanted, least=0, above=True)
            if math.isinf(got):
                refuse("chaos", name, got, wanted)
        if self.rate * self.seconds < 1:
            wanted = f"at least {1 / self.rate:g}, the time of one strike at rate {self.rate:g}"
            refuse("chaos", "seconds", self.seconds, wanted)
        for pattern in (*self.only, *self.without):
            if not all(pattern.split("/")):
                refuse("chaos", "pattern", pattern, "ids joined by '/', such as 'app/db' or '**'")
        for kind in self.kinds:
            if kind not in KINDS:
                refuse("chaos", "kind", kind, f"one of {', '.join(KINDS)}")
        if not self.kinds:
            refuse("chaos", "kinds", self.kinds, "at least one")

    def allows(self, path: str) -> bool:
        """Whether the worker at `path` may be struck."""
        chosen = not self.only or any(matches(pattern, path) for pattern in self.only)
        return chosen and not any(matches(pattern, path) for pattern in self.without)


@final
class Chaos:
    """One tree, and the shaking of it."""

    def __init__(
        self,
        spec: SupervisorSpec | DynamicSpec,
        settings: ChaosSettings,
        *,
        hooks: Iterable[ReportHook],
        say: Callable[[float, str], object],
    ) -> None:
        """Describe it; nothing is started yet.

        Args:
            spec: The tree.
            settings: How to shake it.
            hooks: More receivers of the tree's reports.
            say: Takes what happens, as seconds since the shaking began and a line of text.
        """
        self._spec = spec
        self._settings = settings
        self._log = ChaosLog(say)
        self._hooks: list[ReportHook] = [*hooks, self._log]
        self._injected: Injected = FaultPlan().active(growing=True)
        self._seconds: float | None = None

    @asynccontextmanager
    async def tree(self) -> AsyncGenerator[AnyShell]:
        """Run the tree and shake it, for the length of an `async with` block; once.

        Yields the root when the tree has been started. When it has been shaken, and has had its
        time to settle, it is stopped: `await root.wait()` in the block waits for that.
        """
        with self._injected:
            async with RunningTree(self._spec, self._hooks) as root:
                shaking = asyncio.create_task(self._shake(root), name="otpy.chaos")
                try:
                    yield root
                finally:
                    shaking.cancel()
                    await asyncio.wait([shaking])
                    self._seconds = root.tree.loop.time() - self._log.began
                    if not shaking.cancelled():
                        shaking.result()

    def report(self) -> ChaosReport | None:
        """Return the report of the shaken tree; None if it was never started."""
        if self._seconds is None:
            return None
        seconds = min(self._seconds, self._settings.seconds)
        return ChaosReport.of(self._log, self._settings.seed, seconds)

    async def _shake(self, root: AnyShell) -> None:
        settings, loop = self._settings, root.tree.loop
        self._log.begin(root.path, loop.time())
        try:
            for number in range(math.floor(settings.rate * settings.seconds)):
                # Chance of its own for each: what one strike finds changes none of the others.
                rng = random.Random(f"{settings.seed}:{number}")
                await self._until((number + rng.random()) / settings.rate, loop)
                self._strike(rng, root)
            await self._until(settings.seconds, loop)
            await self._settle(root)
        finally:  # also on a failure here: nothing else would ever stop the tree
            root.shut_down(Normal())

    async def _until(self, moment: float, loop: asyncio.AbstractEventLoop) -> None:
        await asyncio.sleep(max(0.0, self._log.began + moment - loop.time()))

    async def _settle(self, root: AnyShell) -> None:
        loop = root.tree.loop
        deadline = loop.time() + self._settings.settle
        while self._log.open or self._log.missing(root.snapshot()):
            if loop.time() >= deadline:
                break
            await asyncio.sleep(_POLL)
        if not root.ended:
            self._log.finish(self._log.missing(root.snapshot()), loop.time())

    def _strike(self, rng: random.Random, root: AnyShell) -> None:
        targets = sorted(self._targets(root), key=lambda target: target[0].path)
        if not targets:
            return
        process, kinds = rng.choice(targets)
        kind = rng.choice(kinds)
        loop = root.tree.loop
        strike = Strike(loop.time() - self._log.began, process, kind)
        self._log.struck(strike)
        root.tree.call_later(PATIENCE, self._log.look_again, strike)
        KINDS[kind].strike(process, rng, self._injected)

    def _targets(self, root: AnyShell) -> list[tuple[LiveProcess, list[str]]]:
        """Return the workers that may be struck now, and how; not those struck and not back."""
        return [
            (process, kinds)
            for process in map(live_of, self._injected.workers)
            if process.root is root and process.ready and process.runs and not process.ending
            if self._settings.allows(process.path) and not self._log.is_open(process.path)
            if (
                kinds := [
                    k for k in self._settings.kinds if KINDS[k].suits(process, self._injected)
                ]
            )
        ]
