"""A sandbox that plays what a test has written down, in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

from attrs import frozen

from otpy_agents.errors import CannotAdopt, SandboxUnavailable
from otpy_agents.sandbox import (
    ContainerIdentity,
    Ended,
    Identity,
    Job,
    LeftOver,
    Listener,
    Running,
)

__all__ = ["FOREVER", "Play", "ScriptedSandbox"]

FOREVER = 1e12


@frozen(kw_only=True)
class Play:
    """What one attempt does.

    Attributes:
        lines: Each with the seconds before it; those that begin with `!` go to the error stream.
        lasts: Seconds after the last line until it ends by itself.
        code: What it exits with.
        starting: Seconds until it runs.
        deaf: Whether it ignores the request to end until the grace is over.
    """

    lines: tuple[tuple[float, str], ...] = ()
    lasts: float = 1.0
    code: int = 0
    starting: float = 0.0
    deaf: bool = False
    refuses: BaseException | None = None
    left_over: tuple[LeftOver, ...] = ()
    artifacts: tuple[str, ...] = ()
    cut: int = 0


def ok(text: str = "done") -> Play:
    return Play(lines=((0.0, text),))


def network() -> Play:
    return Play(lines=((0.0, "!connection reset by peer"),), code=1)


def limited(wait: str = "") -> Play:
    line = '{"type": "error", "message": "rate limited%s", "status": 429}' % wait  # noqa: UP031
    return Play(lines=((0.0, line),), code=1)


def silent() -> Play:
    return Play(lasts=FOREVER)


class ScriptedSandbox:
    """Plays one `Play` for each attempt, in order; the last one again and again.

    It is an engine of its own: what it runs outlives the host, if that host does not end it.

    Attributes:
        jobs: What was run, in order.
        alive: What runs now, by identity.
        most: How many ran at the same time, of one run.
    """

    name: ClassVar[str] = "scripted"
    inherits: ClassVar[bool] = False

    def __init__(self, *plays: Play, adoptable: bool = True) -> None:
        self.plays = deque(plays)
        self.jobs: list[Job] = []
        self.alive: dict[Identity, Scripted] = {}
        self.most = 0
        self.adopted: list[Identity] = []
        self.cleared: list[Mapping[str, str]] = []
        self.unavailable = ""
        self.adoptable = adoptable

    async def check(self) -> None:
        await asyncio.sleep(0)
        if self.unavailable:
            raise SandboxUnavailable(self.name, self.unavailable)

    @asynccontextmanager
    async def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        await self.check()
        self.jobs.append(job)
        play = self.plays.popleft() if len(self.plays) > 1 else self.plays[0]
        await asyncio.sleep(play.starting)
        if play.refuses is not None:
            raise play.refuses
        running = Scripted(job, play, on_stdout, on_stderr, ContainerIdentity(f"c{len(self.jobs)}"))
        self.alive[running.identity] = running
        alike = [one for one in self.alive.values() if one.job.run_id == job.run_id]
        self.most = max(self.most, len(alike))
        async with self._playing(running):
            yield running

    @asynccontextmanager
    async def adopt(
        self, identity: Identity, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        await asyncio.sleep(0)
        running = self.alive.get(identity)
        if running is None or not self.adoptable:
            raise CannotAdopt(self.name, str(identity), "it is gone")
        self.adopted.append(identity)
        running.heard_by(on_stdout, on_stderr)
        async with self._playing(running):
            yield running

    @asynccontextmanager
    async def _playing(self, running: Scripted) -> AsyncGenerator[None]:
        running.play_on()
        try:
            yield
        finally:
            running.halt()
            self.alive.pop(running.identity, None)

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        await self.check()
        return tuple(
            identity
            for identity, one in self.alive.items()
            if marker.items() <= one.job.marker.items()
        )

    async def clear(
        self, marker: Mapping[str, str], recorded: Iterable[Identity] = (), *, grace: float = 5.0
    ) -> tuple[LeftOver, ...]:
        await self.check()
        self.cleared.append(marker)
        found = dict.fromkeys((*await self.find(marker), *recorded))
        return tuple(
            LeftOver("scripted", one) for one in found if self.alive.pop(one, None) is not None
        )


class Scripted:
    """One attempt that is played."""

    def __init__(
        self,
        job: Job,
        play: Play,
        on_stdout: Listener,
        on_stderr: Listener,
        identity: ContainerIdentity,
    ) -> None:
        self.job, self.play = job, play
        self.identity: Identity = identity
        self.survivors: tuple[LeftOver, ...] = ()
        self.output_bytes = 0
        self._listeners = (on_stdout, on_stderr)
        self._heard: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._began = self._last = self._loop.time()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._timers: list[asyncio.TimerHandle] = []

    def heard_by(self, on_stdout: Listener, on_stderr: Listener) -> None:
        """Be heard from the first line, by somebody new, perhaps in another loop."""
        self._listeners = (on_stdout, on_stderr)
        before = self._heard
        self._heard = []
        for line in before:
            self._write(line)

    def play_on(self) -> None:
        at = self._began
        for number, (delay, line) in enumerate(self.play.lines):
            at += delay
            if number >= len(self._heard):
                self._timers.append(self._loop.call_at(at, self._write, line))
        self._timers.append(self._loop.call_at(at + self.play.lasts, self._end, self.play.code))

    def halt(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _write(self, line: str) -> None:
        self._heard.append(line)
        self._last = self._loop.time()
        self.output_bytes += len(line) + 1
        self._listeners[line.startswith("!")](line.removeprefix("!"))

    def _end(self, code: int) -> None:
        self.halt()
        lines = self._heard
        if not self._ended.done():
            self._ended.set_result(
                Ended(
                    exit_code=code,
                    stdout="".join(f"{line}\n" for line in lines if not line.startswith("!")),
                    stderr="".join(f"{line[1:]}\n" for line in lines if line.startswith("!")),
                    left_over=self.play.left_over,
                    artifacts=self.play.artifacts,
                    cut=self.play.cut,
                )
            )

    @property
    def quiet(self) -> float:
        return self._loop.time() - self._last

    async def wait(self) -> Ended:
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        if self.play.deaf:
            async with asyncio.timeout(self.job.limits.grace):
                await asyncio.shield(self._ended)
        self._end(143)

    async def kill(self) -> None:
        await asyncio.sleep(0)
        self._end(137)
