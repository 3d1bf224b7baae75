"""Users of a random tree, who make random requests."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import evolve

from otpy import (
    DynamicSupervisor,
    OtpyError,
    PartitionSupervisor,
    Process,
    Shutdown,
    Strategy,
    Supervisor,
    SupervisorSpec,
    TaskSupervisor,
)
from otpy._runtime.process import live_of
from otpy._runtime.shells import shell_of
from otpy.errors import NotFound, NotRunning
from tests.simulation.children import PLAIN, SIGNALLING, double, drawn_worker
from tests.simulation.ledger import Ledger, supervisors

if TYPE_CHECKING:
    from otpy._runtime.handles import AnySupervisor

_BY_HAND = 1000  # more than any number of resizes

_SIGNALS = ("end", "end", "post")
_ANYWHERE = (
    *("end", "end", "watch", "link", "wait", "stop", "look", "start", "start", "retry", "retry"),
    *("terminate", "terminate"),
)
_STATIC = ("restart", "restart", "delete", "reconfigure", "partitions")
_DYNAMIC = ("bury",)


class User:
    """One user.

    Attributes:
        asked: The number of its requests.
    """

    def __init__(self, seed: float, ledger: Ledger) -> None:
        self.rng = random.Random(seed)
        self.ledger = ledger
        self.asked = 0

    async def use(self, root: AnySupervisor, times: int) -> None:
        """Make a few requests, until the tree has ended."""
        rng = self.rng
        for _ in range(times):
            await asyncio.sleep(rng.choice([0, 0, 0.1, 0.3, 1, rng.uniform(0, 1)]))
            with suppress(OtpyError, TimeoutError):
                async with asyncio.timeout(rng.choice([None, None, 0, 0.01, 1])):
                    await self._ask(root, (*_ANYWHERE, "visit", "tasks"))

    async def errand(self, root: AnySupervisor) -> None:
        """Make one request, perhaps outside of a task."""
        with suppress(OtpyError, TimeoutError):
            await self._ask(root, (*_ANYWHERE, "post"))

    async def signal(self, root: AnySupervisor) -> None:
        """End a process or leave a message: do what has no reply."""
        with suppress(OtpyError):
            await self._ask(root, _SIGNALS, others=False)

    async def _ask(
        self, root: AnySupervisor, asks: tuple[str, ...], *, others: bool = True
    ) -> None:
        if root.ended:
            return
        on: Any = self.rng.choice([*supervisors(shell_of(root))])
        self.asked += 1
        table: Any = on._machine.children
        waiting = [key for key, child in table.items() if child.waits]
        key = self.rng.choice(waiting or [*table] or ["nobody"])
        if others:
            asks += _STATIC if isinstance(on, Supervisor) else _DYNAMIC
        ask: Callable[[AnySupervisor, str], Awaitable[object]]
        ask = getattr(self, f"_{self.rng.choice(asks)}")
        await ask(on, key)

    async def _terminate(self, on: AnySupervisor, key: str) -> None:
        self.ledger.touched.add(f"{on.path}/{key}")
        await on.terminate_child(key)

    async def _delete(self, on: Supervisor, key: str) -> None:
        self._touch(on, key)
        await on.delete_child(key)

    async def _restart(self, on: Supervisor, key: str) -> None:
        self._touch(on, key)
        await on.restart_child(key)

    def _touch(self, on: Supervisor, key: str) -> None:
        self.ledger.resized[on] += _BY_HAND  # it may be a partition
        self.ledger.touched.add(f"{on.path}/{key}")

    async def _retry(self, on: AnySupervisor, key: str) -> None:
        self.ledger.office(shell_of(on)).hurried = True
        await on.retry_now(key)

    async def _post(self, on: AnySupervisor, key: str) -> None:
        """Leave a message, whether a server is there or not."""
        process = on.child(key)
        self.ledger.desk.leave(process)

    async def _bury(self, on: DynamicSupervisor, _: str) -> None:
        """Terminate a process that has ended; no other may be terminated in its place."""
        dead = [p for p in self.ledger.lives if p.parent is on and not p.alive]
        if dead:
            with suppress(NotFound):
                await on.terminate_child(self.rng.choice(dead))
                self.ledger.expect(False, "somebody was terminated in place of {}", dead)

    async def _end(self, on: AnySupervisor, key: str) -> None:
        process: Process = on.child(key)
        if self.rng.random() < 0.4:
            self.ledger.killed.setdefault(process, self.ledger.loop.time())
            try:
                process.kill()
            except RecursionError:  # the kill may have worked, or not
                self.ledger.killed[process] = math.inf
                raise
        else:
            self.ledger.blamed.add(process)
            process.exit(self.rng.choice([None, Shutdown("by a user")]))

    async def _visit(self, on: AnySupervisor, key: str) -> None:
        process = on.child(key)
        if live_of(process).behaviour is not None:
            await self.ledger.desk.visit(process, self.rng)

    async def _watch(self, on: AnySupervisor, key: str) -> None:
        process = self.ledger.anyone_ever() if self.rng.random() < 0.3 else on.child(key)
        if process is None:
            return
        monitor = process.monitor()
        if self.rng.random() < 0.3:
            monitor.demonitor()
            return
        down = await monitor
        self.ledger.expect(down.reason is process.exit_reason, "{} was told as {}", process, down)

    async def _link(self, on: AnySupervisor, key: str) -> None:
        process, other = on.child(key), self.ledger.anybody(None)
        if other is not None:
            self.ledger.signals.link(process, other)
            if self.rng.random() < 0.3:
                self.ledger.signals.unlink(other, process)

    async def _wait(self, on: AnySupervisor, key: str) -> None:
        process = on.child(key)
        reason = await process.wait()
        self.ledger.expect(reason is process.exit_reason, "{} was told as {}", process, reason)
        with suppress(OtpyError):
            async with asyncio.timeout(1):
                later = await on.wait_for_restart(key, after=process.incarnation)
                self.ledger.expect(later is not process, "{} is its own successor", process)

    async def _stop(self, on: AnySupervisor, _: str) -> None:
        if self.rng.random() < 0.3:
            self.ledger.office(shell_of(on)).told = True
            await on.stop()
            self.ledger.expect(on.ended, "{} was stopped", on)

    async def _look(self, on: AnySupervisor, _: str) -> None:
        known = await on.which_children()
        counts = await on.count_children()
        self.ledger.expect(counts.specs >= 0 <= len(known), "a count below nothing")

    async def _start(self, on: AnySupervisor, _: str) -> None:
        rng = self.rng
        fresh = drawn_worker(rng, f"n{rng.randint(0, 3)}", [*PLAIN, *SIGNALLING])
        if isinstance(on, Supervisor):
            self.ledger.touched.add(f"{on.path}/{fresh.id}")
        try:
            process = await on.start_child(fresh)
        except (
            NotRunning
        ) as error:  # a caller whose start has begun gets the child, or the reason of its absence
            begun = [life for life in self.ledger.lives if life.spec is fresh]
            self.ledger.expect(not begun, "{} was started, and answered by {}", begun, error)
            raise
        if process is not None:
            self.ledger.expect(process.ready, "{} was handed out before it was ready", process)

    async def _reconfigure(self, on: Supervisor, _: str) -> None:
        rng, spec = self.rng, shell_of(on)._machine.spec
        children = [*spec.children]
        rng.shuffle(children)
        if children and rng.random() < 0.3:
            children.pop()
        changed: SupervisorSpec = evolve(
            spec, children=children, intensity=rng.randint(0, 9), strategy=rng.choice([*Strategy])
        )
        self.ledger.office(shell_of(on)).changed = True
        await on.reconfigure(changed)

    async def _partitions(self, on: Supervisor, _: str) -> None:
        try:
            parts = PartitionSupervisor(on)
        except TypeError:
            return
        for n in range(4):
            self.ledger.touched.add(f"{on.path}/{n}")
        number = self.rng.randint(0, 3)
        before = self.ledger.resized[on]
        self.ledger.resized[on] += 1
        strategies = {shell_of(on)._machine.spec.strategy}
        await parts.resize(number)
        strategies.add(shell_of(on)._machine.spec.strategy)  # a user may have changed it meanwhile
        alone = before < _BY_HAND and self.ledger.resized[on] == before + 1
        if alone and on.running and strategies == {Strategy.ONE_FOR_ONE}:
            left = [
                p
                for p in self.ledger.alive.values()
                if p.parent is on and p.id.isdigit() and int(p.id) >= number
            ]
            self.ledger.expect(not left, "{} are left of {} partitions", left, number)
        process = parts.route(self.rng.randrange(9))
        self.ledger.expect(process.ready and process.alive, "{} was routed to", process)

    async def _tasks(self, on: AnySupervisor, _: str) -> None:
        if not isinstance(on, DynamicSupervisor):
            return
        crew, item = TaskSupervisor(on), self.rng.randrange(9)
        task: Any = await crew.spawn_linked(double, item)
        if task.owner is not None:  # a child that is a user
            self.ledger.signals.linked(task.owner, task.process)
        result = await task.result(self.rng.choice([0.1, 9]))
        self.ledger.expect(result == 2 * item, "{} gave {}", task, result)
