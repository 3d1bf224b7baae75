"""Users of a random tree, who ask for whatever comes to their minds."""

from __future__ import annotations

import asyncio
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
from otpy.errors import NotFound
from tests.simulation.children import PLAIN, SIGNALLING, double, drawn_worker
from tests.simulation.ledger import Ledger, Office, supervisors

if TYPE_CHECKING:
    from otpy._runtime.tree import AnySupervisor

_BY_HAND = 1000  # more than any number of resizes


class User:
    """One user.

    Attributes:
        asked: How often it asked for something.
    """

    def __init__(self, seed: float, ledger: Ledger) -> None:
        self.rng = random.Random(seed)
        self.ledger = ledger
        self.asked = 0

    async def use(self, root: AnySupervisor, times: int) -> None:
        """Ask a few times, until the tree has ended."""
        rng = self.rng
        for _ in range(times):
            await asyncio.sleep(rng.choice([0, 0, 0.1, 0.3, 1, rng.uniform(0, 1)]))
            if root.ended:
                return
            on = rng.choice([*supervisors(root)])
            self.asked += 1
            with suppress(OtpyError, TimeoutError):
                async with asyncio.timeout(rng.choice([None, None, 0, 0.01, 1])):
                    await self._ask(on)

    async def _ask(self, on: AnySupervisor) -> object:
        rng, ledger = self.rng, self.ledger
        ids = [node.id for node in on.snapshot().children] or ["nobody"]
        waiting = [node.id for node in on.snapshot().children if node.due_in is not None]
        key = rng.choice(waiting or ids)
        path = f"{on.path}/{key}"

        def touching(ask: Callable[[str], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
            async def touch() -> object:
                ledger.touched.add(path)
                return await ask(key)

            return touch

        asks: list[Callable[[], Awaitable[object]]] = [
            lambda: self._end(on, key),
            lambda: self._end(on, key),
            lambda: self._visit(on, key),
            lambda: self._watch(on, key),
            lambda: self._link(on, key),
            lambda: self._wait(on, key),
            lambda: self._stop(on),
            lambda: self._look(on),
            lambda: self._start(on),
            lambda: self._start(on),
            lambda: self._retry(on, key),
            lambda: self._retry(on, key),
            touching(on.terminate_child),
            touching(on.terminate_child),
        ]
        if isinstance(on, Supervisor):
            asks += [
                touching(self._restart(on)),
                touching(self._restart(on)),
                touching(self._delete(on)),
                lambda: self._reconfigure(on),
                lambda: self._partitions(on),
            ]
        else:
            asks += [lambda: self._tasks(on), lambda: self._bury(on)]
        return await rng.choice(asks)()

    def _delete(self, on: Supervisor) -> Callable[[str], Awaitable[object]]:
        self.ledger.resized[on] += _BY_HAND
        return on.delete_child

    def _restart(self, on: Supervisor) -> Callable[[str], Awaitable[object]]:
        self.ledger.resized[on] += _BY_HAND  # it may be a partition
        return on.restart_child

    async def _retry(self, on: AnySupervisor, key: str) -> None:
        self.ledger.offices.setdefault(on, Office()).hurried = True
        await on.retry_now(key)

    async def _bury(self, on: DynamicSupervisor) -> None:
        """Terminate a process that has ended, which hits nobody."""
        dead = [p for p in self.ledger.lives if p.parent is on and not p.alive]
        if dead:
            with suppress(NotFound):
                await on.terminate_child(self.rng.choice(dead))
                self.ledger.expect(False, f"somebody was terminated in place of {dead}")

    async def _end(self, on: AnySupervisor, key: str) -> None:
        process: Process = on.child(key)
        if self.rng.random() < 0.4:
            self.ledger.killed.setdefault(process, self.ledger.loop.time())
            process.kill()
        else:
            self.ledger.blamed.add(process)
            process.exit(self.rng.choice([None, Shutdown("by a user")]))

    async def _visit(self, on: AnySupervisor, key: str) -> None:
        process = on.child(key)
        if process.behaviour is not None:
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
        self.ledger.expect(down.reason is process.exit_reason, f"{process} was told as {down}")

    async def _link(self, on: AnySupervisor, key: str) -> None:
        process, other = on.child(key), self.ledger.anybody(None)
        if other is not None:
            self.ledger.signals.link(process, other)
            if self.rng.random() < 0.3:
                self.ledger.signals.unlink(other, process)

    async def _wait(self, on: AnySupervisor, key: str) -> None:
        process = on.child(key)
        reason = await process.wait()
        self.ledger.expect(reason is process.exit_reason, f"{process} was told as {reason}")
        with suppress(OtpyError):
            async with asyncio.timeout(1):
                later = await on.wait_for_restart(key, after=process.incarnation)
                self.ledger.expect(later is not process, f"{process} is its own successor")

    async def _stop(self, on: AnySupervisor) -> None:
        if self.rng.random() < 0.3:
            self.ledger.offices.setdefault(on, Office()).told = True
            await on.stop()
            self.ledger.expect(on.ended, f"{on} was stopped")

    async def _look(self, on: AnySupervisor) -> None:
        known = await on.which_children()
        counts = await on.count_children()
        self.ledger.expect(counts.specs >= 0 <= len(known), "a count below nothing")

    async def _start(self, on: AnySupervisor) -> None:
        rng = self.rng
        fresh = drawn_worker(rng, f"n{rng.randint(0, 3)}", [*PLAIN, *SIGNALLING])
        if isinstance(on, Supervisor):
            self.ledger.touched.add(f"{on.path}/{fresh.id}")
        process = await on.start_child(fresh)
        if process is not None:
            self.ledger.expect(process.ready, f"{process} was handed out before it was ready")

    async def _reconfigure(self, on: Supervisor) -> None:
        rng, spec = self.rng, on._machine.spec
        children = [*spec.children]
        rng.shuffle(children)
        if children and rng.random() < 0.3:
            children.pop()
        changed: SupervisorSpec = evolve(
            spec, children=children, intensity=rng.randint(0, 9), strategy=rng.choice([*Strategy])
        )
        self.ledger.offices.setdefault(on, Office()).changed = True
        await on.reconfigure(changed)

    async def _partitions(self, on: Supervisor) -> None:
        try:
            parts = PartitionSupervisor(on)
        except TypeError:
            return
        for n in range(4):
            self.ledger.touched.add(f"{on.path}/{n}")
        number = self.rng.randint(0, 3)
        before = self.ledger.resized[on]
        self.ledger.resized[on] += 1
        await parts.resize(number)
        alone = before < _BY_HAND and self.ledger.resized[on] == before + 1
        if alone and on.running and on._machine.spec.strategy is Strategy.ONE_FOR_ONE:
            left = [
                p
                for p in self.ledger.alive.values()
                if p.parent is on and p.id.isdigit() and int(p.id) >= number
            ]
            self.ledger.expect(not left, f"{left} are left of {number} partitions")
        process = parts.route(self.rng.randrange(9))
        self.ledger.expect(process.ready and process.alive, f"{process} was routed to")

    async def _tasks(self, on: DynamicSupervisor) -> None:
        crew, item = TaskSupervisor(on), self.rng.randrange(9)
        task: Any = await crew.async_(double, item)
        result = await task.await_(self.rng.choice([0.1, 9]))
        self.ledger.expect(result == 2 * item, f"{task} gave {result}")
