"""A tree of two levels with every kind of child, and a host that can be cancelled at each step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import patch

from anyio.abc import TaskStatus

import otpy
from otpy import ChildSpec, ExitReason, GenServer, Strategy, Supervisor, SupervisorSpec
from otpy.reports import ChildAbandoned, ChildStopped
from otpy.testing import Recording
from tests.runtime.children import Boom, forever, turns

ORDER = ("plain", "slow", "context", "x", "y", "z", "server")
"""The workers in start order; x, y and z stand together under a supervisor of their own."""
SHUTDOWN = 2.0
CLEAN_UP = 0.5


@contextmanager
def before_each_step(act: Callable[[int], object]) -> Generator[None]:
    """Call `act(n)` before the n-th callback of the loop: each step of each task is a callback."""
    run: Callable[[asyncio.Handle], None] = asyncio.Handle._run
    count = 0

    def counted(handle: asyncio.Handle) -> None:
        nonlocal count
        count += 1
        act(count)
        run(handle)

    with patch.object(asyncio.Handle, "_run", counted):
        yield


class Stage:
    """A tree, and a record of one run of it.

    Attributes:
        lines: Of each worker, in order: `(` it begins, `+` it is ready, `!` it is about to crash,
            `)` its clean-up is over.
        reports: The reports of the tree.
        crash: Set it, and y crashes.
    """

    def __init__(self, *, waits_for_end: bool = False) -> None:
        self._waits_for_end = waits_for_end
        self.lines: list[str] = []
        self.reports = Recording()
        self.crash = asyncio.Event()

    def write(self, mark: str) -> None:
        """Record what happens to the running child."""
        self.lines.append(mark + otpy.current().id)

    async def clean_up(self) -> None:
        """Take some turns and some time."""
        await turns(2)
        await asyncio.sleep(CLEAN_UP)
        await turns(1)
        self.write(")")

    async def plain(self) -> None:
        """Be ready at once."""
        self.write("(")
        self.write("+")
        try:
            await forever()
        finally:
            await self.clean_up()

    async def slow(self, *, task_status: TaskStatus[None]) -> None:
        """Take some time to start, too."""
        self.write("(")
        try:
            await turns(2)
            await asyncio.sleep(1)
            task_status.started()
            self.write("+")
            await forever()
        finally:
            await self.clean_up()

    async def crasher(self, *, task_status: TaskStatus[None]) -> None:
        """Crash when told; otherwise end without delay."""
        self.write("(")
        try:
            await turns(1)
            task_status.started()
            self.write("+")
            await self.crash.wait()
            self.crash.clear()
            self.write("!")
            raise Boom
        finally:
            self.write(")")

    @asynccontextmanager
    async def context(self) -> AsyncGenerator[None]:
        """Enter and leave slowly."""
        self.write("(")
        try:
            await turns(2)
            self.write("+")
            yield
        finally:
            await self.clean_up()

    def spec(self, **limits: Any) -> SupervisorSpec:
        """Return the tree; `limits` are those of the inner supervisor."""

        def child(id: str, start: Any, *args: object) -> ChildSpec:
            return ChildSpec(id, start, args, shutdown=SHUTDOWN)

        group = [child("x", self.plain), child("y", self.crasher), child("z", self.slow)]
        return SupervisorSpec(
            "app",
            [
                child("plain", self.plain),
                child("slow", self.slow),
                child("context", self.context),
                SupervisorSpec("group", group, strategy=Strategy.ONE_FOR_ALL, **limits),
                child("server", Server, self),
            ],
            **limits,
        )

    async def body(self, root: Supervisor) -> None:
        """Make a child crash, and wait until its whole group is back or the tree has ended."""
        group = root.child("group").supervisor
        assert group is not None
        await turns(2)
        self.crash.set()
        if self._waits_for_end:
            await root.wait()
            return
        await group.wait_for_restart("z", after=1)
        await turns(2)

    async def host(self, **limits: Any) -> None:
        """Start, restart and stop the tree."""
        async with otpy.start(self.spec(**limits), hooks=[self.reports]) as root:
            await self.body(root)

    def check(self) -> None:
        """Check that starts were in order, stops in reverse, and every clean-up was completed."""
        alive: dict[str, str] = {}
        restarts = False
        for line in self.lines:
            mark, name = line[0], line[1:]
            place = ORDER.index(name)
            if mark == "(":
                assert name not in alive, self.lines
                assert all(alive.get(other) == "+" for other in ORDER[:place]), self.lines
            elif mark == ")":
                later = {other for other in ORDER[place + 1 :] if other in alive}
                if alive[name] != "!":  # otherwise it ended by itself
                    assert later <= ({"server"} if restarts else set()), self.lines
                del alive[name]
                continue
            elif mark == "!":
                restarts = True
            elif name == "z":
                restarts = False
            alive[name] = mark
        assert alive == {}, self.lines
        assert self.reports.of(ChildAbandoned) == ()
        assert [r for r in self.reports.of(ChildStopped) if r.context is not None] == []


class Server(GenServer[None, None, Stage]):
    """A server that takes some time to start and to end."""

    async def init(self, stage: Stage) -> Stage:
        self.stage = stage
        stage.write("(")
        try:
            await turns(2)
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            stage.write(")")
            raise
        stage.write("+")
        return stage

    async def terminate(self, reason: ExitReason, state: Stage) -> None:
        await state.clean_up()
