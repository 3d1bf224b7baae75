"""Children for the tests of the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import copy_context

from otpy import ChildSpec, ExitReason, Process, SupervisorSpec
from otpy._runtime.current import CURRENT
from otpy._runtime.life import Presence
from otpy._runtime.process import live_of


class Boom(Exception):
    """The error that a child raises when a test wants it to crash."""


class Journal:
    """A journal in which children record their beginnings and ends."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.crash: dict[str, asyncio.Event] = {}

    async def child(self, name: str, seconds: float = 0.0) -> None:
        """Live until cancelled, or told to crash; take `seconds` for the clean-up."""
        self.lines.append(f"+{name}")
        self.crash[name] = asyncio.Event()
        try:
            await self.crash[name].wait()
        except asyncio.CancelledError:
            if seconds:
                await asyncio.sleep(seconds)
            raise
        finally:
            self.lines.append(f"-{name}")
        raise Boom(name)

    def spec(self, name: str, seconds: float = 0.0) -> ChildSpec:
        """Return the spec of one such child."""
        return ChildSpec(name, self.child, (name, seconds))

    def tree(self, *names: str) -> SupervisorSpec:
        """Return a tree of such children."""
        return SupervisorSpec("app", [self.spec(name) for name in names])

    @asynccontextmanager
    async def service(self, name: str) -> AsyncGenerator[str]:
        """Live as a context manager."""
        self.lines.append(f"+{name}")
        try:
            yield name
        finally:
            self.lines.append(f"-{name}")


async def forever() -> None:
    """Run until cancelled."""
    await asyncio.get_running_loop().create_future()


async def unready(*, task_status: object) -> None:
    """End without having reported ready."""


async def crash() -> None:
    """Crash at once."""
    raise Boom("crash")


async def stubborn(release: asyncio.Event) -> None:
    """Swallow every cancellation until `release` is set."""
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue


def own_exit(process: Process, reason: ExitReason) -> None:
    """Call `process.exit(reason)` as the code of the process itself."""
    own = copy_context()
    own.run(CURRENT.set, Presence(live_of(process)))
    own.run(process.exit, reason)


async def turns(count: int) -> None:
    """Let the loop turn some times, without time passing."""
    for _ in range(count):
        await asyncio.sleep(0)
