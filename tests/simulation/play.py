"""One seed: it decides a tree, its faults, its users and its end."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from otpy import Normal, SupervisorFailed
from otpy._runtime.root import RunningTree
from otpy._runtime.shells import shell_of
from otpy._runtime.tree import INTERPOSER
from otpy.testing import Simulation, simulate
from otpy.testing.promises import (
    PromiseBroken,
    check_lives,
    check_nothing_left,
    check_silence,
)
from otpy.testing.simulated_loop import SimulatedLoop
from otpy.testing.stop_bound import StopBound
from tests.simulation.histories import Histories
from tests.simulation.ledger import UNBEGUN, Ledger
from tests.simulation.quiet_log import QuietLog
from tests.simulation.rogues import Rogue
from tests.simulation.trees import Draft, drawn_plan
from tests.simulation.users import User

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor

ENDS = ["leave", "leave", "leave", "time", "step", "step", "step", "cancel", "cancel", "kill"]


class Stepper:
    """A stand-in for a loop's schedule that acts once between two steps."""

    def __init__(self, loop: SimulatedLoop, at: int, do: Callable[[], object]) -> None:
        self._loop, self._schedule = loop, loop.schedule
        self._left = at
        self._do = do
        self.append = loop.schedule.append
        self.clear = loop.schedule.clear
        loop._ready = self

    def popleft(self) -> asyncio.Handle:
        """Return the next handle."""
        self._left -= 1
        if not self._left:
            self._loop._ready = self._schedule
            self._do()
        return self._schedule.popleft()

    def __len__(self) -> int:
        return len(self._schedule)


class Play:
    """The run of one seed.

    Args:
        seed: The seed.

    Attributes:
        heard: Whether the reports have a listener. Without one, histories are not checked, and otpy
            decides in shorter ways.
        asked: The number of requests of users.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.heard = True
        draft = Draft(rng)
        self.spec = draft.root()
        self.plan = drawn_plan(rng, self.spec)
        self.way = rng.choice(ENDS)
        self.when = rng.choice([rng.uniform(0, 3), 0.0, 0.5, 1.0])
        self.step = int(math.exp(rng.uniform(0, math.log(400))))
        self.users = [(rng.random(), rng.randint(2, 5)) for _ in range(rng.randint(1, 3))]
        odd = rng.random()
        self.hooks = [Rogue(rng, exits=True) for _ in range(odd < 0.2)]
        self.callbacks = [Rogue(rng, exits=True) for _ in range(0.1 < odd < 0.3)]
        self.listeners = draft.rogues
        self.logs = rng.random() < 0.1
        self.asked = 0
        self._raised: BaseException | None = None
        self._stop_began = math.inf
        self._cancelled = False
        self._running: Any
        self._ledger: Ledger
        self._histories: Histories
        self._host: asyncio.Task[None]
        self._users: list[asyncio.Task[None]]

    def __call__(self) -> Simulation:
        """Run the seed.

        Raises:
            SimulationFailed: A promise did not hold.
        """
        alone = self.logs or any(hook.asks or hook.exits for hook in self.hooks)
        twin = self.heard and self.seed % 3 == 0 and not alone
        check = self._compare_with_one_unheard if twin else None
        try:
            return simulate(self._live, seed=self.seed, faults=self.plan, check=check)
        finally:
            self._forget()

    def _forget(self) -> None:
        """Release all objects of a run, so that the collector has less to search."""
        for life in self._ledger.lives.values():
            life.body = UNBEGUN  # an error has frames that refer to this object
        for holder in (self._ledger.desk, self._ledger.signals, self._histories, self._ledger):
            vars(holder).clear()
        del self._ledger, self._histories, self._running, self._host, self._users

    def _compare_with_one_unheard(self, heard: Simulation) -> None:
        """Check that the same happens, in the same order, without a listener."""
        self.heard = False
        try:
            twin = _steps(simulate(self._live, seed=self.seed, faults=heard.faults))
        finally:
            self.heard = True
        steps = _steps(heard)
        if steps != twin:
            pairs = zip(steps, twin, strict=False)
            at = next((n for n, (one, other) in enumerate(pairs) if one != other), -1)
            message = f"unheard, {twin[at:][:9]} in place of {steps[at:][:9]}, step {at}"
            raise PromiseBroken(message)

    async def _live(self) -> None:
        log = QuietLog()
        with log.attached() if self.logs else nullcontext():
            await self._play()
        if self.logs and not (log.entries == len(self._ledger.reports) and not log.lost):
            told = f"{log.entries} of {len(self._ledger.reports)} reports, and {log.lost}"
            raise PromiseBroken(f"the log has {told}")

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.horizon = 10_000.0
        unheard: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: unheard.append(context))
        self._ledger = ledger = Ledger(self.plan, loop)
        self._histories = histories = Histories(ledger)
        INTERPOSER.set(ledger.put_around(INTERPOSER.get()))
        ledger.begin = histories.begins if self.heard else ledger.enter
        ledger.attendants, ledger.stops = self.callbacks, self._stopping
        for rogue in (*self.hooks, *self.callbacks, *self.listeners):
            rogue.enter(ledger)
        hear: list[Any] = [histories.hear] if self.heard else []
        first, last = (self.hooks, []) if self.seed % 2 else ([], self.hooks)
        running = RunningTree(self.spec, None if self.logs else ())
        running._hooks[:0] = [*first, *hear]
        running._hooks += last
        self._running = running
        self._stop_began, self._cancelled, self._raised = math.inf, False, None
        self._host = asyncio.create_task(self._be_host(), name="host")
        users = [User(seed, ledger) for seed, _ in self.users]
        self._users = [
            asyncio.create_task(self._use(user, times), name=f"user{n}")
            for n, (user, (_, times)) in enumerate(zip(users, self.users, strict=True))
        ]
        inspector = asyncio.create_task(self._inspect(), name="inspector")
        if self.way in ("step", "kill", "cancel"):
            Stepper(loop, self.step, self._end)
        await asyncio.wait([self._host])
        await asyncio.gather(*self._users, inspector)
        for errand in ledger.errands:  # which may lead to more errands
            await errand
        self.asked = sum(user.asked for user in users)
        try:
            if self.logs:  # the log sums up entries after the end of the tree
                await asyncio.sleep(1)
            await loop.until_idle()
            self._check(loop, unheard)
        finally:
            await ledger.let_go()

    async def _be_host(self) -> None:
        """Run the tree, and leave the block at its time."""
        try:
            async with self._running as root:
                if self.way == "leave":
                    await asyncio.wait(self._users, timeout=2 + self.when)
                    await self._look()
                elif self.way == "time":
                    await asyncio.sleep(self.when)
                else:  # or sooner: `_end`
                    await asyncio.wait([asyncio.ensure_future(root.wait())], timeout=4)
                self._stopping()
        except SupervisorFailed:
            pass
        except (SystemExit, KeyboardInterrupt) as error:
            self._raised = error
        now, bound = asyncio.get_running_loop().time(), self._ledger.bound
        limit = self._stop_began + (bound.seconds if bound is not None else 0.0)
        limit += self._ledger.rest
        in_time = now <= limit + 1e-9  # sums of the same numbers may differ a little
        self._ledger.expect(in_time, "the stop took until {}, longer than {}", now, limit)

    async def _use(self, user: User, times: int) -> None:
        while self._running.root is None:
            await asyncio.sleep(0)
            if self._host.done():
                return
        await user.use(self._running.root, times)

    async def _inspect(self) -> None:
        for seconds in (self.when / 2, 1.0):
            await asyncio.sleep(seconds)
            await self._look()

    async def _look(self) -> None:
        root = self._running.root
        if root is not None and not root.ended:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulatedLoop)
            while True:
                await loop.until_idle()
                if not loop.schedule:  # otherwise another waiter was woken before this one
                    break
            if self.heard:
                self._histories.check_rest()
            await self._histories.check_tables()

    def _stopping(self) -> None:
        """Record that a stop begins now."""
        root: AnySupervisor | None = self._running.root
        if root is not None and not root.ended and self._ledger.bound is None:
            self._ledger.office(shell_of(root)).told = True
            self._ledger.bound = StopBound(root)
            self._stop_began = asyncio.get_running_loop().time()

    def _end(self) -> None:
        """Stop the tree between two steps, in the way of this seed."""
        root: AnySupervisor | None = self._running.root
        if self._host.done():
            return
        self._stopping()
        if self.way == "cancel":
            self._cancelled = self._host.cancel()
        elif root is not None:
            shell_of(root).shut_down(Normal())
            if self.way == "kill":
                self._ledger.killed[None] = 0.0
                asyncio.get_running_loop().call_soon(partial(root.kill, grace=self.seed % 2))

    def _check(self, loop: SimulatedLoop, unheard: list[dict[str, Any]]) -> None:
        ledger, root = self._ledger, self._running.root
        if ledger.exits:
            ledger.expect(self._raised is ledger.exits[0], "{} raised", ledger.exits)
        elif self._cancelled:
            ledger.expect(self._host.cancelled(), "the cancellation of the host was lost")
        if not self._host.cancelled():
            self._host.result()
        if root is not None:
            if self.heard:
                self._histories.check_end()
            left = [t for t in loop._scheduled if not t.cancelled() and _is_ours(t)]
            ledger.expect(not left, "timers are left: {}", left)
            ledger.check_strays(math.inf)
        if ledger.broken:
            raise PromiseBroken("\n".join(ledger.broken[:5]))
        if root is not None:
            named = {process.path for process in root.abandoned}
            check_nothing_left({"stray", *named})
        check_lives(ledger.reports)
        for hook in self.hooks if not self.heard else ():
            told = [context for context in unheard if context.get("exception") is hook.failure]
            if hook.failure is not None and len(told) != 1:
                raise PromiseBroken(f"the end of a hook was told {len(told)} times")
            unheard = [context for context in unheard if context not in told]
        check_silence(unheard)


def _steps(simulation: Simulation) -> list[tuple[float, str]]:
    """Return the steps and their times (seconds), except those of the host and of timers.

    Hooks keep a crash alive until they get its report. So a timer, or the host at the end, may look
    once more for left-over tasks of a child. The main task waits for the host: its steps keep only
    their times, and come after all others of the same moment.
    """
    steps: list[tuple[float, str]] = []
    now = 0.0
    for entry in simulation.record:
        if isinstance(entry, float):
            now = entry
        elif isinstance(entry, str) and entry.partition(".")[0] != "host":
            steps.append((now, entry))
    return sorted(steps, key=lambda step: (step[0], step[1] == "main"))


def _is_ours(timer: asyncio.TimerHandle) -> bool:
    callback: Any = timer._callback  # type: ignore[attr-defined]
    return str(getattr(callback, "__module__", "")).startswith(("otpy._", "otpy.behaviours"))
