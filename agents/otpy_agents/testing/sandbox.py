"""A sandbox for scripted agents; all other parts are real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, Final, TypeAlias, final

from attrs import define, field

from otpy_agents.agent.prompts import ASKING
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
from otpy_agents.testing.script import (
    FAILURES,
    Ask,
    Crash,
    Do,
    ExitWith,
    Fail,
    Hang,
    LastStep,
    Say,
    Script,
    Spend,
    Succeed,
    UseTool,
    Write,
    line_of,
)

__all__ = ["Played", "ScriptedSandbox"]

_KILLED: Final = 137
_TERMINATED: Final = 143


Scripts: TypeAlias = Sequence[Script] | Callable[[int], Script]
"""What an agent does in its attempts: one script for each, or a function of their number."""


@final
@define(eq=False)
class Played:
    """One attempt that was made, as the agent saw it.

    Attributes:
        agent: Its assignment.
        run: Its run.
        prompt: Its prompt.
        session: The session it went on with; None for a new one.
        own_session: The session it told of.
        cwd: Where it worked.
        began: When, in seconds of the loop.
        ended: When; None as long as it has not.
        exit_code: How; None as long as it has not.
        lines: Its standard output, in order.
    """

    agent: str
    run: str
    prompt: str
    session: str | None
    own_session: str
    cwd: str
    began: float
    ended: float | None = None
    exit_code: int | None = None
    lines: list[str] = field(factory=list[str])


@final
class ScriptedSandbox:
    """Plays scripts, in the time of the loop, instead of starting anything.

    Agents are told apart by their assignment. Name the sandbox `scripted` in the order, and let the
    CLI be `command`; any argv will do.

    Args:
        scripts: By assignment: one script for each attempt, in order, the last one again and again.
            Who is not there finishes after a second. A function is called for each attempt, with
            its number from 1, and returns its script; what it raises, such as `SpawnFailed`, keeps
            the attempt from being started.

    Attributes:
        played: Every attempt, in order.
        unavailable: Why nothing can be started at present; empty if it can.
    """

    name: ClassVar[str] = "scripted"
    inherits: ClassVar[bool] = False

    def __init__(self, scripts: Mapping[str, Scripts] | None = None) -> None:
        self._scripts = dict(scripts or {})
        self.played: list[Played] = []
        self.unavailable = ""
        self._alive: dict[Identity, _Player] = {}

    @property
    def scripts(self) -> dict[str, Scripts]:
        """The scripts, by assignment; may be changed at any time."""
        return self._scripts

    @scripts.setter
    def scripts(self, scripts: Mapping[str, Scripts]) -> None:
        self._scripts = dict(scripts)

    def of(self, agent: str) -> list[Played]:
        """Return the attempts of an agent, in order."""
        return [one for one in self.played if one.agent == agent]

    @property
    def alive(self) -> tuple[Played, ...]:
        """The attempts that run now."""
        return tuple(player.played for player in self._alive.values())

    async def check(self) -> None:
        """Find no problems except those that a test sets.

        Raises:
            SandboxUnavailable: Nothing can be started at present.
        """
        await asyncio.sleep(0)
        if self.unavailable:
            raise SandboxUnavailable(self.name, self.unavailable)

    @asynccontextmanager
    async def run(
        self, job: Job, *, on_stdout: Listener, on_stderr: Listener
    ) -> AsyncGenerator[Running]:
        """Play the next script of the agent.

        Raises:
            SandboxUnavailable: Nothing can be started at present.
        """
        await self.check()
        variables = {**job.environment, **job.launch.environment}
        agent = variables.get("OTPY_ASSIGNMENT", "")
        number = len(self.of(agent)) + 1
        session = variables.get("OTPY_SESSION")
        played = Played(
            agent=agent,
            run=job.run_id,
            prompt=next(iter(job.launch.files.values()), ""),
            session=session,
            own_session=session or f"session-{len(self.played) + 1}",
            cwd=str(job.cwd),
            began=asyncio.get_running_loop().time(),
        )
        self.played.append(played)
        try:
            script = self._script(agent, number)
            if script.starting:
                await asyncio.sleep(script.starting)
        except BaseException:
            played.ended = asyncio.get_running_loop().time()
            raise
        player = _Player(job, script, played, on_stdout, on_stderr)
        self._alive[player.identity] = player
        try:
            yield player
        finally:
            player.end(ExitWith(code=_KILLED))
            del self._alive[player.identity]

    def _script(self, agent: str, number: int) -> Script:
        scripts = self._scripts.get(agent, (Script(),))
        if callable(scripts):
            return scripts(number)
        return scripts[min(number, len(scripts)) - 1]

    @asynccontextmanager
    async def adopt(
        self,
        identity: Identity,
        job: Job,  # noqa: ARG002 - an interface
        *,
        on_stdout: Listener,  # noqa: ARG002 - an interface
        on_stderr: Listener,  # noqa: ARG002 - an interface
    ) -> AsyncGenerator[Running]:
        """Refuse: a scripted attempt dies with its host."""
        raise CannotAdopt(self.name, str(identity), "it was only played")
        yield  # pragma: no cover - makes this a generator

    async def find(self, marker: Mapping[str, str]) -> tuple[Identity, ...]:
        """Return what plays with that marker."""
        await asyncio.sleep(0)
        return tuple(
            identity
            for identity, player in self._alive.items()
            if marker.items() <= player.job.marker.items()
        )

    async def clear(
        self,
        marker: Mapping[str, str],
        recorded: Iterable[Identity] = (),
        *,
        grace: float = 5.0,  # noqa: ARG002 - an interface
    ) -> tuple[LeftOver, ...]:
        """End what plays with that marker."""
        found = dict.fromkeys((*await self.find(marker), *recorded))
        for identity in found:
            if identity in self._alive:
                self._alive[identity].end(ExitWith(code=_KILLED))
        return ()


@final
class _Player:
    """One attempt that is played."""

    _numbers: ClassVar[list[int]] = [0]

    def __init__(
        self,
        job: Job,
        script: Script,
        played: Played,
        on_stdout: Listener,
        on_stderr: Listener,
    ) -> None:
        self.job, self.played = job, played
        self._numbers[0] += 1
        self.identity: Identity = ContainerIdentity(f"scripted-{self._numbers[0]}")
        self.survivors: tuple[LeftOver, ...] = ()
        self.output_bytes = 0
        self._script = script
        self._on_stdout, self._on_stderr = on_stdout, on_stderr
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._stderr: list[str] = []
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._playing = self._loop.create_task(self._play())

    # --- playing ----------------------------------------------------------------------------------

    async def _play(self) -> None:
        if self._script.session:
            self._write(line_of(type="session", id=self.played.own_session))
        for number, step in enumerate(self._script.steps):
            await asyncio.sleep(step.after)
            match step:
                case Say(text=text):
                    self._write(line_of(type="text", text=text))
                case UseTool():
                    call = f"call-{number}"
                    self._write(line_of(type="tool", id=call, name=step.name, input=step.input))
                    await asyncio.sleep(step.lasts)
                    self._write(line_of(type="tool_end", id=call, ok=step.ok))
                case Spend():
                    spent = {"input": step.input, "output": step.output, "cost_usd": step.cost_usd}
                    self._write(line_of(type="usage", **spent))
                case Write(text=text, stderr=stderr):
                    self._write(text, stderr=stderr)
                case Do(action=action):
                    action(self.played.cwd)
                case _:
                    await self._come_to(step)

    async def _come_to(self, step: LastStep) -> None:
        """Come to an end."""
        match step:
            case ExitWith():
                self.end(step, by_itself=True)
            case Succeed(answer=answer):
                self._write(line_of(type="result", text=answer))
                self.end(ExitWith(), by_itself=True)
            case Ask(question=question):
                self._write(line_of(type="result", text=f"{ASKING} {question}"))
                self.end(ExitWith(), by_itself=True)
            case Fail(detail=detail):
                error = FAILURES[detail]
                if error:
                    self._write(line_of(type="error", **error))
                self.end(ExitWith(code=1), by_itself=True)
            case Crash():
                self.end(ExitWith(code=_KILLED), by_itself=True)
            case Hang():
                await self._loop.create_future()

    def _write(self, line: str, *, stderr: bool = False) -> None:
        kept, told = self.played.lines, self._on_stdout
        if stderr:
            kept, told = self._stderr, self._on_stderr
        kept.append(line)
        self._last = self._loop.time()
        self.output_bytes += len(line) + 1
        told(line)

    def end(self, how: ExitWith, *, by_itself: bool = False) -> None:
        """Be over; the first end counts."""
        if not by_itself:
            self._playing.cancel()
        if self._ended.done():
            return
        self.played.ended, self.played.exit_code = self._loop.time(), how.code
        self._ended.set_result(
            Ended(
                exit_code=how.code,
                stdout="".join(f"{line}\n" for line in self.played.lines),
                stderr="".join(f"{line}\n" for line in self._stderr),
                artifacts=how.artifacts,
                cut=how.cut,
            )
        )

    # --- as a sandbox shows it --------------------------------------------------------------------

    @property
    def quiet(self) -> float:
        return self._loop.time() - self._last

    async def wait(self) -> Ended:
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        code = _TERMINATED
        if self._script.deaf:
            await asyncio.wait({self._ended}, timeout=self.job.limits.grace)
            code = _KILLED
        self.end(ExitWith(code=code))

    async def kill(self) -> None:
        await asyncio.sleep(0)
        self.end(ExitWith(code=_KILLED))
