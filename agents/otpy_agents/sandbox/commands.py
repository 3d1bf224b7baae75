"""Commands that judge an agent's work, run where they can do no harm (C-44, ENG-12, ENG-14)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, final

from attrs import evolve, field, frozen

from otpy_agents.errors import AgentsError, SandboxUnavailable
from otpy_agents.process.orphans import Recorded
from otpy_agents.sandbox.behaviour import Job, Mount, Running, Sandbox, SandboxLimits
from otpy_agents.sandbox.bubblewrap import BubblewrapSandbox
from otpy_agents.sandbox.launch import Launch
from otpy_agents.sandbox.output import OUTPUT_LIMIT, KeptLines
from otpy_agents.sandbox.process import ProcessSandbox

__all__ = [
    "WRITTEN_LIMIT",
    "SandboxCommand",
    "CommandOutcome",
    "CommandSandbox",
    "place_within",
    "programs_below",
]

_OWN_TMP: Final = Path("/tmp")  # noqa: S108 - in bubblewrap an empty one lies over it

WRITTEN_LIMIT: Final = 50_000_000
"""Bytes of output for which a command is ended; of a container they are on the disk meanwhile."""

_LOOK_EVERY: Final = 0.25
"""Seconds between two looks at what a command has started and written."""


@frozen(kw_only=True)
class SandboxCommand:
    """A command, and its surroundings.

    Attributes:
        argv: Program and arguments; no shell reads them.
        folder: The judged folder, which it finds at the same place and cannot change; absolute.
        label: Its owner, for people and for `CommandSandbox.clear`.
        deadline: Seconds that it may take.
        cwd: Its work directory, in `folder`; None for `folder` itself.
        environment: Variables, beside those that the sandbox hands on.
        mounts: More of the host that it sees, over what lies in `folder`. The place of each has to
            be there.
    """

    argv: tuple[str, ...]
    folder: Path
    label: str
    deadline: float
    cwd: Path | None = None
    environment: Mapping[str, str] = field(factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()


@frozen
class CommandOutcome:
    """The result of a command.

    Attributes:
        exit_code: None if it has none: it was not started, or it was ended.
        output: What it wrote, on both streams, of which 10 MiB are kept; without an exit code its
            last line says why.
        is_late: Whether it was ended because it took too long.
        is_excess: Whether it was ended because it started or wrote too much.
    """

    exit_code: int | None
    output: str = ""
    is_late: bool = False
    is_excess: bool = False

    @property
    def is_started(self) -> bool:
        """Whether it ran at all."""
        return self.exit_code is not None or self.is_late or self.is_excess


def programs_below(folder: Path, environment: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the visible parts of a hidden folder: programs, and our interpreter.

    A virtual environment may be there, and a command that tests what was done needs it.
    """
    named = (Path(entry) for entry in environment.get("PATH", "").split(os.pathsep))
    bins = [Path(sys.prefix, "bin"), *(entry for entry in named if entry.is_absolute())]
    places = (place if place.parent == folder else place.parent for place in bins)
    for place in dict.fromkeys(places):
        if place != folder and place.is_relative_to(folder) and place.is_dir():
            yield Mount(place)


def place_within(folder: Path, name: str) -> Path | None:
    """Return where `name` is or would be, with all links followed; None if that is outside.

    An agent may have put a link there.
    """
    place = Path(os.path.realpath(folder / name))
    return place if place.is_relative_to(os.path.realpath(folder)) else None


@final
class CommandSandbox:
    """Runs commands without a network, with the judged files read-only.

    Where bubblewrap does not work, and no other sandbox was asked for, they run as plain processes,
    which is told once. One that takes too long, starts too much or writes more than 50 MB is ended.

    Args:
        tell: Is given one line if they are not isolated.
        inherited: Variables of this host that a command gets, where it finds the programs of this
            host; an image has its own.
        sandbox: Where they run; None for bubblewrap where it works.
        limits: What each may use. `cpus` holds in containers only. `pids` is held by the engine of
            containers; elsewhere the processes are counted four times a second (on Linux).
    """

    def __init__(
        self,
        tell: Callable[[str], object],
        *,
        inherited: Mapping[str, str],
        sandbox: Sandbox | None = None,
        limits: SandboxLimits | None = None,
    ) -> None:
        self._tell = tell
        self._inherited = inherited
        self._wanted = sandbox
        self._found: Sandbox | None = None
        self._limits = limits or SandboxLimits()
        self._count = 0
        self._choice = asyncio.Lock()

    async def sandbox(self) -> Sandbox:
        """Return where commands run; found out the first time.

        Raises:
            SandboxUnavailable: The one that was asked for does not work here.
        """
        async with self._choice:
            if self._found is None:
                self._found = await self._chosen()
        return self._found

    def variables(self, sandbox: Sandbox) -> dict[str, str]:
        """Return the variables that each command gets there."""
        return dict(self._inherited) if sandbox.inherits else {}

    async def run(self, command: SandboxCommand) -> CommandOutcome:
        """Run a command, and return its end, even if it cannot be started.

        Cancellation:
            The command is ended, with all it has started.
        """
        kept = KeptLines(OUTPUT_LIMIT)
        try:
            sandbox = await self.sandbox()
            async with sandbox.run(
                self._job(command, sandbox),
                on_stdout=partial(kept.add, 0),
                on_stderr=partial(kept.add, 1),
            ) as running:
                code, why = await self._end_of(running, command, sandbox)
        except AgentsError as error:
            return CommandOutcome(None, str(error))
        # Beside whole lines, ends of lines that were too long are missing.
        output = kept.text(0, 1, missing=max(0, running.output_bytes - kept.seen))
        if why is None:
            return CommandOutcome(code, output)
        return evolve(why, output=f"{output}{why.output}")

    async def clear(self, label: str) -> None:
        """End what commands of this label have left, also those of a host that is gone.

        Raises:
            SandboxUnavailable: The sandbox does not answer.
        """
        await (await self.sandbox()).clear({"OTPY_COMMAND": label})

    def _job(self, command: SandboxCommand, sandbox: Sandbox) -> Job:
        self._count += 1
        cwd = command.cwd or command.folder
        variables = self.variables(sandbox)
        hidden = programs_below(_OWN_TMP, variables) if sandbox.name == "bubblewrap" else ()
        is_container = sandbox.name == "docker"
        return Job(
            run_id=f"command-{os.getpid()}",
            attempt=self._count,
            launch=Launch(argv=command.argv),
            cwd=cwd,
            environment={**variables, **command.environment},
            marker={
                "OTPY_COMMAND": command.label,
                "OTPY_COMMAND_ID": f"{os.getpid()}/{self._count}/{id(self)}",
            },
            limits=self._limits if is_container else evolve(self._limits, cpus=None, pids=None),
            network=False,
            mounts=(*hidden, Mount(command.folder), Mount(cwd), *command.mounts),
        )

    async def _end_of(
        self, running: Running, command: SandboxCommand, sandbox: Sandbox
    ) -> tuple[int | None, CommandOutcome | None]:
        """Wait for the end of a command and return its exit code, or say why it is to be ended."""
        most = None if sandbox.name == "docker" else self._limits.pids
        wait = asyncio.create_task(running.wait())
        watch = asyncio.create_task(_excess(running, most))
        try:
            await asyncio.wait(
                {wait, watch}, timeout=command.deadline, return_when=asyncio.FIRST_COMPLETED
            )
            if wait.done():
                return wait.result().exit_code, None
            if not watch.done():
                return None, CommandOutcome(
                    None, f"ended after {command.deadline:g} s", is_late=True
                )
            if sandbox.name != "docker":
                # A container would first be read to its end, of which there may be gigabytes.
                await running.kill()
            return None, CommandOutcome(None, f"ended for {watch.result()}", is_excess=True)
        finally:
            wait.cancel()
            watch.cancel()
            await asyncio.wait({wait, watch})

    async def _chosen(self) -> Sandbox:
        sandbox = self._wanted or BubblewrapSandbox()
        try:
            await sandbox.check()
        except SandboxUnavailable as error:
            if self._wanted is not None:
                raise
            self._tell(f"commands run unisolated here: {error}")
            return ProcessSandbox()
        return sandbox


async def _excess(running: Running, most: int | None) -> str:
    """Wait until a command has started or written too much, and return what.

    Args:
        running: The command.
        most: Processes and threads it may have; None to leave them uncounted.
    """
    root = running.identity
    while running.output_bytes <= WRITTEN_LIMIT:
        if most is not None and isinstance(root, Recorded) and _counted(root, most) > most:
            return f"more than {most} processes and threads"
        await asyncio.sleep(_LOOK_EVERY)
    return f"more than {WRITTEN_LIMIT // 1_000_000} MB of output"


def _counted(root: Recorded, enough: int) -> int:
    """Count the processes and threads below a process, until there are more than enough."""
    count = 0
    pending = [str(root.pid)]
    while pending and count <= enough:
        tasks = Path("/proc", pending.pop(), "task")
        try:
            for task in os.listdir(tasks):  # noqa: PTH208 - a fork bomb is fast
                count += 1
                pending += (tasks / task / "children").read_text(encoding="ascii").split()
        except OSError:
            continue  # it has ended, or the system does not tell
    return count
